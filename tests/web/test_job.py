"""The Job page: its numbers are those of `syncwall predict --tokens ...`."""

from contextlib import suppress
from datetime import datetime

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from syncwall.describe import Job, Run
from syncwall.job.completion import finish, job_changes
from syncwall.job.simulation import MOST_STOPS
from syncwall.problems import InputError
from syncwall.web.answers.job import next_changes, played
from syncwall.web.questions import AskedOutcome, AskedRun
from syncwall.web.workers import encoded

JOB = {"tokens": "2T", "start": "2026-12-01", "checkpoints": {"interval": "2 h"}}


@pytest.fixture
def completion(run):
    """The same job through Python."""
    return finish(Job.model_validate({**JOB, "run": Run(**run)}, context={"in_file": True}))


def test_the_numbers_are_those_of_python(client, run, completion):
    answer = client.post("/api/job", json={"run": run, "job": JOB}).json()
    for key, value in completion.to_dict()["job"].items():
        if key not in ("inputs", "next"):
            assert answer[key] == value, key
    assert [one["value"] for one in answer["inputs"]] == [i.value for i in completion.inputs]
    assert answer["simulations"] == 1000


def test_the_histogram_holds_every_job(client, run, completion):
    found = client.post("/api/job", json={"run": run, "job": JOB}).json()["finish"]
    assert sum(found["shares"]) + found["later_or_never"] == pytest.approx(1)
    assert found["done_by"] == sorted(found["done_by"])
    low, middle, high = completion.finish_s
    place = np.searchsorted(found["edges_s"], middle) - 1
    assert found["done_by"][place] >= 0.5 >= found["done_by"][place] - found["shares"][place]
    assert found["edges_s"][0] <= low < high <= found["edges_s"][-1]
    first = datetime.fromisoformat(found["edge_dates"][0]) - datetime(2026, 12, 1)
    assert first.total_seconds() == pytest.approx(found["edges_s"][0])


def test_the_curve_agrees_with_the_simulation(client, run):
    """With enough spares the share that the formula gives is what jobs have."""
    job = {"tokens": "15T", "spares": 64, "failures": {"per_1000_node_days": 20}}
    answer = client.post("/api/job", json={"run": run, "job": job}).json()
    chosen = answer["intervals"]["chosen"]["share"]
    assert chosen == pytest.approx(answer["effective_training_time"], rel=0.005)


def test_changes_are_those_of_python_and_can_be_taken(client, run, completion):
    answer = client.post("/api/job/next", json={"run": run, "job": JOB}).json()["next"]
    gained = {one.what: one.gained_s for one in job_changes(completion)}
    assert all(one["gained_s"] == gained[one["change"]] for one in answer)
    best = next(one for one in answer if one["change"] == "checkpoints.interval best")
    assert best["keys"] == {"checkpoints.interval": None}
    quick = next(one for one in answer if one["change"] == "failures.detection 30 s")
    taken = {**JOB, "failures": {"detection": quick["keys"]["failures.detection"]}}
    after = client.post("/api/job", json={"run": run, "job": taken}).json()
    assert after["verdict"] == quick["verdict"]


def test_a_job_that_never_ends_is_answered(client, run):
    job = {"tokens": "2T", "failures": {"per_1000_node_days": 1e6, "repair": "1 s"}}
    answer = client.post("/api/job", json={"run": run, "job": job}).json()
    assert answer["finish"] is None
    assert answer["finish_s"] == [None] * 3
    assert "does not finish" in answer["verdict"]


def test_nothing_fails(client, run):
    job = {"tokens": "2T", "failures": {"per_1000_node_days": 0}}
    answer = client.post("/api/job", json={"run": run, "job": job}).json()
    assert answer["intervals"] is None
    assert answer["interruptions"] == [0, 0, 0]
    assert client.post("/api/job/next", json={"run": run, "job": job}).json()["next"] == []


def test_what_can_be_chosen(client):
    offered = client.get("/api/job/options").json()
    assert "typical" in [one["name"] for one in offered["failures"]]
    assert any(one["device"] == "h100-sxm" for one in offered["prices"])


@pytest.mark.parametrize(
    ("job", "where"),
    [
        ({}, ""),
        ({"tokens": "1T", "steps": 5}, ""),
        ({"tokens": "1e19"}, "tokens"),
        ({"tokens": "15 parsecs"}, "tokens"),
        ({"steps": 10**13}, "steps"),
        ({"tokens": "1T", "spares": 10**9}, "spares"),
        ({"tokens": "1T", "price": "3"}, "price"),
        ({"tokens": "1T", "checkpoints": {"storage": "1e-9 B/s"}}, "checkpoints.storage"),
        ({"tokens": "1T", "failures": {"repair": "1e9 days"}}, "failures.repair"),
        ({"tokens": "1T", "failures": {"like": "/etc/passwd"}}, "failures.like"),
        ({"tokens": "1T", "failures": {"like": "no-such"}}, "failures.like"),
        ({"tokens": "1T", "simulations": 1_000_000}, "simulations"),
        ({"tokens": "1T", "nodes": 3}, "nodes"),
        ({"tokens": "1e18", "failures": {"per_1000_node_days": 10}}, ""),
    ],
)
def test_what_cannot_be_is_refused(client, run, job, where):
    answer = client.post("/api/job", json={"run": run, "job": job})
    assert answer.status_code == 422
    assert answer.json()["problems"][0]["where"] == where


