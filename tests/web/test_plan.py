"""The Plan page: its numbers are those of `syncwall plan layouts`, and its links lead to them."""

import json
import re
from typing import Any

import pytest

import syncwall as sw
from syncwall.answer import predict
from syncwall.plan.choices import SEARCHED
from syncwall.plan.search import differences, search
from syncwall.problems import InputError
from syncwall.web.answers.plan import compared, searched
from syncwall.web.assets import assets
from syncwall.web.questions import AskedComparison, AskedRun, Search

RUN: dict[str, Any] = {
    "model": "llama-3.1-8b",
    "cluster": "dgx-h100",
    "nodes": 2,
    "layout": {"tp": 8, "shard": "fsdp", "global_batch": 64},
}
MOE: dict[str, Any] = {
    "model": "mixtral-8x7b",
    "cluster": "dgx-h100",
    "nodes": 2,
    "layout": {"global_batch": 64, "tp": 2, "micro_batch": 1, "recompute": "none"},
}
OTHER = {**RUN, "software": {"framework": "torchtitan"}, "seq": 16384}
FEW = ["tp", "shard"]
"""Fields that stay, so that a search is quick."""


@pytest.fixture(scope="module")
def answer():
    return searched(Search(run=RUN))


def taken(run, row):
    """The run that "use this" leads to."""
    layout = {**run.get("layout", {}), **row["keys"]}
    stated = {key: value for key, value in layout.items() if value is not None}
    return AskedRun(**{**run, "nodes": row["nodes"], "layout": stated})


def test_the_best_are_those_of_the_search(answer):
    cluster = sw.cluster("dgx-h100", nodes=2)
    found = search(sw.model("llama-3.1-8b"), cluster, global_batch=64)
    assert answer["layouts_possible"] == found.counted
    assert answer["layouts_fitting"] == found.fitting
    best = found.best(20)
    assert [row["step_s"] for row in answer["best"]] == [one.prediction.step_s for one in best]
    assert len(answer["front"]) == len(found.front)


@pytest.mark.parametrize("run", [RUN, MOE, OTHER], ids=["dense", "experts", "torchtitan"])
def test_every_row_leads_to_its_own_prediction(run):
    kept = [name for name in run["layout"] if name not in ("global_batch", "shard")]
    for row in searched(Search(run=run, keep=kept, top=6))["best"]:
        found = predict(taken(run, row).run())
        assert found.step_s == pytest.approx(row["step_s"], rel=1e-9)
        assert found.memory_bytes == pytest.approx(row["memory_bytes"], rel=1e-9)


def test_yours_is_the_run_as_it_stands(answer):
    assert answer["yours"]["step_s"] == predict(AskedRun(**RUN).run()).step_s
    assert answer["yours_wrong"] == ""


def test_a_layout_that_cannot_be_does_not_stop_the_search():
    found = searched(Search(run={**RUN, "nodes": 1, "layout": {"tp": 7, "global_batch": 8}}, top=1))
    assert found["yours"] is None
    assert found["yours_wrong"]
    assert found["best"]


def test_nothing_on_the_front_is_beaten(answer):
    points = sorted(answer["front"], key=lambda one: one["memory_bytes"])
    rates = [one["tokens_per_s_per_gpu"] for one in points]
    assert rates == sorted(rates)
    fastest = answer["fastest"] or answer["best"][0]
    assert max(rates) == pytest.approx(fastest["tokens_per_s_per_gpu"])


def test_what_is_kept_stays():
    found = searched(Search(run=RUN, keep=["tp", "shard"]))
    assert {row["layout"]["tp"] for row in found["best"]} == {8}
    assert {row["layout"]["shard"] for row in found["best"]} == {"fsdp"}


def test_what_no_search_chooses_always_stays():
    stated = {"gradient_dtype": "bf16", "bucket": "50 MiB"}
    run = {**RUN, "layout": {**RUN["layout"], **stated}}
    (row,) = searched(Search(run=run, keep=FEW, top=1))["best"]
    assert row["layout"]["gradient_dtype"] == "bf16"
    assert row["layout"]["bucket_bytes"] == 50 * 2**20


def test_limits_are_kept():
    answer = searched(Search(run=RUN, keep=FEW))
    assert answer["limit_bytes"] < answer["memory_size_bytes"]
    assert all(row["memory_bytes"] <= answer["limit_bytes"] for row in answer["best"])
    within = answer["best"][-1]["step_s"]
    quick = searched(Search(run=RUN, keep=FEW, within_s=within))
    assert [row["step_s"] for row in quick["best"]] == [
        row["step_s"] for row in answer["best"] if row["step_s"] <= within
    ]


def test_sizes_and_prices():
    found = searched(
        Search(run=RUN, keep=["tp"], nodes=[2, 1], objective="smallest", usd_per_gpu_hour=2.0, top=1)
    )
    assert {row["gpus"] for row in found["best"]} == {8}
    row = found["best"][0]
    assert row["cost"] == row["usd_per_billion_tokens"]
    assert row["cost"] == pytest.approx(2.0 / 3600 * 1e9 / row["tokens_per_s_per_gpu"])


