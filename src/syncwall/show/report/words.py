"""Sentences about the steps of a lab; every one of them is computed from the records.

Holds `what_it_costs`, `what_the_model_says` and `what_stays_unexplained`. `LabStep`, `steps_of`,
`parts_of` and `most_wrong`: the training steps of a lab, measured and, where there is one,
predicted.
"""

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from syncwall.cause import Cause
from syncwall.lab.closed_loop import step_label
from syncwall.lab.comparison import GROUPS, RUN_TO_RUN, Compared, Comparison, Order, compared
from syncwall.lab.run import Record
from syncwall.lab.topology import Topology
from syncwall.measure.step import StepData
from syncwall.show.numbers import duration

OTHER = "other"
"""What a ledger has beside the lines that both have in common."""


@dataclass(frozen=True)
class LabStep:
    """One step on one topology."""

    record: Record
    data: StepData
    compared: Compared | None
    """None if it was not predicted."""

    @property
    def topology(self) -> Topology:
        """Where it ran."""
        return self.record.topology

    @property
    def what(self) -> str:
        """Model and sharing."""
        return step_label(self.record.job)

    @property
    def measured_s(self) -> float:
        """Median step."""
        return self.data.times.median_s

    @property
    def label(self) -> str:
        """Place and rate, and the round if it is not the first."""
        again = f" ({self.record.round + 1})" if self.record.round else ""
        return f"{self.topology.label.replace(' at ', ' · ')}{again}"

    @property
    def full_label(self) -> str:
        """Label and what ran."""
        return f"{self.what}, {self.label}"


def steps_of(records: Sequence[Record]) -> list[LabStep]:
    """The measured steps among `records`, in their order."""
    found = []
    for record in records:
        if record.result is not None and record.result.kind == "step":
            rows = compared([record]).rows
            data = StepData.model_validate(record.result.data)
            found.append(LabStep(record, data, rows[0] if rows else None))
    return found


def parts_of(ledger_s: dict[Cause, float]) -> dict[str, float]:
    """A ledger summed up in the lines that measured and predicted ones have in common."""
    parts = {
        group: sum(ledger_s.get(cause, 0.0) for cause in causes) for group, causes in GROUPS.items()
    }
    known = {cause for causes in GROUPS.values() for cause in causes}
    other = sum(seconds for cause, seconds in ledger_s.items() if cause not in known)
    return parts | ({OTHER: other} if other > 0 else {})


def pairs_of(row: Compared) -> dict[str, tuple[float, float]]:
    """Measured and predicted seconds of each line that either has."""
    measured, predicted = parts_of(row.measured.ledger_s), parts_of(row.predicted.ledger_s)
    lines = dict.fromkeys([*measured, *predicted])
    return {line: (measured.get(line, 0.0), predicted.get(line, 0.0)) for line in lines}


def most_wrong(row: Compared) -> tuple[str, float, float]:
    """The line of the ledger that is furthest off: its name, measured and predicted seconds."""
    pairs = pairs_of(row)
    line = max(pairs, key=lambda name: abs(pairs[name][1] - pairs[name][0]))
    return line, *pairs[line]


GOOD: Final = 0.10
"""Errors above this are listed."""
_CLEAR: Final = 0.5
"""A line explains a difference if it makes up more than this share of it."""


def what_it_costs(steps: Sequence[LabStep]) -> list[str]:
    """For each model, sharing and number of workers: the slowest place beside the fastest."""
    groups: dict[tuple[str, int], list[LabStep]] = defaultdict(list)
    for step in steps:
        groups[step.what, step.topology.world].append(step)
    return [
        _slowest_beside_fastest(what, world, alike)
        for (what, world), alike in groups.items()
        if len({step.label for step in alike}) > 1
    ]


def _slowest_beside_fastest(what: str, world: int, steps: Sequence[LabStep]) -> str:
    fast = min(steps, key=lambda step: step.measured_s)
    slow = max(steps, key=lambda step: step.measured_s)
    workers = f"{world} worker{'s' if world > 1 else ''}"
    times = slow.measured_s / fast.measured_s
    said = (
        f"{what}, {workers}: {slow.label} takes {times:.2f} times "
        f"as long as {fast.label} ({duration(slow.measured_s)} and {duration(fast.measured_s)})."
    )
    line, share = _explained(parts_of(fast.data.ledger_s), parts_of(slow.data.ledger_s))
    if share > _CLEAR:
        others = "" if share < 1.005 else " (other lines are shorter)"
        said += f" {share:.0%} of the difference is {line}{others}."
    else:
        said += " No single line of the ledger makes up most of the difference."
    if slow.compared and fast.compared:
        ratio = slow.compared.predicted.step_s / fast.compared.predicted.step_s
        said += f" The prediction says {ratio:.2f} times."
    return said


