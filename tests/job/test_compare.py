"""Runs and jobs beside each other: every number is that of its own prediction."""

from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

import syncwall as sw
from syncwall.describe.choice import Dtype
from syncwall.describe.stated import StatedRun
from syncwall.job.job_comparison import Beside
from tests.laws.questions import law, questions

LAYOUT = sw.Layout(shard="fsdp", global_batch=1024, micro_batch=1, recompute="none")
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
        if run["alone_step_s"] is None:
            shared = (alone.keys() & run.keys()) - {"job"}
            assert len(shared) == 10
            assert {key: run[key] for key in shared} == {key: alone[key] for key in shared}
        else:
            assert run["alone_step_s"] == alone["step_s"]


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
def test_a_run_is_the_same_as_itself(run):
    found = pair(run, run)
    assert not found.is_told_apart
    assert {(ratio.difference, ratio.deviation) for ratio in found.ratios.values()} == {(0.0, 0.0)}
    assert {ratio.certainty for ratio in found.ratios.values()} == {"the same"}
    assert not any(found.ledger_s.values())
    assert "A and B are the same" in str(sw.compare(run, run))


@law(40)
@given(questions(all_open=True), st.sampled_from(["fp8", "bf16"]), st.sampled_from(["dgx-h100", "dgx-b200"]))
def test_nothing_is_sure_because_of_what_was_chosen_for_one_side(run, precision, cluster):
    """What both leave open is chosen alike where it fits both, and is said to be chosen if not."""
    changed = {"layout": run.layout.model_copy(update={"precision": Dtype(precision)})}
    other = run.model_copy(update={**changed, "cluster": sw.cluster(cluster, nodes=run.nodes)})
    if run.gpus_per_node != other.gpus_per_node:
        return
    found = pair(run, other)
    chosen = [one.prediction.run.layout for one in (found.before, found.after)]
    if any(one.recompute != chosen[0].recompute or one.shard != chosen[0].shard for one in chosen):
        assert found.rests_on_choices
        assert found.is_told_apart == (found.alike is not None and found.alike.is_told_apart)
        assert "nobody stated" in found.verdict[0]
    else:
        assert not found.rests_on_choices


def test_what_a_run_gives_up_to_be_chosen_alike_is_said():
    """Once 2.21 times "99% sure": full recomputation was chosen for bf16, none for nvfp4."""
    layout = {"global_batch": 1152}
    fields = {"model": "llama-3.1-70b", "cluster": "gb200-nvl72", "nodes": 144}
    runs = [sw.Run(**fields, layout={**layout, "precision": one}) for one in ("bf16", "nvfp4")]
    alone = [sw.predict(one).run.layout for one in runs]
    assert alone[0].recompute != alone[1].recompute
    found = sw.compare(*runs)
    assert len({one.prediction.run.layout.recompute for one in found.runs}) == 1
    assert found.runs[1].alone is not None
    assert "B has " in str(found)
    (as_they_were,) = sw.compare(*map(sw.predict, runs)).beside
    assert "choices that nobody stated" in as_they_were.verdict[0]
    assert as_they_were.alike is not None
    assert as_they_were.alike.value == found.beside[0].speed.value < as_they_were.speed.value


def test_other_machines_keep_their_choices_and_both_are_said():
    layout = sw.Layout(global_batch=1152)
    fields = {"model": "llama-3.1-70b", "nodes": 72}
    other = sw.Run(**fields, cluster="dgx-b200", layout=layout.model_copy(update={"tp": 4}))
    found = pair(sw.Run(**fields, cluster="dgx-b200", layout=layout), other)
    assert found.after.prediction.step_s == sw.predict(other).step_s
    assert "recompute" in found.chosen_apart
    assert found.alike is not None
    assert found.alike.value != found.speed.value
    assert "with choices that nobody stated" in found.verdict[0]


@pytest.mark.parametrize(
    ("changed", "certainty"),
    [
        ({"layout.bucket_bytes": 1e8}, "the same"),
        ({"software.kernels": "eager"}, "size uncertain"),
        ({"layout.precision": "fp8"}, "size uncertain"),
        ({"layout.tp": 2}, "cannot be told apart"),
    ],
)
def test_words_follow_from_how_much_differs(changed, certainty):
    keys = {"model": "llama-3.1-8b", "cluster": "dgx-h100", "nodes": 8}
    keys |= {"layout.shard": "fsdp", "layout.global_batch": 256, "software.framework": "torchtitan"}
    found = pair(StatedRun.of_keys(keys).run(), StatedRun.of_keys({**keys, **changed}).run())
    assert found.speed.certainty == certainty
    assert certainty in found.verdict[0]


def test_extrapolations_are_said():
    far = sw.Run(model="llama-3.1-8b", cluster="mi355x-8", nodes=64, layout=LAYOUT)
    found = sw.compare(H100, far)
    assert [one["extrapolating"] for one in found.to_dict()["runs"]] == [False, True]
    assert "B: extrapolating" in str(found)


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