def test_too_many_interruptions_are_refused_before_they_are_played(client, run):
    job = {"tokens": "1e17", "failures": {"per_1000_node_days": 100}}
    said = client.post("/api/job", json={"run": run, "job": job}).json()["problems"][0]["what"]
    assert f"{MOST_STOPS:,}" in said


_times = st.sampled_from(["0 s", "1 ms", "1 s", "30 min", "3 days", "300 years", "1e9 s"])
_positive = st.sampled_from(["1 ms", "1 s", "30 min", "3 days", "1e9 s"])
_rates = st.sampled_from(["1 B/s", "1 MB/s", "2 TB/s", "1e18 B/s"])


@st.composite
def jobs(draw):
    """Jobs within the bounds, however odd."""
    failures = {
        "per_1000_node_days": draw(st.sampled_from([0, 1e-9, 1, 1e3, 1e7])),
        "deviation": draw(st.sampled_from([0, 0.8, 3])),
        "detection": draw(_times),
        "restart": draw(_times),
        "repair": draw(_times),
        "early_factor": draw(st.sampled_from([1, 30])),
    }
    checkpoints = {
        "storage": draw(_rates),
        "blocking": draw(st.booleans()),
        "interval": draw(_positive),
    }
    return {
        "tokens": draw(st.sampled_from(["1", "1B", "1T", "1e18"])),
        "spares": draw(st.sampled_from([0, 1, 10**7])),
        "when_short": draw(st.sampled_from(["wait", "shrink"])),
        "start": draw(st.sampled_from(["1970-01-01", "9999-12-30"])),
        "simulations": 100,
        "failures": failures,
        "checkpoints": checkpoints,
    }


@settings(max_examples=15, deadline=None)
@given(job=jobs())
def test_any_job_has_an_answer_or_a_refusal(job):
    run = AskedRun(model="llama-3.1-8b", cluster="dgx-h100", nodes=4)
    asked = AskedOutcome(run=run, job=job)
    for answered in (played, next_changes):
        with suppress(InputError):
            assert encoded(answered(asked))


def test_the_chance_of_a_date_and_of_a_sum_is_the_share_of_the_jobs(client, run, completion):
    def chances(**hoped):
        said = client.post("/api/job", json={"run": run, "job": JOB, **hoped})
        return said.json()["chances"] if said.status_code == 200 else said.status_code

    middle_s = completion.finish_s[1]
    assert chances(by=f"{middle_s} s")["by"] == pytest.approx(0.5, abs=0.01)
    date = completion.finish_dates[2].isoformat()
    assert chances(by=date)["by"] == pytest.approx(0.9, abs=0.01)
    _, usd, _ = completion.bill.usd(np.array(completion.finish_s))
    assert chances(within=f"{usd + 1:,.0f}")["within"] == pytest.approx(0.5, abs=0.01)
    assert chances() == {"by": None, "within": None}
    assert chances(by="soon") == 422
    late = client.post("/api/job", json={"run": run, "job": {"tokens": "2T"}, "by": "2027-01-01"})
    assert "starts" in late.json()["problems"][0]["what"]


def test_tokens_may_be_written_with_commas(client, run):
    said = client.post("/api/job", json={"run": run, "job": {"tokens": "2,000,000,000,000"}})
    plain = client.post("/api/job", json={"run": run, "job": {"tokens": "2T"}})
    assert said.json()["steps"] == plain.json()["steps"]


def test_phases_are_text_as_on_the_command_line(client, run):
    job = {"phases": "[{tokens: 10B}, {name: long, steps: 100, seq: 32768}]", "simulations": 100}
    answer = client.post("/api/job", json={"run": run, "job": job}).json()
    assert [one["phase"] for one in answer["phases"]] == ["1", "long"]
    assert answer["work_s"] == pytest.approx(sum(one["work_s"] for one in answer["phases"]))


def test_a_problem_of_a_phase_names_it(client, run):
    job = {"phases": "[{tokens: 10B, layout: {tp: 3}}]"}
    reply = client.post("/api/job", json={"run": run, "job": job})
    assert reply.status_code == 422
    assert reply.json()["problems"][0]["where"].startswith("phases.0")
