"""A whole optimizer step: micro batches through a pipeline by its schedule, then the optimizer.

The formulas are those of the papers, with sums over the other ranks instead of (p - 1) equal ones,
so that stages may differ in length: the rank that stands still for the shortest time sets the pace.
With F forward, B the whole backward pass and W the part of it that gives weight gradients, for p
equal ranks:

    GPipe, 1F1B      (p - 1) (F + B)                    Narayanan 2021
    interleaved      (p - 1) (F + B) / v                Narayanan 2021, v virtual stages a rank
    ZB-H1            (p - 1) (F + B - 2W)               Qi 2023, table 2 (there B is ours less W)
    ZB-2p            (p - 1) (B - W - F) - F, or 0      Qi 2023: as many forward passes as fit in
                                                        twice the memory fill the wait for the first
                                                        gradient, weight gradients the end
    DualPipe         (p/2 - 1) (F&B + B - 3W)           DeepSeek-V3 report, table 2; F&B = F + B
    DualPipeV        (p - 1)/2 (F&B + B - 3W)           the same on half the ranks, v = 2
    ZB-V             (p - 1)/2 (F + B - 3W), or 0       Qi 2024: nothing if F, B - W and W are equal

Only classes of equal ranks are evaluated, never rank by rank.
"""

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from syncwall.cause import Cause
from syncwall.cost.prices import Prices
from syncwall.describe.layout import Schedule
from syncwall.timeline.ledger import Ledger
from syncwall.timeline.segments import Segments, segments
from syncwall.timeline.streams import Clock
from syncwall.work.block import EXPOSED, AnyTask, Block, Pipeline, Stage, Stream, Work
from syncwall.work.number import Number, anywhere, least, most, where
from syncwall.work.operations import Gemm


class Passes(NamedTuple):
    """Seconds of one micro batch on one rank, or on several together."""

    forward_s: Number
    backward_s: Number
    """With recomputation and weight gradients."""
    weight_s: Number
    """Of that, weight gradients, which nothing waits for before the optimizer."""

    @property
    def both_s(self) -> Number:
        """Forward and backward."""
        return self.forward_s + self.backward_s

    @property
    def input_s(self) -> Number:
        """Backward without weight gradients."""
        return self.backward_s - self.weight_s

    def times(self, factor: Number) -> "Passes":
        """The same on `factor` ranks."""
        return Passes(*(seconds * factor for seconds in self))

    def plus(self, other: "Passes") -> "Passes":
        """Together with another rank."""
        return Passes(*(mine + its for mine, its in zip(self, other, strict=True)))


@dataclass(frozen=True, slots=True)
class _PipelineRank:
    """A rank among the others of its pipeline."""

    own: Passes
    others: Passes
    stages: Number
    microbatches: Number

    @property
    def postponed_s(self) -> Number:
        """Its weight gradients of as many micro batches as there are other ranks."""
        return least(self.stages - 1.0, self.microbatches) * self.own.weight_s


def idle_s(pipeline: Pipeline, microbatches: Number, own: Passes, others: Passes) -> Number:
    """Seconds in which a rank has nothing to do while the pipeline fills and drains.

    `own` is one micro batch on this rank, `others` one on all other ranks together.
    """
    rank = _PipelineRank(own, others, pipeline.stages, microbatches)
    schedule = pipeline.schedule
    found = others.both_s / pipeline.stages_per_rank
    for kind, seconds in _SPECIAL.items():
        chosen = schedule == kind
        if anywhere(chosen):
            found = where(chosen, seconds(rank), found)
    return most(found, 0.0)


def _zero_bubble(rank: _PipelineRank) -> Number:
    """Weight gradients of the last p - 1 micro batches wait until the rank would stand still."""
    return rank.others.forward_s + rank.others.input_s - rank.postponed_s


def _zero_bubble_2p(rank: _PipelineRank) -> Number:
    return rank.others.input_s - least(rank.stages, rank.microbatches) * rank.own.forward_s


def _zero_bubble_v(rank: _PipelineRank) -> Number:
    return (rank.others.forward_s + rank.others.input_s) / 2.0 - rank.postponed_s


