"""A whole optimizer step: micro batches through a pipeline, then the optimizer.

Holds `StepTime`, `step_time`, `reduction_window` and `slowest_of`. Only classes of equal ranks are
evaluated, never rank by rank.
"""

from dataclasses import dataclass

import numpy as np

from syncwall.cause import Cause
from syncwall.cost.prices import Prices
from syncwall.describe.layout import Schedule
from syncwall.timeline.ledger import Ledger
from syncwall.timeline.segments import Segments, segments
from syncwall.timeline.streams import Clock
from syncwall.work.block import EXPOSED, Block, Pipeline, Stage, Stream, Work
from syncwall.work.number import Number

HIDDEN_MESSAGES = 0.9
"""Share of the messages of a full pipeline that computation hides where they overlap; assumed."""


@dataclass(frozen=True, slots=True)
class StepTime:
    """Seconds of a step and where they go."""

    step_s: Number
    ledger: Ledger


def step_time(work: Work, prices: Prices) -> StepTime:
    """Time of `work` at these `prices`."""
    packed = _Packed(prices)
    several = 1.0 * (work.microbatches > 1)
    window, gpus = reduction_window(work), work.gpus
    stages = [stage for stage in work.stages if np.any(stage.ranks)]
    each = [_stage_time(stage, packed, several, window) for stage in stages]
    micro_all_s = sum(
        (stage.ranks * time.micro_s for stage, time in zip(stages, each, strict=True)), 0.0
    )
    whole = [_whole(time, work, micro_all_s) for time in each]
    total = whole[0]
    for stage, other in zip(stages[1:], whole[1:], strict=True):
        total = other.where((other.total >= total.total) & (stage.ranks > 0), total)
    total.add(Cause.HOST, prices.setting.framework.host.per_step_s)
    total.add(EXPOSED[Stream.PIPELINE], _transfers(work, prices))
    total.add(Cause.STRAGGLER, total.total * prices.fit.ranks.jitter * slowest_of(gpus))
    if prices.fit.ranks.meeting_s:
        total.add(
            Cause.STRAGGLER, _meetings(work, packed) * prices.fit.ranks.meeting_s * (gpus > 1)
        )
    return StepTime(total.total, total)


def _meetings(work: Work, packed: "_Packed") -> Number:
    """Times in a step that all ranks wait for each other: blocking collectives, and its end."""
    found: Number = 1.0
    for stage in work.stages:
        blocks = (*stage.forward, *stage.last_backward, *stage.finish)
        met = sum(packed.of(block).meetings * block.rounds for block in blocks)
        found = found + met * (stage.ranks > 0)
    return found


def _whole(time: "_StageTime", work: Work, micro_all_s: Number) -> Ledger:
    """The step as a rank of one class sees it; the class for which it is longest counts."""
    total = Ledger().plus(time.micro, work.microbatches - 1).plus(time.final)
    total.add(Cause.BUBBLE, _bubble(work.pipeline, micro_all_s - time.micro_s))
    return Ledger({cause: seconds * time.alive for cause, seconds in total.items()})


@dataclass(frozen=True, slots=True)
class _StageTime:
    micro_s: Number
    """One micro batch, forward and backward."""
    micro: Ledger
    final: Ledger
    """The last micro batch with the reduction of gradients, and the optimizer."""
    alive: Number
    """1 where ranks of this class exist, else 0."""


def _stage_time(stage: Stage, packed: "_Packed", several: Number, window: Number) -> _StageTime:
    """`several` is 1 where gradients of several micro batches are added up."""
    micro = Clock()
    _run(micro, stage.forward, packed)
    final = micro.copy()
    begun = micro.free[Stream.COMPUTE]
    _run(micro, stage.backward, packed)
    _run(final, stage.last_backward, packed)
    added_s = packed.prices.accumulation_s(stage.parameters) * several
    micro.ledger.add(Cause.ACCUMULATION, added_s)
    final.ledger.add(Cause.ACCUMULATION, added_s)
    final.hurry(Stream.REDUCE, (micro.go_on() - begun) * window)
    final.join()
    _run(final, stage.finish, packed)
    final.join()
    alive = 1.0 * (stage.ranks > 0)
    return _StageTime(micro.ledger.total * alive, micro.ledger, final.ledger, alive)


def reduction_window(work: Work) -> Number:
    """Backward passes, beside the last one, that gradients of an interleaved rank can hide behind.

    The last micro batches go through a rank's chunks one after the other, pp of them at a time, so
    all chunks but the last are reduced while others are computed.
    """
    chunks = work.pipeline.chunks
    at_once = np.minimum(work.microbatches, work.pipeline.stages)
    return work.pipeline.hides_gradients * np.maximum(at_once * (chunks - 1.0) / chunks, 0.0)


def _run(clock: Clock, blocks: tuple[Block, ...], packed: "_Packed") -> None:
    for block in blocks:
        clock.run(packed.of(block), block.rounds)


class _Packed:
    """Priced blocks; those with the same operations are priced once."""

    def __init__(self, prices: Prices) -> None:
        self.prices = prices
        self._known: dict[int, tuple[Block, Segments]] = {}

    def of(self, block: Block) -> Segments:
        key = id(block.operations)
        if key not in self._known:
            self._known[key] = (block, segments(block, self.prices))
        return self._known[key][1]


def _bubble(pipeline: Pipeline, others_s: Number) -> Number:
    """Idle time of a stage while the pipeline fills and drains.

    `others_s` is one micro batch on all other stages. Interleaving divides it by the chunks a rank
    holds (Narayanan 2021), weight gradients fill two thirds (Qi 2023), DualPipe about half.
    """
    schedule = pipeline.schedule
    factor = (
        1.0
        - (2.0 / 3.0) * (schedule == Schedule.ZERO_BUBBLE)
        - 1.0 * (schedule == Schedule.ZERO_BUBBLE_2P)
        - 0.5 * (schedule == Schedule.DUALPIPE)
    )
    return np.maximum(others_s, 0.0) * factor / pipeline.chunks


def _transfers(work: Work, prices: Prices) -> Number:
    """Messages between stages that computation does not hide.

    Each micro batch crosses every boundary forward and backward, once for each chunk; with overlap
    only the crossings that fill the pipeline are waited for.
    """
    pipeline = work.pipeline
    once = prices.seconds(work.transfer) * 2.0 * pipeline.chunks
    steady = work.microbatches * (1.0 - HIDDEN_MESSAGES * pipeline.hides_messages)
    return once * (steady + (pipeline.stages - 1.0))


def slowest_of(ranks: Number) -> Number:
    """Expected largest of `ranks` independent standard normal numbers.

    Blom 1958: the quantile of (n - 3/8) / (n + 1/4); the quantile by Abramowitz and Stegun 26.2.23,
    exact to 5e-4.
    """
    upper_tail = 0.625 / (ranks + 0.25)
    t = np.sqrt(-2.0 * np.log(upper_tail))
    above = 2.515517 + t * (0.802853 + t * 0.010328)
    below = 1.0 + t * (1.432788 + t * (0.189269 + t * 0.001308))
    return np.maximum(t - above / below, 0.0)
