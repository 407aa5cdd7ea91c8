"""Sentences about the steps of a lab; every one of them is computed from the records.

Holds `what_it_costs`, `what_the_model_says` and `what_stays_unexplained`.
"""

from collections import defaultdict
from collections.abc import Sequence
from typing import Final

from syncwall.lab.comparison import RUN_TO_RUN, Compared, Comparison, Order
from syncwall.show.measurement import duration
from syncwall.show.report.steps import LabStep, most_wrong, pairs_of, parts_of

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
