"""What a lab found, in sentences: which placement is fastest, what makes the difference, and how near
predictions came.
"""

from collections import defaultdict
from collections.abc import Iterator, Sequence
from typing import Final

from syncwall.lab.comparison import (
    RUN_TO_RUN,
    Compared,
    LabComparison,
    Order,
    ledger_groups,
)
from syncwall.lab.virtual_network import rate_text
from syncwall.report import (
    PlacedStep,
    comparable_steps,
)
from syncwall.show.numbers import duration, percent, plural, signed_percent

GOOD: Final = 0.10
"""Errors above this are listed."""
_CLEAR: Final = 0.5
"""A line explains a difference if it makes up more than this share of it."""


def conclusion(steps: Sequence[PlacedStep], found: LabComparison) -> list[str]:
    """What spreading the same workers over hosts costs, and whether the prediction saw it."""
    groups = _several(steps)
    if not groups:
        said = [_alone(one) for one in steps[:2]]
    else:
        worst = max(groups, key=_times)
        slow, fast = _slowest(worst), _fastest(worst)
        said = [
            f"The same {plural(slow.world, 'worker')} take up to {_times(worst):.2f} times as long "
            f"on {_hosts(slow, fast)} as on {_hosts(fast, slow)} ({slow.what}: "
            f"{duration(slow.measured_s)} on {slow.label}, {duration(fast.measured_s)} on "
            f"{fast.label}). {_difference(fast, slow)}",
            *_with_fast_links(groups),
            *_between_hosts(groups),
        ]
    if found.rows:
        said.append(
            f"The prediction is off by {percent(found.mean_error, 1)} on average over "
            f"{plural(len(found.rows), 'step')}, by {signed_percent(found.worst.error)} at worst"
            f"{_order(found.orders())}."
        )
    return said


def _hosts(step: PlacedStep, other: PlacedStep) -> str:
    """How a place is called beside another one."""
    return plural(step.hosts, "host") if step.hosts != other.hosts else step.label


def _several(steps: Sequence[PlacedStep]) -> list[list[PlacedStep]]:
    """Of equal work and workers, those that ran in several places."""
    return [one for one in comparable_steps(steps).values() if len({step.label for step in one}) > 1]


def _alone(step: PlacedStep) -> str:
    return (
        f"{step.what} takes {duration(step.measured_s)} on {step.label}; "
        f"{percent(step.exposed_share)} of it waits for communication."
    )


def _fastest(steps: Sequence[PlacedStep]) -> PlacedStep:
    return min(steps, key=lambda step: step.measured_s)


def _slowest(steps: Sequence[PlacedStep]) -> PlacedStep:
    return max(steps, key=lambda step: step.measured_s)


def _times(steps: Sequence[PlacedStep]) -> float:
    """The slowest over the fastest."""
    return _slowest(steps).measured_s / _fastest(steps).measured_s


def _with_fast_links(groups: Sequence[Sequence[PlacedStep]]) -> Iterator[str]:
    """What is left of the cost where links are fastest."""
    rates = {step.rate_bytes_per_s or 0.0 for group in groups for step in group} - {0.0}
    if len(rates) < 2:
        return
    left = ([s for s in group if s.rate_bytes_per_s in (None, max(rates))] for group in groups)
    times = max((_times(group) for group in left if len(group) > 1), default=1.0)
    yield f"With links of {rate_text(max(rates))}, a step takes at most {times:.2f} times as long."


def _between_hosts(groups: Sequence[Sequence[PlacedStep]]) -> Iterator[str]:
    """How much it matters on how many hosts, if on more than one."""
    equal: dict[tuple[int, float | None], list[PlacedStep]] = defaultdict(list)
    for number, group in enumerate(groups):
        for step in group:
            if step.hosts > 1:
                equal[number, step.rate_bytes_per_s].append(step)
    several = [group for group in equal.values() if len({step.hosts for step in group}) > 1]
    if several:
        counts = sorted({step.hosts for group in several for step in group})
        *first, last = map(str, counts)
        more = max(map(_times, several)) - 1.0
        yield (
            f"Between {', '.join(first)} and {last} hosts with equal links, it differs by at most "
            f"{percent(more)}."
        )


def _order(orders: Sequence[Order]) -> str:
    right = sum(order.is_right for order in orders)
    return f"; the order of places is right in {right} of {len(orders)} groups" if orders else ""


def what_it_costs(steps: Sequence[PlacedStep]) -> list[str]:
    """For each model, sharing and number of workers: the slowest place beside the fastest."""
    return [_slowest_beside_fastest(_fastest(one), _slowest(one)) for one in _several(steps)]


