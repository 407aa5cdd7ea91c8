"""What is offered to mend a run makes it possible."""

import pytest

from syncwall.web.answers.prediction import fixes
from syncwall.web.questions import AskedRun

RUN = {
    "model": "llama-3.1-70b",
    "cluster": "dgx-h100",
    "nodes": 64,
    "layout": {"tp": 8, "shard": "fsdp", "global_batch": 1024},
}


def mended(run, keys):
    """The run after a click."""
    changed = {**run, "layout": dict(run["layout"])}
    for key, value in keys.items():
        part, _, name = key.partition(".")
        (changed[part] if name else changed)[name or part] = value
    return changed


@pytest.mark.parametrize(
    ("wrong", "where", "offered"),
    [
        ({"tp": 7}, "layout.tp", {"layout.tp": 8}),
        ({"pp": 7}, "layout.dp", {"layout.pp": 8}),
        ({"shard": "fsp"}, "layout.shard", {"layout.shard": "fsdp"}),
        ({"global_batch": 1000}, "layout.global_batch", {"layout.global_batch": 1024}),
        ({"micro_batch": 3}, "layout.global_batch", {"layout.micro_batch": 4}),
        ({"ep": 4}, "layout.ep", {"layout.ep": None}),
    ],
)
def test_the_nearest_possible_value_is_offered(client, wrong, where, offered):
    run = {**RUN, "layout": RUN["layout"] | wrong}
    found = client.post("/api/fixes", json=run).json()["fixes"]
    assert offered in [one["keys"] for one in found if one["where"] == where]
    for one in found:
        AskedRun(**mended(run, one["keys"])).run()


def test_names_are_mended_as_they_were_meant(client):
    for key, value in (("model", "llama-3.1-70b"), ("cluster", "dgx-h100")):
        run = {**RUN, key: value[:-1]}
        (one,) = client.post("/api/fixes", json=run).json()["fixes"]
        assert one["keys"] == {key: value}


def test_a_misspelt_word_is_mended_before_what_stands_behind_it():
    found = fixes(AskedRun(**{**RUN, "layout": {"tp": 7, "shard": "fsp", "global_batch": 1024}}))
    assert found["fixes"][0]["keys"] == {"layout.shard": "fsdp"}


def test_a_run_that_is_possible_needs_nothing():
    assert fixes(AskedRun(**RUN)) == {"fixes": []}
