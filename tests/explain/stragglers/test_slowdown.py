"""Slowdown and its causes: made-up jobs, and three published ones with their answers."""

import json
from collections.abc import Mapping
from functools import cache
from typing import Any

import numpy as np
import pytest

from syncwall.explain.stragglers import BlameKind, Collect, Slowdown, slowdown_of
from syncwall.problems import InputError
from tests.explain.stragglers.operation_tables import (
    JOBS,
    Shape,
    needs_jobs,
    rows,
    simple,
    text,
    written,
)

SHAPE = Shape(dp=4, stages=4, microbatches=8, steps=2)


@pytest.fixture
def answer(tmp_path):
    def made(shape: Shape, seconds: Any) -> Slowdown:
        return slowdown_of(written(tmp_path / "table.csv", shape, seconds))

    return made


def longer(where: Any, times: float) -> Any:
    """`simple` with the computations (dp, stage, number, step) of `where` some times longer."""
    return lambda kind, *at: simple(kind) * (times if "compute" in kind and where(*at) else 1.0)


def test_one_slow_rank_by_hand(answer):
    """Forward takes 1 s on rank 0 and 3 s on rank 1; backward 2 s, optimizer 0.5 s."""

    def slow(kind, dp, *_):
        return simple(kind) + 2 * dp * (kind == "forward-compute")

    found = answer(Shape(dp=2), slow)
    assert found.total == pytest.approx(5.5 / 4.5)
    assert found.by_kind["forward-compute"] == pytest.approx(5.5 / 4.5)
    assert found.by_kind["backward-compute"] == pytest.approx(1.0)
    assert found.by_dp_rank == pytest.approx({1: 5.5 / 4.5, 0: 1.0})
    assert list(found.by_dp_rank) == [1, 0]
    assert found.cause is not None
    assert (found.cause.what, found.cause.workers) == (BlameKind.WORKERS, ((1, 0),))
    assert (found.cause.won_s, found.cause.share) == pytest.approx((1.0, 1.0))


def test_an_even_job_has_no_cause(answer):
    found = answer(SHAPE, simple)
    assert found.total == pytest.approx(1.0)
    assert not found.slow
    assert not found.unexplained
    assert found.cause is None
    assert not found.collect


@pytest.mark.parametrize("place", [(2, 1), (0, 3)])
def test_a_slow_worker_is_named(answer, place):
    found = answer(SHAPE, longer(lambda dp, stage, *_: (dp, stage) == place, 1.5))
    assert found.cause is not None
    assert (found.cause.what, found.cause.workers) == (BlameKind.WORKERS, (place,))
    assert found.cause.ranks == (place[1] * SHAPE.dp + place[0],)
    assert np.unravel_index(found.by_worker.argmax(), found.by_worker.shape) == place


def test_a_slow_data_parallel_rank_is_named(answer):
    found = answer(SHAPE, longer(lambda dp, *_: dp == 2, 1.5))
    assert found.cause is not None
    assert (found.cause.what, found.cause.dp_rank) == (BlameKind.DP_RANK, 2)


def test_a_long_last_stage_is_named(answer):
    found = answer(SHAPE, longer(lambda dp, stage, *_: stage == 3, 1.5))
    assert found.cause is not None
    assert (found.cause.what, found.cause.stage) == (BlameKind.STAGE, 3)
    assert Collect.LAYERS in found.collect


def test_long_micro_batches_are_named(answer):
    """One micro batch of eight is three times as long, another one on every rank and step."""
    found = answer(SHAPE, longer(lambda dp, stage, n, step: n == (3 * dp + step) % 8, 3.0))
    assert found.cause is not None
    assert found.cause.what == BlameKind.MICROBATCHES
    assert found.pass_correlation == pytest.approx(1.0)


def test_slow_transfers_are_named(answer):
    """Every fifth transfer takes 1 s; the median and so the ideal is 0."""

    def slow(kind, dp, stage, number, step):
        transfer = kind.endswith(("send", "recv"))
        return 1.0 if transfer and number % 5 == 0 else simple(kind)

    found = answer(SHAPE, slow)
    assert found.cause is not None
    assert found.cause.what == BlameKind.TRANSFERS


def test_gaps_are_put_down_to_the_host(tmp_path):
    """Everything on one worker starts later and later without a reason in the table."""
    table = rows(Shape(microbatches=4), simple)
    for row in table:
        row["start_ts"] *= 2
    path = tmp_path / "table.csv"
    path.write_text(text(table))
    found = slowdown_of(path)
    assert found.total == pytest.approx(1.0)
    assert found.cause is not None
    assert found.cause.what == BlameKind.HOST
    assert found.step.measured - found.step.replayed == pytest.approx(12.0)


