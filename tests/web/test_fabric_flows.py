"""Flows on the Fabric page: the numbers of `predict --fabric` and of `plan placement`."""

import json
import shlex
from time import process_time
from typing import Any

import pytest
import yaml

from syncwall.answer.contention import UNPROVEN
from syncwall.cli import main
from syncwall.cost.contended_network import DRAWS
from syncwall.web.answers.fabric_flows import flows
from syncwall.web.questions import AskedFlows, AskedRun

RUN: dict[str, Any] = {
    "model": "llama-3.1-70b",
    "cluster": "dgx-h100",
    "nodes": 64,
    "layout": {"tp": 8, "shard": "fsdp", "global_batch": 256},
}
EXPERTS = {
    "model": "deepseek-v3",
    "cluster": "dgx-h100",
    "nodes": 32,
    "layout": {"ep": 64, "pp": 4, "shard": "zero1", "global_batch": 512, "micro_batch": 1},
}


def asked(run=RUN, **options):
    return flows(AskedFlows(run=AskedRun(**run), **options))


def printed(answer, run, folder, capsys, monkeypatch):
    """What the command of the page prints, with the files that it offers."""
    monkeypatch.chdir(folder)
    for name, text in answer["files"].items():
        (folder / name).write_text(text)
    if answer["jobs"]:
        words = f"plan placement jobs.yaml {answer['flags']}"
    else:
        (folder / "run.yaml").write_text(yaml.safe_dump(run))
        order = "--rank-order ranks.txt" if answer["files"] else ""
        words = f"predict run.yaml {answer['flags']} {order}"
    assert main([*shlex.split(words), "--json"]) in (0, 1)
    return json.loads(capsys.readouterr().out)


@pytest.mark.parametrize(
    ("run", "options"),
    [
        (RUN, {}),
        (RUN, {"order": "crossed"}),
        (RUN, {"kind": "fat-tree-2", "oversubscription": 3, "qps": 4}),
        (RUN, {"kind": "fat-tree-2", "routing": "static", "order": "crossed"}),
        (RUN, {"kind": "rail-only", "routing": "adaptive", "order": "crossed"}),
        (RUN, {"kind": "dragonfly", "routing": "valiant"}),
        (EXPERTS, {"kind": "fat-tree-2", "oversubscription": 2}),
    ],
)
def test_numbers_are_those_of_predict(run, options, tmp_path, capsys, monkeypatch):
    answer = asked(run, **options)
    found = printed(answer, run, tmp_path, capsys, monkeypatch)
    spread = found["contention"]
    assert answer["p50_s"] == found["step_s"] == spread["p50_s"]
    for mine, theirs in {
        "p90_s": "p90_s",
        "free_s": "free_s",
        "busiest": "busiest_link",
        "needed": "needed",
        "slower": "busiest_link_slower",
        "draws": "draws",
        "seed": "seed",
        "routing": "routing",
        "qps": "qps",
        "fabric": "fabric",
        "accuracy": "accuracy",
    }.items():
        assert answer[mine] == spread[theirs], mine
    assert all(one["slower"] <= answer["flows"][0]["slower"] for one in answer["flows"])


@pytest.mark.parametrize(
    "options",
    [
        {"jobs": "interleaved"},
        {"jobs": "apart", "kind": "fat-tree-2"},
        {"jobs": "interleaved", "kind": "fat-tree-2", "qps": 2, "oversubscription": 2},
        {"jobs": "interleaved", "routing": "adaptive", "order": "crossed", "oversubscription": 4},
    ],
)
def test_two_jobs_lose_what_plan_placement_says(options, tmp_path, capsys, monkeypatch):
    run = RUN | {"nodes": 32}
    answer = asked(run, **options)
    found = printed(answer, run, tmp_path, capsys, monkeypatch)
    assert answer["busiest"] == found["given_busiest_link"]
    assert answer["draws"] == found["draws"]
    for mine, theirs in zip(answer["jobs"], found["jobs"], strict=True):
        assert answer["free_s"] == theirs["free_step_s"]
        for key in ("slower_p50", "slower_p90", "step_p50_s", "step_p90_s"):
            assert mine[key] == theirs["given"][key], key
        assert mine["lost"] == mine["step_p50_s"] / answer["free_s"] - 1.0