def _slowest_beside_fastest(fast: PlacedStep, slow: PlacedStep) -> str:
    said = (
        f"{slow.what}, {plural(slow.world, 'worker')}: {slow.label} takes "
        f"{_times((fast, slow)):.2f} times as long as {fast.label} ({duration(slow.measured_s)} "
        f"and {duration(fast.measured_s)}). {_difference(fast, slow)}"
    )
    if slow.predicted_s and fast.predicted_s:
        said += f" The prediction says {slow.predicted_s / fast.predicted_s:.2f} times."
    return said


def _difference(fast: PlacedStep, slow: PlacedStep) -> str:
    """Which line of the ledger makes up most of it."""
    line, share = _explained(ledger_groups(fast.data.ledger_s), ledger_groups(slow.data.ledger_s))
    if share <= _CLEAR:
        return "No single line of the ledger makes up most of the difference."
    others = "" if share < 1.005 else " (other lines are shorter)"
    return f"{percent(share)} of the difference is {line}{others}."


def _explained(fast: dict[str, float], slow: dict[str, float]) -> tuple[str, float]:
    """The line that grows most, and its share of what the whole grows by."""
    grown = {line: slow.get(line, 0.0) - fast.get(line, 0.0) for line in {**fast, **slow}}
    whole = sum(grown.values())
    line = max(grown, key=lambda name: grown[name])
    return line, grown[line] / whole if whole > 0 else 0.0


def what_the_model_says(found: LabComparison) -> list[str]:
    """Errors, orders, and which line they come from."""
    rows = found.rows
    worst = found.worst
    close = sum(abs(row.error) <= GOOD for row in rows)
    said = [
        f"{len(rows)} step{'s were' if len(rows) > 1 else ' was'} measured and predicted: mean "
        f"absolute error (MAPE) {percent(found.mean_error, 1)}, {close} of {len(rows)} within "
        f"{percent(GOOD)}.",
        f"Furthest off is {_name(worst)}: measured {duration(worst.measured.times.median_s)}, "
        f"predicted {duration(worst.predicted.step_s)} ({signed_percent(worst.error)}).",
        _bias(rows),
    ]
    said += [_orders(found.orders())] if found.orders() else []
    return [*said, _lines(rows)]


def _bias(rows: Sequence[Compared]) -> str:
    above = sum(row.error > 0 for row in rows)
    mean = sum(row.error for row in rows) / len(rows)
    return (
        f"{above} of {len(rows)} predictions are above the measured step; "
        f"the mean of the signed errors is {signed_percent(mean)}."
    )


def _orders(orders: Sequence[Order]) -> str:
    right = sum(order.is_right for order in orders)
    return (
        f"The order of places with as many workers is right in {right} of {len(orders)} groups of "
        f"equal model, sharing and rate (places less than {percent(RUN_TO_RUN)} apart, or whose "
        "P10 to P90 overlap, count as tied)."
    )


def _lines(rows: Sequence[Compared]) -> str:
    """Which line of the ledger the errors come from, over all steps."""
    off: dict[str, float] = defaultdict(float)
    for row in rows:
        for line, (measured, predicted) in row.ledgers().items():
            off[line] += abs(predicted - measured) / row.measured.times.median_s / len(rows)
    parts = sorted(off.items(), key=lambda part: -part[1])
    listed = ", ".join(f"{line} {percent(share, 1)}" for line, share in parts)
    return f"By line of the ledger, predictions are off by, as a mean share of the step: {listed}."


def what_stays_unexplained(
    found: LabComparison, steps: Sequence[PlacedStep], failed: Sequence[str]
) -> list[str]:
    """Steps that are more than `GOOD` off, orders that are wrong, and what is missing."""
    said = [_off(row) for row in sorted(found.rows, key=lambda row: -abs(row.error)) if abs(row.error) > GOOD]
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
    pairs = row.ledgers()
    line = max(pairs, key=lambda name: abs(pairs[name][1] - pairs[name][0]))
    measured, predicted = pairs[line]
    whole = row.predicted.step_s - row.measured.times.median_s
    share = (predicted - measured) / whole if whole else 0.0
    part = f", {percent(share)} of the error" if 0 < share <= 1 else ""
    return (
        f"{_name(row)}: {signed_percent(row.error)}. Most off is {line}: measured "
        f"{duration(measured)}, predicted {duration(predicted)}{part}."
    )


def _name(row: Compared) -> str:
    return f"{row.what}, {row.place}{f' at {row.link}' if row.link else ''}"
