"""Whether the layouts that are predicted to be fast are fast.

Holds `Group` (measured layouts of one model on one machine with one batch), `groups_of`, `degraded`
and `Ranking`, the figures over groups. Order is by predicted step time, layouts that do not fit in
memory last; ties go by a hash of the id, because tables may be sorted by speed.
"""

from collections import defaultdict
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from hashlib import sha256

import numpy as np

from syncwall.answer.many import SIZES
from syncwall.cost.software import framework
from syncwall.cost.stalls import expected_slowdown
from syncwall.validate.evaluation import ValidatedRun
from syncwall.validate.split import RowUse, part_of
from syncwall.work.memory import fits

Rank = Callable[[ValidatedRun], float]
"""What a predictor sorts by: the smaller, the better."""
_SAME = ("source", "model", "gpus", "seq_len", "gbs", "gpu", "precision")
"""Columns that rows of one group share."""
_NEIGHBOURS = ("source", "model", "tp", "pp", "mbs")
_SLOWER = 1.6
_FEWEST_MICRO_BATCHES = 4
_FIRST = 3
_AFTER_ALL_S = 1e9


@dataclass(frozen=True)
class Group:
    """Measured layouts among which somebody could have chosen."""

    members: list[ValidatedRun]

    @property
    def name(self) -> str:
        """Model, GPUs, sequence and global batch."""
        row = self.members[0].case.row
        return ", ".join(row.text(column) for column in ("model", "gpus", "seq_len", "gbs"))

    @property
    def part(self) -> RowUse:
        """Calibration if a fit may have read any member."""
        parts = {part_of(one.case.row) for one in self.members}
        return RowUse.CALIBRATION if RowUse.CALIBRATION in parts else RowUse.STRUCTURE

    @property
    def best(self) -> ValidatedRun:
        """The fastest as measured."""
        return min(self.members, key=lambda one: one.case.measured_s)

    def ranked(self, rank: Rank) -> list[ValidatedRun]:
        """All members, the one that `rank` puts first first."""
        return sorted(self.members, key=lambda one: (rank(one), _hashed(one)))

    def reached(self, rank: Rank, first: int = 1) -> float:
        """Best throughput among the `first` ranked, over the best of the group."""
        tried = min(one.case.measured_s for one in self.ranked(rank)[:first])
        return self.best.case.measured_s / tried

    def correlation(self, rank: Rank) -> float:
        """Spearman's rank correlation of `rank` and the measured times; 0 if all rank the same."""
        said = _ranks([rank(one) for one in self.members])
        true = _ranks([one.case.measured_s for one in self.members])
        if np.ptp(said) == 0 or np.ptp(true) == 0:
            return 0.0
        return float(np.corrcoef(said, true)[0, 1])


@dataclass(frozen=True, slots=True)
class Ranking:
    """Figures over groups. P10 is numpy's quantile: linear between the two nearest groups."""

    groups: int
    rows: int
    first_median: float
    """Share of the best throughput that the layout ranked first reaches."""
    first_p10: float
    three_median: float
    """The same for the best of the first three."""
    three_p10: float
    correlation_median: float

    @classmethod
    def of(cls, groups: Sequence[Group], pick: Rank, order: Rank | None = None) -> "Ranking":
        """Figures of the predictor that picks by `pick` and orders by `order` (else the same)."""
        one = [group.reached(pick) for group in groups]
        three = [group.reached(pick, _FIRST) for group in groups]
        order = order or pick
        return cls(
            groups=len(groups),
            rows=sum(len(group.members) for group in groups),
            first_median=float(np.median(one)),
            first_p10=float(np.quantile(one, 0.1)),
            three_median=float(np.median(three)),
            three_p10=float(np.quantile(three, 0.1)),
            correlation_median=float(np.median([group.correlation(order) for group in groups])),
        )


def groups_of(outcomes: Iterable[ValidatedRun], fewest: int) -> list[Group]:
    """Groups of rows with the same model, machine and batch.

    Those with at least `fewest` rows and two different layouts.
    """
    found: dict[tuple[str, ...], list[ValidatedRun]] = defaultdict(list)
    for one in outcomes:
        found[tuple(one.case.row.text(column) for column in _SAME)].append(one)
    groups = [Group(members) for members in found.values() if len(members) >= fewest]
    return [group for group in groups if len({_sizes(one) for one in group.members}) > 1]


def by_time(one: ValidatedRun) -> float:
    """Predicted step time."""
    return one.step_s


def by_fitting_time(one: ValidatedRun) -> float:
    """Predicted step time; what does not fit in memory comes after everything else."""
    return one.step_s + (0.0 if fits_memory(one) else _AFTER_ALL_S)


def by_expected_time(one: ValidatedRun) -> float:
    """The same with the time that stalls are expected to cost."""
    family = framework(one.case.software.framework)
    slower = expected_slowdown(family, one.layout, one.case.cluster)
    return one.step_s * float(slower) + (0.0 if fits_memory(one) else _AFTER_ALL_S)


def fits_memory(one: ValidatedRun) -> bool:
    """True if the run that is predicted fits."""
    return bool(fits(one.memory_bytes, one.case.cluster.device))


def degraded(outcomes: Sequence[ValidatedRun]) -> set[str]:
    """Ids of rows that a neighbour contradicts.

    They take 1.6 times the GPU seconds a sample of the best row with the same model, tp, pp and
    micro batch, both with at least four micro batches.
    """
    best: dict[tuple[str, ...], float] = {}
    judged = [one for one in outcomes if one.layout.microbatches >= _FEWEST_MICRO_BATCHES]
    for one in judged:
        key = _neighbours(one)
        best[key] = min(best.get(key, np.inf), _gpu_seconds(one))
    return {
        one.case.row.id for one in judged if _gpu_seconds(one) > _SLOWER * best[_neighbours(one)]
    }


def _sizes(one: ValidatedRun) -> tuple[str, ...]:
    return tuple(str(getattr(one.layout, name)) for name in SIZES)


def _neighbours(one: ValidatedRun) -> tuple[str, ...]:
    return tuple(one.case.row.text(column) for column in _NEIGHBOURS)


def _gpu_seconds(one: ValidatedRun) -> float:
    """GPU seconds a sample."""
    return one.case.measured_s * float(one.layout.gpus) / float(one.layout.global_batch or 1)


def _hashed(one: ValidatedRun) -> str:
    return sha256(one.case.row.id.encode()).hexdigest()


def _ranks(values: Sequence[float]) -> np.ndarray:
    """Ranks from 0 on; equal values share the mean of theirs."""
    _, place, counts = np.unique(values, return_inverse=True, return_counts=True)
    ends = np.cumsum(counts)
    return ((ends - counts + ends - 1) / 2.0)[place]
