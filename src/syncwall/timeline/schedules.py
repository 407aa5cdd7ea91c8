"""How long a pipeline rank stands still in a step, by schedule.

Holds `Passes` (seconds of one micro batch on a rank) and `idle_s`. The formulas are those of the
papers, with sums over the other ranks instead of (p - 1) equal ones, so that stages may differ in
length: the rank that stands still for the shortest time sets the pace. With F forward, B the whole
backward pass and W the part of it that gives weight gradients, for p equal ranks:

    GPipe, 1F1B      (p - 1) (F + B)                    Narayanan 2021
    interleaved      (p - 1) (F + B) / v                Narayanan 2021, v virtual stages a rank
    ZB-H1            (p - 1) (F + B - 2W)               Qi 2023, table 2 (there B is ours less W)
    ZB-2p            (p - 1) (B - W - F) - F, or 0      Qi 2023: as many forward passes as fit in
                                                        twice the memory fill the wait for the first
                                                        gradient, weight gradients the end
    DualPipe         (p/2 - 1) (F&B + B - 3W)           DeepSeek-V3 report, table 2; F&B = F + B
    DualPipeV        (p - 1)/2 (F&B + B - 3W)           the same on half the ranks, v = 2
    ZB-V             (p - 1)/2 (F + B - 3W), or 0       Qi 2024: nothing if F, B - W and W are equal
"""

from dataclasses import dataclass
from typing import NamedTuple

from syncwall.describe.layout import Schedule
from syncwall.work.block import Pipeline
from syncwall.work.number import Number, anywhere, least, most, where


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
