"""A pipeline of a run in time, pass by pass, with the run's own schedule where it has an order.

Holds `pipeline`.
"""

from collections.abc import Iterator
from typing import Any, Final

import numpy as np

from syncwall.answer import Prediction
from syncwall.cause import Cause
from syncwall.describe.layout import Layout, Schedule
from syncwall.problems import InputError
from syncwall.show.layout import layout_words, schedule
from syncwall.timeline.step import HIDDEN_MESSAGES, WithoutWeights
from syncwall.web.answers.prediction import prediction_of
from syncwall.web.answers.step_words import pipeline_events, pipeline_verdict
from syncwall.web.lessons.pipeline import (
    Order,
    Pass,
    Slot,
    bubble_of,
    least_micro_batches,
    most_kept,
    orders,
    played,
)
from syncwall.web.lessons.team import pass_seconds
from syncwall.web.questions import MOST_STAGES, AskedPipeline
from syncwall.work.block import Stage

MOST_MICRO: Final = 16
_KINDS: Final = ("forward", "input", "weight")


def pipeline(asked: AskedPipeline) -> dict[str, Any]:
    """Which stage works on which micro batch, where it waits, and the bubble that is predicted."""
    own = int(asked.run.run().layout.pp)
    plain = prediction_of(asked.plain())
    run = prediction_of(asked.run) if own > 1 else plain
    ordered = _ordered(run.run.layout)
    prediction = run if ordered else plain
    ordered = ordered or _ordered(plain.run.layout)
    if ordered is None:
        raise InputError.of("a pipeline needs at least one micro batch", key="layout")
    layout, work = prediction.run.layout, prediction.work
    stages = len(ordered)
    slow = min(asked.worker, stages) - 1
    passes = _Passes(prediction, stages, slow, asked.slow)
    once_s = float(prediction.prices.seconds(work.transfer))
    handover_s = once_s * (1.0 - HIDDEN_MESSAGES * layout.overlap_pp)
    slots = played(ordered, passes.seconds, handover_s)
    usual = played(ordered, _Passes(prediction, stages).seconds, handover_s)
    span_s = max(slot.end_s for slot in slots)
    events, starts = pipeline_events(slots, stages, _drawn(layout, stages), passes.virtual)
    answer = {
        "stages": stages,
        "pp": int(layout.pp),
        "own_pp": own,
        "virtual": passes.virtual,
        "layout": layout_words(layout),
        "fits": prediction.fits,
        "microbatches": int(layout.microbatches),
        "drawn": _drawn(layout, stages),
        "slow": asked.slow,
        "worker": slow,
        "forward_s": [passes.of_rank(rank)[0] for rank in range(stages)],
        "backward_s": [sum(passes.of_rank(rank)[1:]) for rank in range(stages)],
        "transfer_s": once_s,
        "handover_s": handover_s,
        "slots": [passes.told(slot) for slot in slots],
        "span_s": span_s,
        "bubble_s": [bubble_of(slots, stage) for stage in range(stages)],
        "predicted_bubble_s": float(prediction.ledger[Cause.BUBBLE]),
        "plain_bubble_s": float(plain.ledger[Cause.BUBBLE]),
        "usual_s": max(slot.end_s for slot in usual),
        "step_s": prediction.step_s,
        "schedule": schedule(layout),
        "run": _of_the_run(run) if own > 1 else None,
        "held": [most_kept(order) / passes.virtual for order in ordered],
        "gaps": [list(gap) for stage in range(stages) for gap in _gaps(slots, stage, span_s)],
        "events": events,
        "phases": starts,
    }
    return answer | {"verdict": pipeline_verdict(answer)}


def _ordered(layout: Layout) -> list[Order] | None:
    """What each rank that is drawn does; None if nobody has written an order down."""
    stages = min(int(layout.pp), MOST_STAGES)
    return orders(layout.schedule, stages, _drawn(layout, stages), int(layout.virtual_stages))


def _drawn(layout: Layout, stages: int) -> int:
    """Micro batches that are drawn: whole rounds of the schedule."""
    least, there = least_micro_batches(layout.schedule, stages), int(layout.microbatches)
    most = min(there, max(MOST_MICRO, least))
    each = stages if layout.schedule == Schedule.INTERLEAVED else 2 if least > 1 else 1
    return most // each * each


class _Passes:
    """Seconds of passes on ranks, as the prediction has them; rank `slow` is `times` slower."""

    def __init__(
        self, prediction: Prediction, stages: int, slow: int = 0, times: float = 1.0
    ) -> None:
        layout = prediction.run.layout
        self.virtual = int(layout.stages_per_rank)
        self._dual = bool(layout.schedule == Schedule.DUALPIPE)
        self._drawn, self._stages = _drawn(layout, stages), stages
        self._slow = slow
        self._usual, self._slowed = (
            [self._of(prediction, stage, by) for stage in prediction.work.stages]
            for by in (1.0, times)
        )

    def seconds(self, rank: int, one: Pass) -> float:
        """Of a pass; those of a rank are shared out evenly over its virtual stages."""
        of = self._on(rank, one.stage if self._dual else rank)
        return of[_KINDS.index(one.kind)] / self.virtual

    def of_rank(self, rank: int) -> tuple[float, ...]:
        """One micro batch on a rank: forward, gradients of the input, gradients of weights.

        In DualPipe half of them meet the stage at the other end.
        """
        other = self._stages - 1 - rank if self._dual else rank
        both = zip(self._on(rank, rank), self._on(rank, other), strict=True)
        return tuple((a + b) / 2 for a, b in both)

    def _on(self, rank: int, stage: int) -> tuple[float, float, float]:
        body, last = self._slowed if rank == self._slow else self._usual
        return last if stage == self._stages - 1 else body

    def told(self, slot: Slot) -> list[Any]:
        """Rank, pass, number of the micro batch, start, end, and which of its virtual stages."""
        micro = slot.micro + slot.way * (self._drawn // 2)
        part = slot.stage // self._stages
        return [slot.rank, slot.which, micro, slot.start_s, slot.end_s, part]

    @staticmethod
    def _of(prediction: Prediction, stage: Stage, slower: float) -> tuple[float, float, float]:
        forward_s, backward_s = pass_seconds(stage, prediction.prices, slower)
        input_s = pass_seconds(stage, WithoutWeights(prediction.prices), slower)[1]
        if not np.isfinite([forward_s, backward_s]).all():
            said = "a part of the step takes forever: is a speed zero?"
            raise InputError.of(said, key="cluster")
        return forward_s, input_s, max(backward_s - input_s, 0.0)


def _gaps(slots: list[Slot], stage: int, span_s: float) -> Iterator[tuple[int, float, float]]:
    """When `stage` has nothing to do."""
    now_s = 0.0
    for slot in slots:
        if slot.rank == stage:
            if slot.start_s > now_s:
                yield stage, now_s, slot.start_s
            now_s = slot.end_s
    if span_s > now_s:
        yield stage, now_s, span_s


def _of_the_run(own: Prediction) -> dict[str, Any]:
    """The run's own schedule and its bubble."""
    return {
        "schedule": schedule(own.run.layout),
        "bubble_s": float(own.ledger[Cause.BUBBLE]),
        "step_s": own.step_s,
    }