def _explained(fast: dict[str, float], slow: dict[str, float]) -> tuple[str, float]:
    """The line that grows most, and its share of what the whole grows by."""
    grown = {line: slow.get(line, 0.0) - fast.get(line, 0.0) for line in {**fast, **slow}}
    whole = sum(grown.values())
    line = max(grown, key=lambda name: grown[name])
    return line, grown[line] / whole if whole > 0 else 0.0


def what_the_model_says(found: Comparison) -> list[str]:
    """Errors, orders, and which line they come from."""
    rows = found.rows
    worst = found.worst
    close = sum(abs(row.error) <= GOOD for row in rows)
    said = [
        f"{len(rows)} step{'s were' if len(rows) > 1 else ' was'} measured and predicted: mean "
        f"absolute error (MAPE) {found.mean_error:.1%}, {close} of {len(rows)} within {GOOD:.0%}.",
        f"Furthest off is {_name(worst)}: measured {duration(worst.measured.times.median_s)}, "
        f"predicted {duration(worst.predicted.step_s)} ({worst.error:+.1%}).",
        _bias(rows),
    ]
    said += [_orders(found.orders())] if found.orders() else []
    return [*said, _lines(rows)]


def _bias(rows: Sequence[Compared]) -> str:
    above = sum(row.error > 0 for row in rows)
    mean = sum(row.error for row in rows) / len(rows)
    return (
        f"{above} of {len(rows)} predictions are above the measured step; "
        f"the mean of the signed errors is {mean:+.1%}."
    )


def _orders(orders: Sequence[Order]) -> str:
    right = sum(order.is_right for order in orders)
    return (
        f"The order of places with as many workers is right in {right} of {len(orders)} groups of "
        f"equal model, sharing and rate (places less than {RUN_TO_RUN:.0%} apart, or whose P10 to "
        "P90 overlap, count as tied)."
    )


def _lines(rows: Sequence[Compared]) -> str:
    """Which line of the ledger the errors come from, over all steps."""
    off: dict[str, float] = defaultdict(float)
    for row in rows:
        for line, (measured, predicted) in pairs_of(row).items():
            off[line] += abs(predicted - measured) / row.measured.times.median_s / len(rows)
    parts = sorted(off.items(), key=lambda part: -part[1])
    listed = ", ".join(f"{line} {share:.1%}" for line, share in parts)
    return f"By line of the ledger, predictions are off by, as a mean share of the step: {listed}."


def what_stays_unexplained(
    found: Comparison, steps: Sequence[LabStep], failed: Sequence[str]
) -> list[str]:
    """Steps that are more than `GOOD` off, orders that are wrong, and what is missing."""
    said = [_off(row) for row in sorted(found.rows, key=lambda row: -abs(row.error))
            if abs(row.error) > GOOD]  # fmt: skip
    for order in found.orders():
        if not order.is_right:
            measured, predicted = " < ".join(order.measured), " < ".join(order.predicted)
            said.append(
                f"{order.what} at {order.link}: the measured order is {measured}, "
                f"the predicted one {predicted}."
            )
    missing = sum(step.compared is None for step in steps)
    if missing and found.rows:
        said.append(f"{missing} measured steps have no prediction.")
    return [*said, *failed]


def _off(row: Compared) -> str:
    line, measured, predicted = most_wrong(row)
    whole = row.predicted.step_s - row.measured.times.median_s
    share = (predicted - measured) / whole if whole else 0.0
    part = f", {share:.0%} of the error" if 0 < share <= 1 else ""
    return (
        f"{_name(row)}: {row.error:+.1%}. Most off is {line}: measured {duration(measured)}, "
        f"predicted {duration(predicted)}{part}."
    )


def _name(row: Compared) -> str:
    return f"{row.what}, {row.place}{f' at {row.link}' if row.link else ''}"
