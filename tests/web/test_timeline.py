"""The timeline in columns: what it holds is what the Python functions say."""

import time

import pytest

import syncwall as sw
from syncwall.problems import InputError
from syncwall.web.answers.prediction import MOST, timeline
from syncwall.web.questions import AskedRun
from syncwall.web.workers import encoded

TICKS = 1e7


def test_columns_are_the_intervals(run):
    asked = AskedRun(**run)
    said = timeline(asked)
    found = sw.predict(asked.run()).timeline()
    every = [o for o in (*found.intervals, *found.waits) if (o.end_s - o.start_s) * TICKS >= 1]
    assert len(said["op"]) == len(said["start"]) == len(said["duration"]) == len(said["layer"])
    assert len(said["op"]) == len(every)
    for index, interval in enumerate(every):
        operation = said["operations"][said["op"][index]]
        assert said["start"][index] == pytest.approx(interval.start_s * TICKS, abs=0.51)
        assert said["duration"][index] == pytest.approx((interval.end_s - interval.start_s) * TICKS, abs=1.01)
        assert operation["cause"] == interval.cause
        assert operation.get("wait", False) == (interval.what is None)
        if interval.what is not None:
            assert operation["name"] == interval.name
            assert operation["flops"] == float(getattr(interval.what, "flops", 0.0))


def test_no_two_intervals_of_a_lane_overlap(run):
    said = timeline(AskedRun(**run))
    for lane in said["lanes"]:
        mine = [
            (said["start"][i], said["duration"][i])
            for i, op in enumerate(said["op"])
            if said["operations"][op]["stream"] == lane["stream"]
        ]
        now = 0
        for start, duration in sorted(mine):
            assert start >= now
            now = start + duration
        assert now <= said["end"]


def test_layers_backward_count_down(run):
    said = timeline(AskedRun(**run))
    names = [said["operations"][op] for op in said["op"]]
    chosen = [
        layer
        for operation, layer in zip(names, said["layer"], strict=True)
        if operation["name"] == "MLP activation" and operation["phase"] == "backward"
    ]
    assert chosen == list(range(80, 0, -1))


def test_every_operation_says_formula_and_source(run):
    said = timeline(AskedRun(**run))
    for operation in said["operations"]:
        if not operation.get("wait"):
            priced = said["priced"][operation["priced"]]
            assert priced["formula"]
            assert ".md" in priced["source"]
            assert operation["shape"]
            assert operation["rate"] > 0
    assert [phase["name"] for phase in said["phases"]] == ["forward", "backward", "optimizer"]
    assert said["phases"][-1]["end"] == said["end"]


def test_it_is_small_and_quick(run):
    asked = AskedRun(**run)
    assert len(encoded(timeline(asked))) < 160_000
    predicting, drawing = [], []
    for _ in range(7):
        begun = time.process_time()
        sw.predict(asked.run())
        between = time.process_time()
        timeline(asked)
        predicting.append(between - begun)
        drawing.append(time.process_time() - between)
    assert min(drawing) < 2.4 * min(predicting)  # it predicts, and draws: about 1.1


def test_more_than_can_be_drawn_is_refused_before_it_is_made(run):
    model = {"base": "llama-3.1-8b", "layers": 10**5}
    begun = time.process_time()
    with pytest.raises(InputError, match="too many to draw"):
        timeline(AskedRun(**run | {"model": model, "layout": {}}))
    assert time.process_time() - begun < 1
    most = timeline(AskedRun(**run | {"model": model | {"layers": 1500}, "layout": {}}))
    assert MOST / 2 < len(most["op"]) <= MOST + 5000


def test_the_route(client, run):
    answer = client.post("/api/timeline", json=run)
    assert answer.status_code == 200
    assert answer.json() == timeline(AskedRun(**run))
    wrong = client.post("/api/timeline", json=run | {"model": "no-such-model"})
    assert wrong.status_code == 422
    assert wrong.json()["problems"][0]["where"] == "model"
