"""What a network is asked for.

Holds `NetworkLever` (what is varied), `Target` (what must hold), `TargetLimits` (how much of it)
and `met`. Every target compares the same layout on the same GPUs with a network that costs nothing,
so that pipeline bubbles and stragglers, which no network can help, are on both sides.
`NetworkQuestion`, `RequiredFactor` and `solved`: the least of a lever with which a target holds, by
search on the predictor. Every target holds from some value on, so the range is cut into parts again
and again; all questions of a layout are one array of wires in each round.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Any, Final

import numpy as np

from syncwall.answer.pricing import Timed
from syncwall.describe import Cluster, Layout
from syncwall.plan.network.busy import busy_s
from syncwall.plan.wires import PricedCase, Wires

ENDLESS_BYTES_PER_S: Final = 1e15
"""A rate that no wire has: stands for infinity, which does not compute."""
LEAST_BYTES_PER_S: Final = 1e5
_LONGEST: Final = 1e6
"""Times today's latency: if that does no harm, none does."""


class NetworkLever(StrEnum):
    """What is varied."""

    NIC = "nic"
    """Rate of the NICs; compared with an endless rate and no latency."""
    SCALE_UP = "scale-up"
    """Rate inside a scale-up domain; compared with an endless one."""
    LATENCY = "latency"
    """Time of an empty message between domains; compared with none."""


class Target(StrEnum):
    """What must hold."""

    BUSY = "busy"
    """The network is in use no longer than the rest of the step takes: the least with which any
    overlap could hide it. The criterion of ml-engineering's network chapter."""
    EFFICIENCY = "efficiency"
    """Step on the ideal network over step on this one is at least `Limits.efficiency`."""
    HIDDEN = "hidden"
    """Waits for communication, beyond those on the ideal network, are at most `Limits.exposed` of
    the ideal step."""


@dataclass(frozen=True, slots=True)
class TargetLimits:
    """How much of each target."""

    efficiency: float = 0.9
    """Ideal step over step that is asked for."""
    exposed: float = 0.05
    """Share of the step that may wait and count as hidden."""


@dataclass(frozen=True, slots=True)
class Ideal:
    """The same layout where the lever costs nothing."""

    step_s: float
    """On a network of endless rate without latency."""
    waits_s: float


def met(target: Target, timed: Timed, ideal: Ideal, limits: TargetLimits) -> Any:
    """True where `target` holds; broadcasts over the arrays of `timed`."""
    slack = 1.0 + 1e-12
    if target is Target.EFFICIENCY:
        return timed.step_s * limits.efficiency <= ideal.step_s * slack
    if target is Target.HIDDEN:
        return timed.waits_s - ideal.waits_s <= limits.exposed * ideal.step_s * slack
    return busy_s(timed) <= (ideal.step_s - ideal.waits_s) * slack


def range_of(lever: NetworkLever, cluster: Cluster) -> tuple[float, float]:
    """Least and most factor that is tried, the larger the better."""
    if lever is NetworkLever.LATENCY:
        return 1.0 / _LONGEST, 1.0 / 1e-9
    nics, domain = cluster.node.nics, cluster.scale_up
    rate = nics.rate_bytes_per_s if lever is NetworkLever.NIC and nics else None
    rate = domain.rate_bytes_per_s if lever is NetworkLever.SCALE_UP and domain else rate
    if rate is None:
        raise ValueError(f"this machine has no {lever}")
    return LEAST_BYTES_PER_S / rate, ENDLESS_BYTES_PER_S / rate


def wires_of(levers: list[NetworkLever], goodness: Any) -> Wires:
    """Wires in which entry i of every array has lever i at `goodness` i, the others at 1."""
    names = np.array([str(lever) for lever in levers])
    nic = np.where(names == NetworkLever.NIC, goodness, 1.0)
    scale_up = np.where(names == NetworkLever.SCALE_UP, goodness, 1.0)
    return Wires(nic, scale_up, np.where(names == NetworkLever.LATENCY, 1.0 / goodness, 1.0))


def ideals(levers: list[NetworkLever], timed_with: Any, cluster: Cluster) -> list[Ideal]:
    """For each lever the step where it costs nothing; `timed_with` prices wires."""
    most = np.array([range_of(lever, cluster)[1] for lever in levers])
    wires = wires_of(levers, most)
    free = np.array([lever is not NetworkLever.SCALE_UP for lever in levers])  # no latency either
    timed: Timed = timed_with(Wires(wires.nic, wires.scale_up, np.where(free, 0.0, 1.0)))
    steps = np.broadcast_to(timed.step_s, len(levers))
    waits = np.broadcast_to(timed.waits_s, len(levers))
    return [Ideal(float(s), float(w)) for s, w in zip(steps, waits, strict=True)]


_ROUNDS: Final = 6
_PARTS: Final = np.arange(1, 17) / 17.0
"""Values tried in a round, as shares of the range left: 6 rounds of 17 parts leave 1e-6 of it."""


@dataclass(frozen=True, slots=True)
class NetworkQuestion:
    """Of what, and for what."""

    lever: NetworkLever
    target: Target


@dataclass(frozen=True, slots=True)
class RequiredFactor:
    """The least factor on the lever's goodness (rate, or one over latency) that is enough."""

    factor: float | None
    """None if no factor is enough; 0 if any is."""
    ideal: Ideal
    holds_now: bool
    """True if the target holds as the machine is."""


def solved(
    case: PricedCase, layout: Layout, questions: Sequence[NetworkQuestion], limits: TargetLimits
) -> dict[NetworkQuestion, RequiredFactor]:
    """Every question of one resolved `layout`."""
    levers = [question.lever for question in questions]
    if not levers:
        return {}
    best = ideals(levers, lambda wires: case.timed(layout, wires), case.cluster)
    trial = _Trial(case, layout, list(questions), best, limits)
    ranges = np.log([range_of(lever, case.cluster) for lever in levers])
    low, high = ranges[:, 0], ranges[:, 1]
    always, ever, now = trial.holds(np.stack([low, high, 0.0 * low]))
    for _ in range(_ROUNDS):
        tried = low + (high - low) * _PARTS[:, None]
        first = np.argmax(np.vstack([trial.holds(tried), np.ones_like(always)]), axis=0)
        bounds = np.vstack([low, tried, high])
        column = np.arange(len(levers))
        low, high = bounds[first, column], bounds[first + 1, column]
    found = [
        0.0 if always[i] else float(np.exp(high[i])) if ever[i] else None
        for i in range(len(levers))
    ]
    return {
        question: RequiredFactor(found[i], best[i], bool(now[i]))
        for i, question in enumerate(questions)
    }


@dataclass(frozen=True, slots=True)
class _Trial:
    """Trying several values for every question in one call of the model."""

    case: PricedCase
    layout: Layout
    questions: list[NetworkQuestion]
    ideals: list[Ideal]
    limits: TargetLimits

    def holds(self, logs: Any) -> Any:
        """True where a question's target holds; `logs` has a row for each value, a column each."""
        rows, count = logs.shape
        levers = [question.lever for question in self.questions] * rows
        timed = self.case.timed(self.layout, wires_of(levers, np.exp(logs).ravel()))
        each = [
            np.broadcast_to(met(question.target, timed, ideal, self.limits), rows * count)
            for question, ideal in zip(self.questions, self.ideals, strict=True)
        ]
        table = np.stack([column.reshape(rows, count)[:, i] for i, column in enumerate(each)])
        return table.T
