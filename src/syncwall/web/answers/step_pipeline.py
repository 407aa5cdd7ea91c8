"""A pipeline of a run in time, one forward, one backward.

Holds `AskedPipeline` and `pipeline`.
"""

from collections.abc import Iterator
from typing import Any, Final

import numpy as np
from pydantic import Field

from syncwall.answer import Prediction
from syncwall.cause import Cause
from syncwall.problems import InputError
from syncwall.show.words.layout import layout_words, schedule
from syncwall.timeline.pipeline_slots import Slot, bubble_of, one_forward_one_backward
from syncwall.timeline.step import HIDDEN_MESSAGES
from syncwall.timeline.team import pass_seconds
from syncwall.web.answers.prediction import prediction_of
from syncwall.web.answers.step_words import pipeline_events, pipeline_verdict
from syncwall.web.asked import Asked, AskedRun

MOST_STAGES: Final = 16
MOST_MICRO: Final = 16
_STAGES: Final = 4
"""Shown for a run without a pipeline."""


class AskedPipeline(Asked):
    """A run, and the stage that is slow."""

    run: AskedRun
    slow: float = Field(1.0, ge=1, le=5, description="One stage computes this many times slower.")
    worker: int = Field(3, ge=1, le=MOST_STAGES, description="Which one, from 1.")

    def changed(self) -> tuple[AskedRun, int]:
        """The run with a plain pipeline, and the stages that the run itself has."""
        layout = dict(self.run.layout)
        own = self.run.run().layout.pp
        if own == 1:
            layout = {k: v for k, v in layout.items() if k not in ("dp", "shard_degree")}
            layout["pp"] = _STAGES
        layout |= {"schedule": "1f1b", "virtual_stages": 1}
        return self.run.model_copy(update={"layout": layout}), int(own)


def pipeline(asked: AskedPipeline) -> dict[str, Any]:
    """Which stage works on which micro batch, where it waits, and the bubble that is predicted."""
    changed, own = asked.changed()
    prediction = prediction_of(changed)
    layout, work = prediction.run.layout, prediction.work
    stages, micro = min(int(layout.pp), MOST_STAGES), min(int(layout.microbatches), MOST_MICRO)
    slow = min(asked.worker, stages) - 1
    body, last = work.stages
    each = [body] * (stages - 1) + [last]
    passes = [
        pass_seconds(stage, prediction.prices, asked.slow if index == slow else 1.0)
        for index, stage in enumerate(each)
    ]
    if not np.isfinite(passes).all():
        raise InputError.of("a part of the step takes forever: is a speed zero?", file="cluster")
    forward_s, backward_s = ([one[i] for one in passes] for i in (0, 1))
    once_s = float(prediction.prices.seconds(work.transfer))
    handover_s = once_s * (1.0 - HIDDEN_MESSAGES * layout.overlap_pp)
    slots = one_forward_one_backward(forward_s, backward_s, micro, handover_s)
    span_s = max(slot.end_s for slot in slots)
    bubbles = [bubble_of(slots, stage) for stage in range(stages)]
    events, starts = pipeline_events(slots, stages, micro)
    answer = {
        "stages": stages,
        "pp": int(layout.pp),
        "own_pp": own,
        "layout": layout_words(layout),
        "fits": prediction.fits,
        "microbatches": int(layout.microbatches),
        "drawn": micro,
        "slow": asked.slow,
        "worker": slow,
        "forward_s": forward_s,
        "backward_s": backward_s,
        "transfer_s": once_s,
        "handover_s": handover_s,
        "slots": [[s.stage, s.which == "forward", s.micro, s.start_s, s.end_s] for s in slots],
        "span_s": span_s,
        "bubble_s": bubbles,
        "predicted_bubble_s": float(prediction.ledger[Cause.BUBBLE]),
        "usual_s": _usual(prediction, stages, micro, handover_s),
        "step_s": prediction.step_s,
        "run": _of_the_run(asked.run) if own > 1 else None,
        "held": [min(stages - stage, micro) for stage in range(stages)],
        "gaps": [list(gap) for stage in range(stages) for gap in _gaps(slots, stage, span_s)],
        "events": events,
        "phases": starts,
    }
    return answer | {"verdict": pipeline_verdict(answer)}


def _gaps(slots: list[Slot], stage: int, span_s: float) -> Iterator[tuple[int, float, float]]:
    """When `stage` has nothing to do."""
    now_s = 0.0
    for slot in slots:
        if slot.stage == stage:
            if slot.start_s > now_s:
                yield stage, now_s, slot.start_s
            now_s = slot.end_s
    if span_s > now_s:
        yield stage, now_s, span_s


def _usual(prediction: Prediction, stages: int, micro: int, handover_s: float) -> float:
    """How long the drawn micro batches take if no stage is slow."""
    body, last = (pass_seconds(stage, prediction.prices) for stage in prediction.work.stages)
    each = [body] * (stages - 1) + [last]
    slots = one_forward_one_backward(
        [one[0] for one in each], [one[1] for one in each], micro, handover_s
    )
    return max(slot.end_s for slot in slots)


def _of_the_run(asked: AskedRun) -> dict[str, Any]:
    """The run's own schedule and its bubble."""
    own = prediction_of(asked)
    return {
        "schedule": schedule(own.run.layout),
        "bubble_s": float(own.ledger[Cause.BUBBLE]),
        "step_s": own.step_s,
    }
