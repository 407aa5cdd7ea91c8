"""Measured steps beside predicted ones.

Holds `Compared`, `LabComparison` and `compared`; `parts_of` sums up a ledger.
"""

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Final

import numpy as np

from syncwall.cause import Cause, CauseKind
from syncwall.lab.closed_loop import Forecast, step_label
from syncwall.lab.experiment_run import LabRecord
from syncwall.measure.kernel_times import Times
from syncwall.measure.training_step import StepData

_WORK = {cause for cause in Cause if cause.kind is CauseKind.WORK}
_EXPOSED = {cause for cause in Cause if cause.is_exposed}
EXPOSED: Final = "exposed communication"
GROUPS: Final[dict[str, set[Cause]]] = {
    "compute": _WORK - {Cause.OPTIMIZER} | {Cause.HOST},
    EXPOSED: _EXPOSED | {Cause.STRAGGLER},
    "optimizer": {Cause.OPTIMIZER},
}
"""Lines that a measured and a predicted ledger have in common, and what each of them sums up."""
RUN_TO_RUN = 0.04
"""What two runs of the same lab differ by on a machine that others share; the steps of one run
differ less. Run twice, half an hour apart, four steps of 1x4 differed by 0.4, 0.7, 3.9 and 4.6%,
four of 1x2 by 4.0, 8.8, 9.9 and 28%."""


def ledger_groups(ledger_s: dict[Cause, float]) -> dict[str, float]:
    """A ledger summed up in the lines of `GROUPS`, and what it has besides them."""
    parts = {group: sum(ledger_s.get(cause, 0.0) for cause in causes) for group, causes in GROUPS.items()}
    known = set().union(*GROUPS.values())
    other = sum(seconds for cause, seconds in ledger_s.items() if cause not in known)
    return parts | ({"other": other} if other > 0 else {})


@dataclass(frozen=True)
class Compared:
    """One step, measured and predicted."""

    place: str
    link: str
    """Rate of the links; empty on one host."""
    what: str
    """Model and sharing."""
    measured: StepData
    predicted: Forecast

    @property
    def error(self) -> float:
        """Predicted over measured, less 1."""
        return self.predicted.step_s / self.measured.times.median_s - 1.0

    def ledgers(self) -> dict[str, tuple[float, float]]:
        """Measured and predicted seconds of each line."""
        measured, predicted = (
            ledger_groups(self.measured.ledger_s),
            ledger_groups(self.predicted.ledger_s),
        )
        lines = dict.fromkeys([*measured, *predicted])
        return {line: (measured.get(line, 0.0), predicted.get(line, 0.0)) for line in lines}


@dataclass(frozen=True)
class Order:
    """Places of as many workers, by their measured and by their predicted time."""

    what: str
    link: str
    measured: tuple[str, ...]
    predicted: tuple[str, ...]
    tied: tuple[tuple[str, str], ...]
    """Neighbours in the measured order that differ by less than `RUN_TO_RUN`, or whose P10 to P90
    overlap: either order is right."""

    @property
    def is_right(self) -> bool:
        """True if the predicted order is the measured one, up to ties."""
        ranks = {place: number for number, place in enumerate(self.predicted)}
        return all(ranks[a] < ranks[b] or (a, b) in self.tied for a, b in pairwise(self.measured))


@dataclass(frozen=True)
class LabComparison:
    """All steps of an experiment."""

    rows: tuple[Compared, ...]

    @property
    def mean_error(self) -> float:
        """Mean of the absolute errors (MAPE)."""
        return float(np.mean([abs(row.error) for row in self.rows]))

    @property
    def worst(self) -> Compared:
        """The row that is furthest off."""
        return max(self.rows, key=lambda row: abs(row.error))

    def orders(self) -> list[Order]:
        """For each model, sharing and rate: the order of places with as many workers."""
        groups: dict[tuple[str, str, int], list[Compared]] = defaultdict(list)
        links = dict.fromkeys(row.link for row in self.rows if row.link)
        for row in self.rows:
            for link in [row.link] if row.link else links:
                groups[row.what, link, _workers(row.place)].append(row)
        return [_order(what, link, rows) for (what, link, _), rows in groups.items() if len(rows) > 1]


def predicted_steps(records: Sequence[LabRecord]) -> LabComparison:
    """The steps among `records` that were predicted and ended well."""
    rows = []
    for record in records:
        if record.predicted is None or record.result is None or not record.result.data:
            continue
        data = StepData.model_validate(record.result.data)
        topology, predicted = record.topology, Forecast.model_validate(record.predicted)
        what = step_label(record.job)
        rows.append(Compared(topology.place, topology.link, what, data, predicted))
    return LabComparison(tuple(rows))


def _workers(place: str) -> int:
    hosts, workers = place.split("x")
    return int(hosts) * int(workers)


def _alike(first: Times, second: Times) -> bool:
    """True if one cannot be told from the other, which is not quicker."""
    return first.p90_s >= second.p10_s or second.median_s < (1.0 + RUN_TO_RUN) * first.median_s


def _order(what: str, link: str, rows: list[Compared]) -> Order:
    by_measured = sorted(rows, key=lambda row: row.measured.times.median_s)
    by_predicted = sorted(rows, key=lambda row: row.predicted.step_s)
    tied = tuple(
        (first.place, second.place)
        for first, second in pairwise(by_measured)
        if _alike(first.measured.times, second.measured.times)
    )
    return Order(
        what,
        link,
        tuple(row.place for row in by_measured),
        tuple(row.place for row in by_predicted),
        tied,
    )
