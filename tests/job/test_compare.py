"""Runs and jobs beside each other: every number is that of its own prediction."""

from pathlib import Path
from typing import Any

import pytest
from hypothesis import given

import syncwall as sw
from syncwall.job.job_comparison import Beside
from tests.laws.questions import law, questions

LAYOUT = sw.Layout(shard="fsdp", global_batch=1024)
H100 = sw.Run(model="llama-3.1-8b", cluster="dgx-h100", nodes=64, layout=LAYOUT)
B200 = sw.Run(model="llama-3.1-8b", cluster="dgx-b200", nodes=64, layout=LAYOUT)
JOB = {"tokens": 2e12, "simulations": 200}
FILE = """\
run: {model: llama-3.1-8b, cluster: dgx-h100, nodes: 16, layout: {shard: fsdp, global_batch: 512}}
tokens: 1T
simulations: 200
start: 2027-01-01
"""


def pair(one: Any, other: Any, **more: Any) -> Beside:
    return sw.compare(one, other, **more).beside[0]


def lengths(found: sw.Comparison) -> list[float | None]:
    """Tokens of every job."""
    jobs = [one.completion for one in found.runs]
    return [None if job is None else job.job.tokens for job in jobs]


@law(20)
@given(questions(), questions())
def test_numbers_of_a_run_are_those_of_its_prediction(one, other):
    found = sw.compare(one, other)
    for asked, run in zip((one, other), found.to_dict()["runs"], strict=True):
        alone = sw.predict(asked).to_dict()
        shared = (alone.keys() & run.keys()) - {"job"}
        assert len(shared) == 8
        assert {key: run[key] for key in shared} == {key: alone[key] for key in shared}


@law(20)
@given(questions(), questions())
def test_the_other_way_round_it_is_the_same_with_the_other_sign(one, other):
    there, back = pair(one, other), pair(other, one)
    assert there.ratios.keys() == back.ratios.keys()
    for name, ratio in there.ratios.items():
        assert back.ratios[name].difference == -ratio.difference
        assert back.ratios[name].logarithm == -ratio.logarithm
        assert back.ratios[name].is_told_apart == ratio.is_told_apart
    assert back.ledger_s == {cause: -seconds for cause, seconds in there.ledger_s.items()}


@law(20)
@given(questions())
def test_a_run_cannot_be_told_apart_from_itself(run):
    found = pair(run, run)
    assert not found.is_told_apart
    assert {ratio.difference for ratio in found.ratios.values()} == {0.0}
    assert not any(ratio.is_told_apart for ratio in found.ratios.values())
    assert not any(found.ledger_s.values())
    assert "cannot be told apart" in str(sw.compare(run, run))


def test_jobs_are_those_of_finish():
    jobs = [sw.Job(run=run, **JOB) for run in (H100, B200)]
    found = sw.compare(*jobs)
    for one, job in zip(found.to_dict()["runs"], jobs, strict=True):
        alone = sw.finish(job).to_dict()["job"]
        assert one["job"] == {key: alone[key] for key in one["job"]}
    ratios = found.beside[0].ratios
    assert ratios["finish_s"].after == sw.finish(jobs[1]).finish_s[1]
    cost = sw.finish(jobs[0]).cost_usd
    assert cost is not None
    assert ratios["cost_usd"].before == cost[1]


def test_a_job_that_is_compared_with_itself_does_not_differ():
    job = sw.Job(run=H100, **JOB)
    ratios = pair(job, job).ratios
    assert {"finish_s", "cost_usd", "energy_j"} <= ratios.keys()
    assert {ratio.difference for ratio in ratios.values()} == {0.0}


@pytest.mark.parametrize("tokens", [2e12, "2T"])
def test_tokens_make_a_job_of_every_run(tokens):
    found = sw.compare(H100, sw.predict(B200), tokens=tokens)
    assert lengths(found) == [2e12, 2e12]
    assert found.beside[0].ratios["finish_s"].value < 1


def test_files_of_runs_and_jobs(tmp_path):
    job = tmp_path / "job.yaml"
    job.write_text(FILE)
    found = sw.compare(job, H100, tokens="500B")
    assert lengths(found) == [5e11, 5e11]
    assert lengths(sw.compare(str(job), H100)) == [1e12, None]


def test_a_job_of_one_only_leaves_both_without_a_ratio(tmp_path):
    found = sw.compare(sw.Job(run=H100, **JOB), B200)
    assert "finish_s" not in found.beside[0].ratios
    assert "A " in str(found)


def test_recorded_programs_are_compared_on_machines():
    program = sw.read_program(Path("examples/capture/hybrid.work.json.gz"))
    runs = [sw.predict(program, cluster=sw.cluster(name)) for name in ("dgx-h100", "dgx-b200")]
    found = sw.compare(*runs)
    assert found.beside[0].ratios["step_s"].after == runs[1].step_s
    assert "dgx-b200" in str(found)
    with pytest.raises(sw.InputError, match="of a recorded program no job"):
        sw.compare(*runs, tokens="1T")


def test_the_cost_of_tokens_is_the_price_of_the_time_they_take():
    one = sw.compare(H100, B200).runs[0]
    hours = one.prediction.step_s / 3600 / one.prediction.work.tokens * 1e6
    assert one.price is not None
    assert one.usd_per_1m_tokens == pytest.approx(one.price[0] * one.gpus * hours)


def test_one_run_alone_is_refused():
    with pytest.raises(sw.InputError, match="two to 26 runs can be compared, not 1"):
        sw.compare(H100)
