"""Replays of made-up jobs, whose times are computed by hand or one operation at a time."""

import gc
import time
from dataclasses import replace
from functools import cache
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from syncwall.explain.replay import (
    Durations,
    JobOperations,
    job_graph,
    replay,
    replayed_job,
    stage_transfers,
)
from syncwall.problems import InputError
from syncwall.read.pipeline_operations import OperationKind, WorkerOperation, read_operations
from tests.explain.stragglers.operation_tables import Seconds, Shape, rows, simple, text, written

SHAPES = st.builds(
    Shape,
    dp=st.integers(1, 3),
    stages=st.integers(1, 3),
    microbatches=st.integers(1, 4),
    steps=st.integers(1, 2),
)


def random_seconds(seed: int) -> Seconds:
    """Durations between 0.1 and 1 s, the same whenever asked for the same operation."""
    generator = np.random.default_rng(seed)

    @cache
    def seconds(*_: object) -> float:
        return float(generator.uniform(0.1, 1.0))

    return seconds


@pytest.fixture(scope="module")
def job(tmp_path_factory):
    path = tmp_path_factory.mktemp("tables") / "table.csv"

    def made(shape: Shape, seconds: Seconds) -> JobOperations:
        return replayed_job(read_operations(written(path, shape, seconds)))

    return made


def step_s(job: JobOperations, choice: Durations, mask: Any = True) -> Any:
    everything = np.where(job.on() & mask, choice, Durations.IDEAL)
    return replay(job, [everything])[0]


def test_two_stages_by_hand(job):
    """Stage 1 takes 2 s for a forward pass, stage 0 takes 1 s; backward 2 s, transfers nothing.

    Stage 1: F0 1-3, B0 3-5, F1 5-7, B1 7-9; stage 0: B0 5-7, B1 9-11, optimizer to 11.5.
    Ideal, 1.5 s forward: stage 1 from 1.5 to 8.5; stage 0 ends its last pass at 10.5.
    """

    def slow(kind, dp, stage, *_):
        return simple(kind) + stage * (kind == "forward-compute")

    made = job(Shape(stages=2, microbatches=2), slow)
    assert made.measured_step_s == pytest.approx([11.5])
    assert step_s(made, Durations.ACTUAL) == pytest.approx([11.5])
    assert step_s(made, Durations.IDEAL) == pytest.approx([11.0])
    assert step_s(made, Durations.ACTUAL, made.on(stage=1)) == pytest.approx([12.0])
    assert step_s(made, Durations.ACTUAL, made.on(stage=0)) == pytest.approx([10.5])
    assert step_s(made, Durations.STAGE) == pytest.approx([11.5])


def test_waiting_is_no_part_of_a_collective(job):
    """Rank 1 computes 2 s longer; the reduction itself takes 0.25 s on both."""

    def late(kind, dp, *_):
        if kind == "grads-reduce-scatter":
            return 0.25
        return simple(kind) + 2 * dp * (kind == "forward-compute")

    made = job(Shape(dp=2), late)
    own = made.actual_s[made.on(kinds=(OperationKind.GRADIENTS,))[:, 0]]
    assert own == pytest.approx(np.full((1, 1, 2), 0.25))
    assert made.measured_step_s == pytest.approx([5.75])
    assert step_s(made, Durations.IDEAL) == pytest.approx([2 + 2 + 0.25 + 0.5])


@settings(max_examples=60, deadline=None)
@given(shape=SHAPES, seed=st.integers(0, 10**6))
def test_a_job_without_gaps_is_replayed_as_recorded(job, shape, seed):
    made = job(shape, random_seconds(seed))
    assert step_s(made, Durations.ACTUAL) == pytest.approx(made.measured_step_s, rel=1e-9)


@settings(max_examples=40, deadline=None)
@given(shape=SHAPES, seed=st.integers(0, 10**6), part=st.floats(0, 1), which=st.integers(0, 10**6))
def test_a_shorter_operation_never_slows_the_job(job, shape, seed, part, which):
    made = job(shape, random_seconds(seed))
    shorter = made.actual_s.copy()
    shorter.flat[which % shorter.size] *= part
    before = step_s(made, Durations.ACTUAL)
    assert (step_s(replace(made, actual_s=shorter), Durations.ACTUAL) <= before + 1e-12).all()


@settings(max_examples=40, deadline=None)
@given(shape=SHAPES, seed=st.integers(0, 10**6))
def test_nothing_is_faster_than_an_ideal_below_all_durations(job, shape, seed):
    made = job(shape, random_seconds(seed))
    least = replace(made, ideal_s=made.actual_s.min(axis=(1, 2)))
    ideal = step_s(least, Durations.IDEAL)
    assert (step_s(least, Durations.ACTUAL) >= ideal - 1e-12).all()
    for stage in range(made.stages):
        assert (step_s(least, Durations.ACTUAL, made.on(stage=stage)) >= ideal - 1e-12).all()


