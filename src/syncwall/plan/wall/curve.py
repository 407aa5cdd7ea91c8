"""Speed over GPU counts.

Holds `SpeedCurve`, `ScalingCurve` (that of a layout), `curve` and `Base`, what efficiency is
measured against.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np

from syncwall.cause import Cause
from syncwall.describe import Layout
from syncwall.plan.wall.rungs import picked
from syncwall.plan.wires import AS_IT_IS, PricedCase, Wires


@dataclass(frozen=True, slots=True)
class Base:
    """The count that efficiency is relative to."""

    gpus: int
    """What efficiency is relative to."""
    tokens_per_s_per_gpu: float


@dataclass(frozen=True)
class SpeedCurve:
    """One run on growing numbers of GPUs; arrays over the counts, fewest first."""

    gpus: Any
    step_s: Any
    tokens: Any
    """Of one step."""
    memory_bytes: Any
    """On the fullest GPU."""
    ledger: dict[Cause, Any]
    """Seconds by cause."""

    @property
    def tokens_per_s(self) -> Any:
        """Of all GPUs together."""
        return self.tokens / self.step_s

    @property
    def base(self) -> Base:
        """The first count."""
        return self.base_at(0)

    def base_at(self, index: int) -> Base:
        """The count that efficiency may be measured against."""
        return Base(int(self.gpus[index]), float(self.tokens_per_s[index] / self.gpus[index]))

    def efficiency(self, base: Base) -> Any:
        """Speed of a GPU over that at `base`."""
        return self.tokens_per_s / self.gpus / base.tokens_per_s_per_gpu

    def gpu_s_per_token(self, index: int) -> dict[Cause, float]:
        """What one token costs at a count, by cause, in seconds of one GPU."""
        each = float(self.gpus[index] / self.tokens[index])
        return {cause: float(seconds[index]) * each for cause, seconds in self.ledger.items()}


@dataclass(frozen=True)
class ScalingCurve(SpeedCurve):
    """The curve of a layout."""

    layout: Layout
    """With arrays."""

    def only(self, keep: Any) -> "ScalingCurve":
        """The counts at which `keep` is true."""
        ledger = {cause: seconds[keep] for cause, seconds in self.ledger.items()}
        return ScalingCurve(
            self.gpus[keep], self.step_s[keep], self.tokens[keep], self.memory_bytes[keep],
            ledger, picked(self.layout, keep),
        )  # fmt: skip


def curve(case: PricedCase, layout: Layout, wires: Wires = AS_IT_IS) -> ScalingCurve:
    """The curve of a `layout` with arrays; counts on which the machine looks alike are one call."""
    gpus = np.asarray(layout.gpus)
    count = len(gpus)
    step_s, tokens, memory = np.empty(count), np.empty(count), np.empty(count)
    ledger: dict[Cause, Any] = {}
    for machine, where in _alike(case, gpus):
        part = picked(layout, where)
        timed = machine.timed(part, wires)
        step_s[where], tokens[where] = timed.step_s, timed.work.tokens
        memory[where] = case.memory(part)
        for cause, seconds in timed.ledger.items():
            ledger.setdefault(cause, np.zeros(count))[where] = seconds
    found = ScalingCurve(gpus, step_s, tokens, memory, ledger, layout)
    return found.only(np.argsort(gpus, kind="stable"))


def _alike(case: PricedCase, gpus: Any) -> Iterator[tuple[PricedCase, Any]]:
    """Cases with the indices of the counts that they stand for.

    Prices depend on the machine's use only through what is used of a node and of a domain.
    """
    groups: dict[tuple[int, int], tuple[PricedCase, list[int]]] = {}
    built, node = case.cluster.scale_up, case.cluster.node.gpus
    whole = max(built.gpus // node, 1) if built else 1  # nodes of a domain
    for index, count in enumerate(gpus):
        each = min(int(count), case.cluster.gpus_per_node)
        key = (each, min(-(-int(count) // each), whole))
        if key not in groups:
            groups[key] = (case.using(int(count)), [])
        groups[key][1].append(index)
    return ((machine, np.array(indices)) for machine, indices in groups.values())