def test_two_jobs_that_share_leaves_lose_more_than_two_that_do_not():
    apart, mixed = (
        asked(jobs=jobs, kind="fat-tree-2", oversubscription=4, routing="adaptive")
        for jobs in ("apart", "interleaved")
    )
    for alone, together in zip(apart["jobs"], mixed["jobs"], strict=True):
        assert together["lost"] > alone["lost"] >= 0.0


@pytest.mark.parametrize(
    "options", [{"run": RUN | {"nodes": 16}, "oversubscription": 4}, {"routing": "adaptive"}]
)
def test_where_it_is_not_needed_one_line_says_so(options):
    answer = asked(**options)
    (said,) = answer["said"]
    assert said.startswith("No shared link slows this run: none of this is needed")
    assert not answer["needed"]
    assert answer["p50_s"] == answer["free_s"]
    assert "load red" not in answer["svg"]


def test_what_it_rests_on_is_said():
    answer = asked(order="crossed", qps=4)
    said = " ".join(answer["said"])
    for words in ("ecmp routing", "4 queue pairs", f"{DRAWS} draws", "seed 0", UNPROVEN):
        assert words in said
    assert f"busiest link is {answer['busiest']}" in said
    assert answer["busiest"].replace(">", "&gt;") in answer["svg"]


def test_other_flows_can_be_drawn():
    slowest = asked(order="crossed")
    for one in slowest["flows"]:
        answer = asked(order="crossed", flows=one["id"])
        assert answer["shown"] == one["id"]
        assert one["name"] in answer["svg"]
        assert answer["p50_s"] == slowest["p50_s"]
    assert asked(flows="none of them")["shown"] == asked()["shown"]


def test_a_run_inside_a_node_has_no_picture():
    run = {**RUN, "model": "llama-3.1-8b", "nodes": 1, "layout": {"tp": 8, "global_batch": 8}}
    answer = asked(run)
    assert answer["svg"] is None
    assert not answer["needed"]


@pytest.mark.parametrize(
    "options",
    [
        {"kind": "rail-optimised"},
        {"kind": "rail-optimised", "qps": 16},
        {"kind": "fat-tree-3"},
        {"kind": "fat-tree-3", "routing": "adaptive"},
    ],
)
def test_a_large_fabric_is_answered_at_once_and_says_how(options):
    run = RUN | {"nodes": 2048, "layout": RUN["layout"] | {"global_batch": 2048}}
    asked(run, **options)
    begun = process_time()
    answer = asked(run, order="crossed", **options)
    assert process_time() - begun < 4.0  # about 1 s on an idle machine
    assert len(json.dumps(answer)) < 200_000
    if options.get("routing") == "adaptive":
        assert answer["draws"] == 1
        return
    assert answer["draws"] < DRAWS
    times = f"{answer['draws']} time"
    assert any(times in line and "predict" in line for line in answer["said"])


def test_what_the_page_cannot_route_is_refused(client):
    run = RUN | {"nodes": 2048, "layout": RUN["layout"] | {"global_batch": 2048}}
    answer = client.post("/api/fabric/flows", json={"run": run, "qps": 128})
    assert answer.status_code == 422
    assert "syncwall predict --fabric" in answer.json()["problems"][0]["what"]


@pytest.mark.parametrize(
    "options", [{"routing": "magic"}, {"qps": 0}, {"jobs": "three"}, {"failed": ["leaf:1"]}]
)
def test_what_cannot_be_is_refused_with_the_key(client, options):
    answer = client.post("/api/fabric/flows", json={"run": RUN} | options)
    assert answer.status_code == 422
    assert answer.json()["problems"][0]["where"].startswith(*options)


def test_a_fabric_that_predict_cannot_size_has_no_command(client):
    answer = asked(switch="spectrum-4-sn5600")
    assert answer["flags"] is None
    sent = client.post("/api/fabric/flows", json={"run": RUN, "switch": "spectrum-4-sn5600"})
    assert sent.json() == answer
