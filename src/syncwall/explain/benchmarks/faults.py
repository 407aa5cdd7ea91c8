"""What may make a collective slow, by the trace that it leaves in a table of times.

Holds `Fault`, `FAULTS` and `likely_faults`. A fault is told by two figures: how many times longer
large sizes take than on a healthy machine, and how many times longer small ones do. What a fault
makes of them is priced by the same model on the changed machine where it has one, else a range is
stated with its reason.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from enum import StrEnum
from math import inf, log
from typing import Final

import numpy as np

from syncwall.answer.changed_machine import scale_up_held
from syncwall.describe import Cluster
from syncwall.explain.benchmarks.collective import CollectiveBenchmark
from syncwall.explain.benchmarks.expected import Regions, of_benchmark, placed

Range = tuple[float, float]


class FaultKind(StrEnum):
    """What can be told apart."""

    NIC = "one NIC off"
    TCP = "TCP instead of RDMA"
    NVLINK = "half of the NVLinks"
    PCIE = "PCIe instead of NVLink"
    RANK = "one slow rank"


@dataclass(frozen=True, slots=True)
class Fault:
    """One of them on a certain machine."""

    kind: FaultKind
    rate: Range
    """Least and most that large sizes take over a healthy machine."""
    small: Range
    """The same of small sizes; of a slow rank, over what large ones do."""


_SMALL_SPREAD: Final = 0.4
"""Spread of healthy tables around the model at small sizes, as a logarithm."""
_SMALL_SAYS: Final = 4.0
"""Most that small sizes weigh: their latency depends on versions and settings, too."""
_TOLD_APART: Final = 3.0
"""Faults this much less likely than the best, as a difference of squared deviations, go unnamed."""
_LIKE: Final = 0.3
"""Deviations below this count as none: of equal faults the more frequent one goes first."""
_NAMED: Final = 3
_TCP_RATE: Final = (2.5, 60.0)
"""NCCL on sockets over the NICs themselves, down to one management interface: 17 to 20 on Alps
without its plugin (CSCS documentation, NCCL)."""
_TCP_SMALL: Final = (1.6, 15.0)
"""The same pair of tables at small sizes: 2 to 14."""
_SLOW_RANK: Final = (1.1, 4.0)
_SAME: Final = (0.8, 1.25)
"""What does not touch latency leaves small sizes as they are."""


def faults_of(machine: Cluster, found: CollectiveBenchmark, sizes: Regions) -> Iterator[Fault]:
    """Those that can happen to these ranks on this machine."""
    used = placed(machine, found.ranks, found.nodes)
    healthy = of_benchmark(machine, found)

    def slower(changed: Cluster | None, region: np.ndarray) -> float | None:
        if changed is None or not region.any():
            return None
        return float(np.median(of_benchmark(changed, found)[region] / healthy[region]))

    nics = machine.node.nics
    if nics is not None and used.domain_gpus < found.ranks:
        if nics.count > 1:
            yield Fault(FaultKind.NIC, (nics.count / (nics.count - 1), 2.0), _SAME)
        if nics.transport == "rdma":
            yield Fault(FaultKind.TCP, _TCP_RATE, _TCP_SMALL)
    half = slower(scale_up_held(machine, 0.5), sizes.rate)
    if half is not None and half > 1.1:
        yield Fault(FaultKind.NVLINK, (0.85 * half, 1.1 * max(half, 2.0)), _SAME)
    pcie = scale_up_held(machine, 0.0)
    over_pcie, small = slower(pcie, sizes.rate), slower(pcie, sizes.small)
    if over_pcie is not None and over_pcie > 1.5:
        most = 2.0 * over_pcie
        yield Fault(FaultKind.PCIE, (0.6 * over_pcie, most), (0.8, max(2.0 * (small or 1.0), 4.0)))
    yield Fault(FaultKind.RANK, _SLOW_RANK, _SAME)


@dataclass(frozen=True, slots=True)
class Slower:
    """How many times longer than expected a table takes."""

    rate: float
    """At large sizes."""
    small: float | None
    """At small sizes; None if there are none."""
    spread: float
    """Of healthy tables at large sizes, as a logarithm."""


def likely_faults(
    machine: Cluster, found: CollectiveBenchmark, sizes: Regions, slower: Slower
) -> tuple[FaultKind, ...]:
    """What would explain it, the likeliest first; several if they cannot be told apart."""
    scores = {one.kind: _unlike(one, slower) for one in faults_of(machine, found, sizes)}
    best = min(scores.values(), default=inf)
    near = [kind for kind, score in scores.items() if score <= best + _TOLD_APART]
    return tuple(sorted(near, key=lambda kind: max(scores[kind], _LIKE))[:_NAMED])


def _unlike(fault: Fault, slower: Slower) -> float:
    """Squared deviation of what was measured from what `fault` does."""
    off = (_outside(slower.rate, fault.rate) / slower.spread) ** 2
    if slower.small is None:
        return off
    small = slower.small / (slower.rate if fault.kind is FaultKind.RANK else 1.0)
    return off + min((_outside(small, fault.small) / _SMALL_SPREAD) ** 2, _SMALL_SAYS)


def _outside(value: float, allowed: Range) -> float:
    """How far `value` lies outside of a range, as a logarithm."""
    return max(log(allowed[0] / value), log(value / allowed[1]), 0.0)