def test_a_comparison_is_that_of_the_ledgers(answer):
    runs = [taken(RUN, answer["best"][0]), AskedRun(**RUN)]
    first, second = (predict(one.run()) for one in runs)
    found = compared(AskedComparison(runs=runs))["runs"]
    assert found[0]["differences"] == []
    assert [(one["cause"], one["seconds"]) for one in found[1]["differences"]] == [
        (one.cause, one.seconds) for one in differences(first, second)
    ]
    assert sum(found[1]["ledger_s"].values()) == pytest.approx(found[1]["step_s"])


def test_a_comparison_names_the_run_that_cannot_be():
    wrong = AskedRun(**{**RUN, "layout": {"tp": 7, "global_batch": 64}})
    with pytest.raises(InputError) as caught:
        compared(AskedComparison(runs=[AskedRun(**RUN), wrong]))
    assert all(one.key.startswith("runs.1.layout") for one in caught.value.problems)


def test_the_route_sends_lines(client):
    answer = client.post("/api/plan", json={"run": RUN, "keep": FEW, "top": 1})
    assert answer.headers["content-type"] == "application/x-ndjson"
    *before, last = map(json.loads, answer.text.splitlines())
    assert all(set(line) <= {"progress", "best"} and "progress" in line for line in before)
    assert len(last["answer"]["best"]) == 1


def test_a_search_is_kept_by_its_question(client):
    asked = {"run": {**RUN, "nodes": 1}, "keep": FEW, "top": 2}
    assert client.post("/api/plan/kept", json=asked).json() == {"answer": None}
    last = json.loads(client.post("/api/plan", json=asked).text.splitlines()[-1])
    assert client.post("/api/plan/kept", json=asked).json() == last
    again = client.post("/api/plan", json=dict(reversed(asked.items()))).text.splitlines()
    assert [json.loads(line) for line in again] == [last]
    other = {**asked, "top": 3}
    assert client.post("/api/plan/kept", json=other).json() == {"answer": None}


def test_the_run_as_it_stands_is_the_same_asked_apart(answer, client):
    apart = client.post("/api/plan/yours", json={"run": RUN}).json()
    for key in ("step_s", "memory_bytes", "cost", "said", "keys", "cells", "nodes"):
        assert apart["yours"][key] == answer["yours"][key]
    wrong = {**RUN, "layout": {"tp": 7, "global_batch": 64}}
    said = client.post("/api/plan/yours", json={"run": wrong}).json()
    assert said["yours"] is None
    assert "tp 7" in said["yours_wrong"]


def test_what_is_best_so_far_is_told_and_gets_better():
    told: list[dict[str, Any]] = []
    found = searched(
        Search(run=RUN, keep=FEW, beside_yours=False),
        progress=lambda share, **more: told.append(more),
    )
    best = [one["best"]["step_s"] for one in told if "best" in one]
    assert best == sorted(best, reverse=True)
    assert best[-1] == pytest.approx(found["best"][0]["step_s"], rel=1e-9)


def test_layouts_are_settings_of_every_framework(client):
    for format in client.get("/api/options").json()["settings"]:  # noqa: A001 - the word of users
        said = client.post("/api/settings", json={"run": RUN, "format": format}).json()
        assert said["text"]
    refused = client.post("/api/settings", json={"run": RUN, "format": "megatorn"})
    assert refused.status_code == 422
    assert 'did you mean "megatron"' in refused.json()["problems"][0]["what"]


@pytest.mark.parametrize(
    "more",
    [
        {"headroom": 0.1},
        {"within_s": -1},
        {"top": 10**6},
        {"nodes": [0]},
        {"nodes": [1] * 99},
        {"objective": "nicest"},
        {"usd_per_gpu_hour": 0},
        {"unknown": 1},
        {"keep": ["x"] * 99},
    ],
)
def test_what_is_out_of_bounds_is_refused_at_once(client, more):
    assert client.post("/api/plan", json={"run": RUN, **more}).status_code == 422


@pytest.mark.parametrize(
    ("run", "where"),
    [
        ({**RUN, "layout": {}}, "layout.global_batch"),
        ({**RUN, "layout": {"global_batch": 64, "tpp": 2}}, "layout.tpp"),
        ({**RUN, "model": "../../etc/passwd"}, "model"),
        ({**RUN, "nodes": 10**6, "layout": {"global_batch": 10**8}}, "layout.global_batch"),
        (
            {**RUN, "model": "deepseek-v3", "nodes": 7_560, "layout": {"global_batch": 720_720}},
            "keep",
        ),
    ],
)
def test_what_cannot_be_searched_is_said(client, run, where):
    last = json.loads(client.post("/api/plan", json={"run": run}).text.splitlines()[-1])
    assert where in {problem["where"] for problem in last["problems"]}


def test_the_page_knows_what_is_searched():
    script = assets()["word_list.js"].body.decode()
    listed = re.search(r"SEARCHED = \[(.*?)\]", script, re.DOTALL)
    assert listed is not None
    assert re.findall(r'"(\w+)"', listed[1]) == list(SEARCHED)