def _dualpipe_v(rank: _PipelineRank) -> Number:
    return (rank.others.forward_s - rank.postponed_s) / 2.0 + rank.others.input_s


def _dualpipe(rank: _PipelineRank) -> Number:
    half = most(rank.stages / 2.0 - 1.0, 0.0) / most(rank.stages - 1.0, 1.0)
    return 2.0 * half * _dualpipe_v(rank)


_SPECIAL = {
    Schedule.ZERO_BUBBLE: _zero_bubble,
    Schedule.ZERO_BUBBLE_2P: _zero_bubble_2p,
    Schedule.ZERO_BUBBLE_V: _zero_bubble_v,
    Schedule.DUALPIPE: _dualpipe,
    Schedule.DUALPIPE_V: _dualpipe_v,
}
SPLITS_BACKWARD = tuple(_SPECIAL)
"""Schedules that move weight gradients, so that their time has to be known."""


HIDDEN_MESSAGES = 0.9
"""Share of the messages of a full pipeline that computation hides where they overlap; assumed."""

_EQUAL = 1e-9
"""Classes of ranks whose steps differ by less are equally long: the first one tells the causes."""


@dataclass(frozen=True, slots=True)
class StepTime:
    """Seconds of a step and where they go."""

    step_s: Number
    ledger: Ledger


def step_time(work: Work, prices: Prices) -> StepTime:
    """Time of `work` at these `prices`."""
    packed = _Packed(prices)
    stages = [stage for stage in work.stages if anywhere(stage.ranks)]
    without = _Packed(WithoutWeights(prices)) if _splits(work.pipeline) else None
    each = [_stage_time(stage, packed, without, work) for stage in stages]
    everybody = Passes(0.0, 0.0, 0.0)
    for stage, time in zip(stages, each, strict=True):
        everybody = everybody.plus(time.passes.times(stage.ranks))
    if len(each) > 1 and anywhere(work.pipeline.schedule == Schedule.DUALPIPE):
        each[-1] = _both_ends(each, work.pipeline)
    message_s = prices.seconds(work.transfer)
    whole = [_whole(time, work, everybody, message_s) for time in each]
    total = whole[0]
    for stage, other in zip(stages[1:], whole[1:], strict=True):
        longer = other.total > total.total * (1.0 + _EQUAL)
        total = other.where(longer & (stage.ranks > 0), total)
    add_others(total, prices, work.gpus)
    if prices.fit.ranks.meeting_s:
        total.add(Cause.STRAGGLER, _meetings(work, packed) * prices.fit.ranks.meeting_s * (work.gpus > 1))
    return StepTime(total.total, total)


def add_others(total: Ledger, prices: Prices, gpus: Number) -> None:
    """Book what a rank waits for at the end of its step: the host, and the slowest of all ranks."""
    total.add(Cause.HOST, prices.host_step_s)
    nodes = most(gpus / prices.gpus_per_node, 1.0)
    own_s = total.total - total.exposed_s - total[Cause.HOST]  # slow devices slow down no others
    total.add(Cause.STRAGGLER, own_s * prices.fit.ranks.jitter * slowest_of(nodes))


def _meetings(work: Work, packed: "_Packed") -> Number:
    """Times in a step that all ranks wait for each other: blocking collectives, and its end."""
    found: Number = 1.0
    for stage in work.stages:
        blocks = (*stage.forward, *stage.last_backward, *stage.finish)
        met = sum(packed.of(block).meetings * block.rounds for block in blocks)
        found = found + met * (stage.ranks > 0)
    return found


def _whole(time: "_StageTime", work: Work, everybody: Passes, message_s: Number) -> Ledger:
    """The step as a rank of one class sees it; the class for which it is longest counts."""
    total = Ledger().plus(time.micro, work.microbatches - 1).plus(time.final)
    others = everybody.plus(time.passes.times(-1.0))
    total.add(Cause.BUBBLE, idle_s(work.pipeline, work.microbatches, time.passes, others))
    total.add(EXPOSED[Stream.PIPELINE], _messages(work, time.crossings) * message_s)
    return Ledger({cause: seconds * time.alive for cause, seconds in total.items()})