def test_two_halves_stay_unexplained(answer):
    """Half of the time is lost to a long collective, half to a long forward pass at the start."""

    def halves(kind, dp, stage, number, step):
        if kind == "grads-reduce-scatter" and step == 0:
            return 4.0
        return simple(kind) + 5.0 * (kind == "forward-compute" and dp == 0 and step == 1)

    found = answer(Shape(dp=4, microbatches=1, steps=4), halves)
    assert found.unexplained
    assert found.cause is None
    assert max(cause.share for cause in found.causes) < 0.8
    assert Collect.STEPS in found.collect
    assert Collect.KERNELS in found.collect


def test_the_parts_add_up(answer):
    found = answer(SHAPE, longer(lambda dp, stage, n, step: n == (dp + stage) % 8, 2.0))
    step = found.step
    host_gap_s = step.measured - step.replayed
    assert step.ideal + found.wait_s + host_gap_s == pytest.approx(step.measured)
    assert found.operations == len(rows(SHAPE, simple))
    expected = [[min(found.by_dp_rank[d], found.by_stage[s]) for s in range(4)] for d in range(4)]
    assert found.by_worker == pytest.approx(np.array(expected))
    host = next(cause for cause in found.causes if cause.what == BlameKind.HOST)
    assert host.won_s == pytest.approx(host_gap_s, abs=1e-9)


def test_a_table_without_time_is_refused(answer):
    with pytest.raises(InputError, match="take no time"):
        answer(Shape(dp=2), lambda *_: 0.0)


@cache
def published_job(name: str) -> Slowdown:
    return slowdown_of(JOBS / f"trace-{name}.csv.gz")


@needs_jobs
@pytest.mark.parametrize(("name", "operations"), [("ST", 6_784), ("AR", 117_216), ("SE", 107_328)])
def test_the_published_answers(name, operations):
    """result-*.json, mw-*.json and ms-*.json of ByteDance-Seed/StragglerAnalysis (8efcd7f)."""
    answers = [json.loads((JOBS / f"{what}-{name}.json").read_text()) for what in ("result", "mw", "ms")]
    published, of_workers, of_last_stage = answers
    found = published_job(name)
    assert found.operations == operations
    assert not found.problems
    close = 1e-5  # the artifact computes with 32 bits, and the tables have 9 digits
    assert found.total == pytest.approx(published["blocking_slowdown"], rel=close)
    assert found.step.measured / found.step.replayed == pytest.approx(published["launch_slowdown"], rel=close)
    parts: list[tuple[Mapping[Any, float], str]] = [
        (found.by_kind, "blocking_decompose_by_optype"),
        (found.by_dp_rank, "blocking_decompose_by_dp_rank"),
        (found.by_stage, "blocking_decompose_by_stage"),
        (found.by_step, "blocking_step_slowdown"),
    ]
    for own, key in parts:
        assert {str(k): v for k, v in own.items()} == pytest.approx(published[key], rel=close)
    by_what = {cause.what: cause.won_s / found.wait_s for cause in found.causes}
    assert by_what[BlameKind.WORKERS] == pytest.approx(of_workers["Mw"], rel=1e-3)
    if name != "AR":  # M_S is about the last stage; in AR another one explains more
        assert by_what[BlameKind.STAGE] == pytest.approx(of_last_stage["Ms"], rel=1e-3)


@needs_jobs
def test_the_injected_slow_worker_is_found():
    """AR: one worker of 64 GPUs was slowed down artificially; it is rank 0."""
    cause = published_job("AR").cause
    assert cause is not None
    assert (cause.what, cause.workers, cause.ranks) == (BlameKind.WORKERS, ((0, 0),), (0,))
    assert cause.share > 0.98


@needs_jobs
def test_the_long_last_stage_and_the_uneven_sequences_are_found():
    """ST: stage partition. SE: sequences first (72%), last stage second; together computation."""
    stage = published_job("ST").cause
    assert stage is not None
    assert (stage.what, stage.stage) == (BlameKind.STAGE, 3)
    sequences = published_job("SE")
    assert sequences.cause is not None
    assert sequences.cause.what == BlameKind.COMPUTATION
    assert sequences.pass_correlation is not None
    assert sequences.pass_correlation > 0.99
    assert Collect.TOKENS in sequences.collect
