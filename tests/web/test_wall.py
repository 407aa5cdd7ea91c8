"""The Sync wall page: its numbers are those of `syncwall plan wall`."""

import pytest

from syncwall.plan.choices import Scaling
from syncwall.plan.reference import start_of
from syncwall.plan.wall.sync_wall import WallPlan, wall_of
from syncwall.records import plain
from syncwall.show.wall import side_verdict
from syncwall.web.answers.wall import POINTS, compared
from syncwall.web.questions import AskedWall
from tests.describe.stated import stated

FLAGS = {
    "model": "llama-3.1-70b",
    "cluster": "dgx-h100",
    "nodes": "64",
    "layout.tp": "8",
    "layout.shard": "fsdp",
    "layout.global_batch": "1024",
}


@pytest.fixture(scope="module")
def record():
    """What the terminal prints as JSON."""
    start = start_of(stated(None, FLAGS))
    return plain(WallPlan(start, wall_of(start, 2**17)))


@pytest.mark.parametrize("scaling", list(Scaling))
def test_the_curve_is_that_of_the_terminal(client, run, record, scaling):
    answer = client.post("/api/wall", json={"run": run, "most": 2**17, "scaling": scaling}).json()
    (shown,) = answer["runs"]
    side = record["sides"][scaling]
    points = {point["gpus"]: point for point in side["curve"]}
    for i, gpus in enumerate(shown["gpus"]):
        assert shown["efficiency"][i] == points[gpus]["efficiency"]
        assert shown["step_s"][i] == points[gpus]["step_s"]
        assert shown["tokens_per_s"][i] == points[gpus]["tokens_per_s"]
    assert shown["verdict"] in record["verdict"]
    assert shown["causes"] == side["causes"]
    assert shown["fastest"] == side["fastest"]
    walls = [{key: one[key] for key in side["walls"][0]} for one in shown["walls"]]
    assert walls == side["walls"]


def test_few_points_are_shown_and_every_wall_is_one_of_them(client, run):
    asked = {"run": run, "scaling": "weak"}
    (shown,) = client.post("/api/wall", json=asked).json()["runs"]
    assert shown["counts"] > len(shown["gpus"]) <= POINTS + 8
    assert shown["gpus"] == sorted(set(shown["gpus"]))
    for wall in shown["walls"]:
        assert {wall["holds_to_gpus"], wall["falls_at_gpus"]} - {None} <= set(shown["gpus"])
        at = shown["gpus"].index(wall["holds_to_gpus"])
        assert wall["efficiency"] == shown["efficiency"][at] >= wall["level"]


def test_the_ledger_adds_up_to_the_step_at_every_count(client, run):
    (shown,) = client.post("/api/wall", json={"run": run, "scaling": "weak"}).json()["runs"]
    for i, step_s in enumerate(shown["step_s"]):
        assert sum(part[i] for part in shown["ledger_s"].values()) == pytest.approx(step_s)


def test_others_stand_beside_it_and_one_that_cannot_be_says_so(client, run):
    others = [{**run, "cluster": "dgx-b200"}, {**run, "cluster": "no-such"}, {**run, "seq": 0}]
    answer = client.post("/api/wall", json={"run": run, "others": others}).json()
    first, second, third, fourth = answer["runs"]
    alone = client.post("/api/wall", json={"run": others[0]}).json()["runs"][0]
    assert second == alone != first
    assert third["problems"][0]["where"] == "cluster"
    assert fourth["problems"][0]["where"] == "seq"


def test_what_moves_the_wall_is_that_of_the_terminal(client, run, record):
    rows = client.post("/api/wall/moves", json={"run": run, "most": 2**17}).json()["rows"]
    assert rows[0]["walls"]["strong"] == record["sides"]["strong"]["walls"]
    assert [row["walls"] for row in rows[1:]] == [one["walls"] for one in record["moved"]]


def test_without_a_batch_it_takes_that_of_the_terminal(run):
    del run["layout"]["global_batch"]
    flags = {key: text for key, text in FLAGS.items() if key != "layout.global_batch"}
    start = start_of(stated(None, flags))
    side = wall_of(start, 2**14).sides[Scaling.STRONG]
    (shown,) = compared(AskedWall(run=run, most=2**14))["runs"]
    assert shown["verdict"] == side_verdict(side)
    assert shown["left_open"]["global_batch"] == start.assumed["global_batch"]


@pytest.mark.parametrize(
    ("change", "where"),
    [
        ({"model": "no-such"}, "model"),
        ({"cluster": "/etc/passwd"}, "cluster"),
        ({"layout": {"tp": 3}}, "layout.dp"),
        ({"layout": {"tp": 8, "global_batch": 2**33}}, "layout.global_batch"),
        ({"layout": {"tp": 1, "shard": "ddp", "global_batch": 1024}}, ""),
    ],
)
def test_what_cannot_be_is_refused(client, run, change, where):
    answer = client.post("/api/wall", json={"run": {**run, **change}})
    assert answer.status_code == 422
    assert answer.json()["problems"][0]["where"] == where
    assert "--" not in answer.json()["problems"][0]["what"]


@pytest.mark.parametrize(
    "asked", [{"most": 2**21}, {"most": 0}, {"scaling": "sideways"}, {"others": [1]}, {"more": 1}]
)
def test_no_more_than_is_offered(client, run, asked):
    assert client.post("/api/wall", json={"run": run, **asked}).status_code == 422
    assert client.post("/api/wall", json={"run": run, "others": [run] * 6}).status_code == 422


def test_too_few_gpus_for_one_replica(client, run):
    answer = client.post("/api/wall", json={"run": run, "most": 4})
    assert answer.status_code == 422
    assert "no number of GPUs up to 4" in answer.json()["problems"][0]["what"]


def test_the_band_is_that_of_predictions_and_closes_at_the_base(client, run):
    found = client.post("/api/wall", json={"run": run, "most": 4096}).json()["runs"][0]
    here = found["gpus"].index(512)
    step = client.post("/api/predict", json=run).json()
    factor = found["step_factor"][here]
    ends = [step["step_s"] / factor, step["step_s"] * factor]
    assert ends == pytest.approx(step["step_interval_s"], rel=0.02)
    assert found["efficiency_factor"][found["gpus"].index(found["base"]["gpus"])] == 1
    assert all(one >= 1 for one in found["efficiency_factor"])


def test_a_changed_layout_can_be_asked_for_again(client, run):
    rows = client.post("/api/wall/moves", json={"run": run}).json()["rows"]
    (relaid,) = [one for one in rows if one["change"].startswith("layout")]
    keys = relaid["keys"]["strong"]
    layout = {key.removeprefix("layout."): value for key, value in keys.items()}
    again = {**run, "layout": {**run["layout"], **layout}}
    found = client.post("/api/wall", json={"run": again}).json()["runs"][0]
    assert f"tp {layout['tp']}" in found["layout"] or layout["tp"] == 1
