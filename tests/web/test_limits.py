"""How large bodies, refusals and answers may be: nobody else waits for one of them."""

import gc
import json
import time

import pytest

from syncwall.answer.timeline import interval_count
from syncwall.problems import InputError, Problem
from syncwall.web import workers
from syncwall.web.answers import prediction
from syncwall.web.event_streams import problem_list
from syncwall.web.guard import MAX_BODY_BYTES
from syncwall.web.questions import AskedRun, ExportKind
from syncwall.web.workers import encoded
from tests.web.bodies import BODIES

REFUSAL_BYTES = 64 * 1024
MODEL = {"name": "x", "hidden": 64, "vocab": 100, "attention": {"heads": 8}, "mlp": {"hidden": 128}}


@pytest.mark.parametrize("name", BODIES)
def test_no_body_stops_the_server_for_others(client, name):
    client.get("/api/openapi.json")
    gc.freeze()  # as `served` does
    headers = {"content-type": "application/json"}
    before = time.process_time()  # of the server; what workers compute stops nobody
    answer = client.post("/api/predict", content=BODIES[name], headers=headers)
    seconds = time.process_time() - before
    gc.unfreeze()
    assert seconds < 0.1
    assert answer.status_code in (400, 422)
    assert len(answer.content) < REFUSAL_BYTES
    assert len(BODIES[name]) <= MAX_BODY_BYTES


def test_the_first_problems_are_listed_and_the_others_counted():
    many = InputError([Problem(f"layout.{n:04}", 0, 0, "x" * 300) for n in range(1000)])
    listed = problem_list(many)
    shown = len(listed) - 1
    assert listed[0] == {"where": "layout.0000", "what": "x" * 300}
    assert listed[-1] == {"where": "", "what": f"and {1000 - shown} more"}
    assert len(json.dumps(listed)) < REFUSAL_BYTES
    long = problem_list(InputError([Problem("k" * 10**6, 0, 0, "\x01" * 10**6)] * 3))
    assert len(json.dumps(long)) < REFUSAL_BYTES


@pytest.mark.parametrize("layers", [4000, 10_000])
def test_a_trace_too_large_to_load_is_refused_before_it_is_made(client, run, layers):
    run |= {"model": {**MODEL, "layers": layers}, "seq": 128}
    answer = client.post("/api/export/perfetto", json=run)
    assert answer.status_code == 422
    assert "too many for a file (at most 30,000)" in answer.json()["problems"][0]["what"]


def test_the_largest_trace_can_be_sent(run, monkeypatch):
    layers = 300
    run |= {"model": {**MODEL, "layers": layers}, "seq": 128}
    run["layout"] = {"tp": 8, "sp": True, "shard": "fsdp", "recompute": "full"}
    asked = AskedRun(**run)
    count = interval_count(prediction.prediction_of(asked))
    size = len(encoded(prediction.exported(ExportKind.PERFETTO, asked)))
    assert size / count * prediction.MOST_EVENTS < workers.ANSWER_BYTES
    monkeypatch.setattr(prediction, "MOST_EVENTS", count - 1)
    with pytest.raises(InputError, match="too many for a file"):
        prediction.exported(ExportKind.PERFETTO, asked)


def test_no_answer_is_larger_than_can_be_sent(client, run, monkeypatch):
    monkeypatch.setattr(workers, "ANSWER_BYTES", 1000)
    assert encoded("x" * 998) == b'"' + b"x" * 998 + b'"'
    with pytest.raises(InputError, match="ask for less"):
        encoded("x" * 999)