def test_choices_are_replayed_in_parts_with_the_same_result(job, monkeypatch):
    made = job(Shape(dp=2, stages=2, microbatches=3), random_seconds(1))
    choices = [np.where(made.on(stage=s), 1, 0) for s in (0, 1)]
    together = replay(made, choices)
    monkeypatch.setattr("syncwall.explain.replay._MOST_AT_ONCE", 1)
    assert (replay(made, choices) == together).all()


@pytest.mark.parametrize(("steps", "used"), [(3, (1, 2)), (2, (1,))])
def test_a_step_that_is_not_complete_is_left_out(tmp_path, steps, used):
    path = tmp_path / "table.csv"
    path.write_text(text(rows(Shape(dp=2, steps=steps), simple)[1:]))
    made = replayed_job(read_operations(path))
    assert made.steps == used
    assert f"1 of {steps} steps left out" in made.problems[0].message


@pytest.mark.parametrize(
    ("left_out", "said"),
    [
        (lambda row: row["dp_rank"] == 1 and row["optype"] == "optimizer", "different operations"),
        (lambda row: row["stage"] == 1, "none of 1"),
        (lambda row: row["optype"] == "forward-recv" and row["stage"] == 1, "has 1 ends"),
    ],
)
def test_a_job_that_misses_workers_or_ends_is_refused(tmp_path, left_out, said):
    table = [row for row in rows(Shape(dp=2, stages=3), simple) if not left_out(row)]
    path = tmp_path / "table.csv"
    path.write_text(text(table))
    with pytest.raises(InputError, match=said):
        replayed_job(read_operations(path))


def test_interleaved_stages_pair_only_what_has_another_end():
    """Two stages with two chunks each: stage 1 sends chunk 1 on to chunk 2, chunk 3 to nobody."""
    place = {"stage": 1, "microbatch": 0}
    passes = [
        WorkerOperation(
            OperationKind.FORWARD,
            sequence=n,
            chunk=n,
            global_chunk=1 + 2 * n,
            start_s=2 * n,
            end_s=2 * n + 1,
            **place,
        )
        for n in (0, 1)
    ]
    sends = [
        WorkerOperation(
            OperationKind.FORWARD_SEND,
            sequence=n,
            chunk=-1,
            global_chunk=-1,
            start_s=2 * n + 1,
            end_s=2 * n + 1.1,
            **place,
        )
        for n in (0, 1)
    ]
    found = list(stage_transfers([*passes, *sends], [2, 3], [0, 1], OperationKind.FORWARD_SEND, (1, 2)))
    assert [(one.transfer, one.computation) for one in found] == [(2, 0), (3, 1)]
    assert found[0].pairing is not None
    assert found[1].pairing is None


@pytest.mark.parametrize(
    ("place", "said"),
    [("stage", "257 pipeline stages; at most 256"), ("dp_rank", "8,193 data-parallel ranks")],
)
def test_more_stages_or_ranks_than_can_be_replayed_are_refused(tmp_path, place, said):
    (row,) = [one for one in rows(Shape(), simple) if one["optype"] == "forward-compute"]
    path = tmp_path / "table.csv"
    path.write_text(text([row | {place: n} for n in range(257 if place == "stage" else 8193)]))
    with pytest.raises(InputError, match=said):
        replayed_job(read_operations(path))


@pytest.mark.parametrize(
    "kinds",
    [
        (OperationKind.BACKWARD, OperationKind.BACKWARD_SEND),
        (OperationKind.FORWARD, OperationKind.PARAMETERS),
        (OperationKind.BACKWARD, OperationKind.GRADIENTS, OperationKind.SEPARATE_GRADIENTS),
    ],
)
def test_the_graph_of_a_long_step_takes_time_in_proportion(kinds):
    """Sixteen times the operations: all pairs of them would take 256 times as long."""

    def graph_s(count: int) -> float:
        operations = [
            WorkerOperation(kind, 0, number, number, -1, number, start_s=start, end_s=start + 0.1)
            for start, kind in enumerate(kinds)
            for number in range(count)
        ]
        gc.collect()
        gc.disable()  # whose time grows with all that other tests have left
        try:
            began_s = time.process_time()
            job_graph(operations)
            return time.process_time() - began_s
        finally:
            gc.enable()

    assert graph_s(8000) < 64 * min(graph_s(500) for _ in range(3))