def _messages(work: Work, crossings: Number) -> Number:
    """Messages between stages that computation does not hide.

    Each micro batch crosses every boundary forward and backward, once for each virtual stage; with
    overlap only the crossings that fill and drain the pipeline are waited for.
    """
    pipeline = work.pipeline
    steady = work.microbatches * (1.0 - HIDDEN_MESSAGES * pipeline.hides_messages)
    return crossings * steady + 2.0 * pipeline.stages_per_rank * (pipeline.stages - 1.0)


@dataclass(frozen=True, slots=True)
class _StageTime:
    passes: Passes
    """One micro batch."""
    micro: Ledger
    final: Ledger
    """The last micro batch with the reduction of gradients, and the optimizer."""
    crossings: Number
    """Messages of a micro batch, see `Stage`."""
    alive: Number
    """1 where ranks of this class exist, else 0."""


def _stage_time(stage: Stage, packed: "_Packed", without: "_Packed | None", work: Work) -> _StageTime:
    """`without` prices a backward pass without weight gradients, where a schedule moves them."""
    several = 1.0 * (work.microbatches > 1)  # then gradients are added up
    micro = Clock()
    _run(micro, stage.forward, packed)
    final, alone = micro.copy(), micro.copy()
    begun = micro.free[Stream.COMPUTE]
    _run(micro, stage.backward, packed)
    _run(final, stage.last_backward, packed)
    added_s = packed.prices.accumulation_s(stage.parameters) * several
    micro.ledger.add(Cause.ACCUMULATION, added_s)
    final.ledger.add(Cause.ACCUMULATION, added_s)
    final.move_earlier(Stream.REDUCE, (micro.next_micro_batch() - begun) * reduction_window(work))
    final.join()
    _run(final, stage.finish, packed)
    final.join()
    alive = 1.0 * (stage.ranks > 0)
    weight_s: Number = 0.0
    if without is not None:
        _run(alone, stage.backward, without)
        alone.next_micro_batch()
        weight_s = most(micro.ledger.total - added_s - alone.ledger.total, 0.0)
    passes = Passes(begun, micro.ledger.total - begun, weight_s).times(alive)
    return _StageTime(passes, micro.ledger, final.ledger, stage.crossings, alive)


def _splits(pipeline: Pipeline) -> bool:
    return any(anywhere(pipeline.schedule == one) for one in SPLITS_BACKWARD)


class WithoutWeights(Prices):
    """Prices at which weight gradients cost nothing: what of a backward pass others wait for."""

    def __init__(self, prices: Prices) -> None:
        self.__dict__.update(prices.__dict__)
        self._whole = prices

    def seconds(self, what: AnyTask) -> Number:
        """Time of `what`, none for a weight gradient."""
        if isinstance(what, Gemm) and what.is_weight_gradient:
            return 0.0
        return self._whole.seconds(what)


def _both_ends(each: list[_StageTime], pipeline: Pipeline) -> _StageTime:
    """The last rank, which in DualPipe is the first one for every second micro batch."""
    first, last = each[0], each[-1]
    dual = pipeline.schedule == Schedule.DUALPIPE

    def mean(one: Ledger, other: Ledger) -> Ledger:
        return Ledger().plus(one, 0.5).plus(other, 0.5).where(dual, other)

    halved = first.passes.plus(last.passes).times(0.5)
    passes = Passes(*(where(dual, a, b) for a, b in zip(halved, last.passes, strict=True)))
    micro, final = mean(first.micro, last.micro), mean(first.final, last.final)
    return _StageTime(passes, micro, final, last.crossings, last.alive)


def reduction_window(work: Work) -> Number:
    """Backward passes, beside the last one, that gradients of an interleaved rank can hide behind.

    The last micro batches go through a rank's virtual stages one after the other, pp of them at a
    time, so all virtual stages but the last are reduced while others are computed.
    """
    stages = work.pipeline.stages_per_rank
    at_once = least(work.microbatches, work.pipeline.stages)
    return work.pipeline.hides_gradients * most(at_once * (stages - 1.0) / stages, 0.0)


def _run(clock: Clock, blocks: tuple[Block, ...], packed: "_Packed") -> None:
    for block in blocks:
        if anywhere(block.rounds):
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
