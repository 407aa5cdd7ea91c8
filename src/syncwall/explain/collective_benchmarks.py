"""Whether a benchmark of a collective is as fast as its machine should be, and what may make
it slow.

A fault is told by two figures: how many times longer large sizes take than on a healthy machine,
and how many times longer small ones do. What a fault makes of them is priced by the same model on
the changed machine where it has one, else a range is stated with its reason.
"""

import re
from collections.abc import Iterator
from dataclasses import dataclass, replace
from enum import StrEnum
from math import inf, log
from pathlib import Path
from statistics import median
from typing import Any, Final

import numpy as np
from pydantic import ValidationError

from syncwall.answer.pricing import Pricing, scale_up_held, without_switch_reduction
from syncwall.cost.communication import NcclNetwork
from syncwall.cost.measured import CollectiveTable, MachineMeasurements
from syncwall.cost.nccl import bus_factor
from syncwall.describe import Cluster
from syncwall.public import Numbers, published
from syncwall.read.nccl_tests import NcclTests
from syncwall.work.operations import Collective, CollectiveKind, Group

KINDS: Final[dict[str, CollectiveKind]] = {
    "all_reduce": "all-reduce",
    "all_gather": "all-gather",
    "reduce_scatter": "reduce-scatter",
    "alltoall": "all-to-all",
    "broadcast": "broadcast",
    "reduce": "reduce",
}
"""Of what nccl-tests calls them."""
UNPRICED: Final = ("sendrecv", "gather", "scatter", "hypercube")
"""The rest, which the cost model does not price."""
_LARGE: Final = 1 << 20
"""Bytes from which printed rates have digits enough to tell the ranks from their ratio."""
_FEW: Final = 64
"""Most ranks that this ratio tells for sure."""
_ONE: Final = 0.9999
"""Bus over algorithm bandwidth: an all-reduce of 2 ranks has 1, a reduce-scatter less."""


@dataclass(frozen=True)
class CollectiveBenchmark:
    """Seconds of one collective by size."""

    source: str
    """The file."""
    kind: CollectiveKind
    ranks: int
    nodes: int | None
    """None if the file does not name the hosts."""
    sizes: Numbers
    """Bytes, growing, as nccl-tests counts them."""
    seconds: Numbers
    device: str = ""
    """Name of the first GPU, as the file has it."""
    hosts: tuple[str, ...] = ()

    def busbw(self, seconds: Any) -> Any:
        """Bytes/s on each link, as nccl-tests counts them, if the sizes took `seconds`."""
        return self.sizes * bus_factor(self.kind, self.ranks) / seconds


def of_nccl_tests(run: NcclTests) -> CollectiveBenchmark | None:
    """The times of `run`; None if its collective has no price, or its ranks are not known."""
    name = run.collective or _told_by_columns(run)
    kind, ranks = KINDS.get(name or ""), run.ranks or _told_by_rates(run, name)
    points = seconds_by_size(run)
    if kind is None or ranks is None or ranks < 2 or not points:
        return None
    hosts = tuple(dict.fromkeys(device.host for device in run.devices))
    sizes = sorted(points)
    return CollectiveBenchmark(
        source=run.source,
        kind=kind,
        ranks=ranks,
        nodes=len(hosts) or None,
        sizes=np.array(sizes),
        seconds=np.array([points[size] for size in sizes]),
        device=run.devices[0].name if run.devices else "",
        hosts=hosts,
    )


def seconds_by_size(run: NcclTests) -> dict[float, float]:
    """Seconds of each size in bytes, out of place if it was measured."""
    return {
        float(row.size_bytes): best.time_us * 1e-6
        for row in run.rows
        if (best := row.out_of_place or row.in_place) and row.size_bytes > 0 and best.time_us > 0
    }


def of_measured(found: MachineMeasurements) -> Iterator[CollectiveBenchmark]:
    """Every table that `syncwall measure collectives` made."""
    for table in found.collectives:
        yield _of_table(table, found)


def _of_table(table: CollectiveTable, found: MachineMeasurements) -> CollectiveBenchmark:
    sizes, seconds = zip(*sorted(table.points), strict=True)
    return CollectiveBenchmark(
        source=", ".join(found.sources),
        kind=table.kind,
        ranks=table.ranks,
        nodes=table.nodes,
        sizes=np.array(sizes),
        seconds=np.array(seconds),
        device=found.device,
        hosts=found.hosts,
    )


def _told_by_columns(run: NcclTests) -> str | None:
    """The collective of an output whose last lines are lost, and of versions before 2.17.

    All-reduce and reduce-scatter have an operation and no root, but another bus bandwidth;
    all-gather and all-to-all differ in nothing but what the file may be called.
    """
    row, told = run.rows[-1], _bus_over_algorithm(run)
    rooted = row.root is not None and row.root >= 0
    if told is None:
        return None
    if row.redop != "none":
        if rooted:
            return "reduce"
        return "all_reduce" if told > _ONE else "reduce_scatter"
    called = re.sub(r"[^a-z]", "", Path(run.source).name.lower())
    names = {"alltoall": "alltoall", "allgather": "all_gather"}
    return "broadcast" if rooted else next((names[n] for n in names if n in called), None)


def _told_by_rates(run: NcclTests, name: str | None) -> int | None:
    """Ranks from bus over algorithm bandwidth, in an output whose header is lost."""
    told = _bus_over_algorithm(run)
    most = {"all_reduce": 2.0, "all_gather": 1.0, "reduce_scatter": 1.0, "alltoall": 1.0}
    whole = most.get(name or "")
    if told is None or whole is None or not 0 < told < whole:
        return None
    ranks = round(whole / (whole - told))
    return ranks if 1 < ranks <= _FEW else None


def _bus_over_algorithm(run: NcclTests) -> float | None:
    timed = [one for row in run.rows if row.size_bytes >= _LARGE and (one := row.out_of_place)]
    ratios = [one.busbw_gb_per_s / one.algbw_gb_per_s for one in timed if one.algbw_gb_per_s > 0]
    return median(ratios) if ratios else None


_LARGEST: Final = 8 * 2.0**30
"""Bytes at which links are surely what counts."""
_RATE_FROM: Final = 0.85
"""Share of the rate at `_LARGEST` from which a size tells the rate of links."""
_LARGE_FROM: Final = 0.6
"""Share from which a fault of links shows."""
SMALL_BYTES: Final = 64 * 2.0**10
"""Up to this size a time is mostly latency."""


@dataclass(frozen=True, slots=True)
class Regions:
    """Masks over the sizes of a benchmark."""

    rate: Any
    """Large enough that nothing but the rate of links counts."""
    large: Any
    """Large enough that it counts for more than latency."""
    small: Any
    """So small that latency counts."""


def machine_for_ranks(machine: Cluster, ranks: int, nodes: int | None) -> Cluster:
    """`machine` with as many nodes in use as `ranks` stand on, equally filled."""
    built = machine.node.gpus
    count = nodes or -(-ranks // built)
    each = min(max(-(-ranks // count), 1), built)
    return machine.using(nodes=max(count, -(-ranks // each)), gpus_per_node=each)


def expected_seconds(
    machine: Cluster, kind: CollectiveKind, ranks: int, nodes: int | None, sizes: Any
) -> Any:
    """Seconds of a collective over neighbouring ranks, by size."""
    used = machine_for_ranks(machine, ranks, nodes)
    network = NcclNetwork(used, Pricing.on(used).fit.network, alone=True)
    found = network.collective_seconds(Collective(kind, np.asarray(sizes), Group("dp", ranks)))
    return np.asarray(found, dtype=float)


def of_benchmark(machine: Cluster, found: CollectiveBenchmark) -> Any:
    """Seconds that the sizes of a benchmark should take."""
    return expected_seconds(machine, found.kind, found.ranks, found.nodes, found.sizes)


def regions(machine: Cluster, found: CollectiveBenchmark, expected_s: Any) -> Regions:
    """Which sizes tell what."""
    largest = np.array([_LARGEST])
    most = _LARGEST / expected_seconds(machine, found.kind, found.ranks, found.nodes, largest)[0]
    reached = found.sizes / expected_s / most
    large = reached >= _LARGE_FROM
    rate = reached >= _RATE_FROM
    return Regions(rate if rate.any() else large, large, found.sizes <= SMALL_BYTES)


Range = tuple[float, float]


class FaultKind(StrEnum):
    """What can be told apart."""

    NIC = "one NIC off"
    TCP = "TCP instead of RDMA"
    NVLINK = "half of the NVLinks"
    NVLS = "NVLS off"
    PCIE = "PCIe instead of NVLink"
    RANK = "one slow rank"


@dataclass(frozen=True, slots=True)
class MachineFault:
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
_NVLS_SMALL: Final = (0.8, 2.0)
"""Trees and rings take longer for small sizes than reductions in the switch, where these are used."""
_SLOW_RANK: Final = (1.1, 4.0)
_SAME: Final = (0.8, 1.25)
"""What does not touch latency leaves small sizes as they are."""


def possible_faults(machine: Cluster, found: CollectiveBenchmark, sizes: Regions) -> Iterator[MachineFault]:
    """Those that can happen to these ranks on this machine."""
    used = machine_for_ranks(machine, found.ranks, found.nodes)
    healthy = of_benchmark(machine, found)

    def slower(changed: Cluster | None, region: np.ndarray) -> float | None:
        if changed is None or not region.any():
            return None
        return float(np.median(of_benchmark(changed, found)[region] / healthy[region]))

    nics = machine.node.nics
    if nics is not None and used.domain_gpus < found.ranks:
        if nics.count > 1:
            yield MachineFault(FaultKind.NIC, (nics.count / (nics.count - 1), 2.0), _SAME)
        if nics.transport == "rdma":
            yield MachineFault(FaultKind.TCP, _TCP_RATE, _TCP_SMALL)
    rings = slower(without_switch_reduction(machine), sizes.rate)
    if rings is not None and rings > 1.1:
        yield MachineFault(FaultKind.NVLS, (0.9 * rings, 1.1 * rings), _NVLS_SMALL)
    half = slower(scale_up_held(machine, 0.5), sizes.rate)
    if half is not None and half > 1.1:
        yield MachineFault(FaultKind.NVLINK, (0.85 * half, 1.1 * max(half, 2.0)), _SAME)
    pcie = scale_up_held(machine, 0.0)
    over_pcie, small = slower(pcie, sizes.rate), slower(pcie, sizes.small)
    if over_pcie is not None and over_pcie > 1.5:
        most = 2.0 * over_pcie
        yield MachineFault(FaultKind.PCIE, (0.6 * over_pcie, most), (0.8, max(2.0 * (small or 1.0), 4.0)))
    yield MachineFault(FaultKind.RANK, _SLOW_RANK, _SAME)


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
    scores = {one.kind: _unlike(one, slower) for one in possible_faults(machine, found, sizes)}
    best = min(scores.values(), default=inf)
    near = [kind for kind, score in scores.items() if score <= best + _TOLD_APART]
    return tuple(sorted(near, key=lambda kind: max(scores[kind], _LIKE))[:_NAMED])


def _unlike(fault: MachineFault, slower: Slower) -> float:
    """Squared deviation of what was measured from what `fault` does."""
    off = (_outside(slower.rate, fault.rate) / slower.spread) ** 2
    if slower.small is None:
        return off
    small = slower.small / (slower.rate if fault.kind is FaultKind.RANK else 1.0)
    return off + min((_outside(small, fault.small) / _SMALL_SPREAD) ** 2, _SMALL_SAYS)


def _outside(value: float, allowed: Range) -> float:
    """How far `value` lies outside of a range, as a logarithm."""
    return max(log(allowed[0] / value), log(value / allowed[1]), 0.0)


@dataclass(frozen=True, slots=True)
class HealthyLimits:
    """Measured over expected time of healthy tables."""

    least: float
    most: float
    """Above it a table is slow."""


INSIDE: Final = HealthyLimits(0.90, 1.10)
"""In one scale-up domain. All three were fitted on half of the sources of public nccl-tests tables,
`python -m bench accuracy benchmarks DIR`: 20 healthy tables from 0.94 to 1.07."""
ACROSS: Final = HealthyLimits(0.88, 1.12)
"""Over several domains: 36 tables from 0.89 to 1.09."""
MANY_RANKS: Final = 256
CROWDED: Final = HealthyLimits(0.88, 1.30)
"""With more ranks than that, which share the network with others: 11 tables, 9 of them from 0.92 to
1.27, two 1.61 and 1.62."""
SMALL_MOST: Final = 6.0
"""Most of small sizes: of 96 public tables of healthy machines the slowest is at 5.7, the next at 3.4."""
_SHARE: Final = 0.25
"""Of the sizes, the share that must be faster than what counts: single sizes are disturbed by
others on a shared network, a fault slows all of them down."""
_NOT_FULL: Final = 1.15
"""Where the rate of links is only nearly reached the model errs towards slow by this factor."""


@published(
    "source=benchmark.source collective=benchmark.kind ranks=benchmark.ranks machine=machine.name",
    "is_slow slower=rate slower_small=small healthy likely=faults sizes_bytes=benchmark.sizes",
    "measured_s=benchmark.seconds expected_s",
)
@dataclass(frozen=True)
class Judgement:
    """A benchmark beside what its machine should do."""

    benchmark: CollectiveBenchmark
    machine: Cluster
    expected_s: Numbers
    """By size."""
    limits: HealthyLimits
    rate: float | None
    """Measured over expected time of large sizes, as far as all of them agree; None without."""
    largest_only: float | None
    """The same of the largest sizes alone."""
    small: float | None
    """The same of small sizes."""
    slow_sizes: tuple[float, float] | None = None
    """From and to which size it is slower than the limit; None if nowhere."""
    faults: tuple[FaultKind, ...] = ()
    """Likely causes, the likeliest first; empty if it is not slow."""
    slow_on: tuple[str, ...] = ()
    """Other machines that it may be from, on which it would be slow."""
    judged_bytes: tuple[float, float] | None = None
    """From and to which size it was compared with the machine; None if nowhere."""

    @property
    def healthy(self) -> list[float]:
        """Least and most of it on healthy machines."""
        return [self.limits.least, self.limits.most]

    @property
    def is_slow(self) -> bool:
        """True if large sizes are slower than on healthy machines, all of them."""
        return self.rate is not None and self.rate > self.limits.most

    @property
    def is_unsteady(self) -> bool:
        """True if only the largest sizes are slow, as on a busy network."""
        return not self.is_slow and (self.largest_only or 0.0) > self.limits.most

    @property
    def is_late(self) -> bool:
        """True if nothing but small sizes is slow, beyond all healthy machines."""
        return not (self.is_slow or self.is_unsteady) and (self.small or 0.0) > SMALL_MOST

    @property
    def largest(self) -> tuple[float, float, float, float]:
        """At the largest size: bytes, busbw in bytes/s, expected busbw, and the least healthy."""
        found, expected = self.benchmark, self.benchmark.busbw(self.expected_s)[-1]
        return (
            float(found.sizes[-1]),
            float(found.busbw(found.seconds)[-1]),
            float(expected),
            float(expected / self.limits.most),
        )


def judged(found: CollectiveBenchmark, machine: Cluster) -> Judgement | None:
    """`found` on `machine`; None if the machine cannot hold so many ranks."""
    try:
        used = machine_for_ranks(machine, found.ranks, found.nodes)
    except ValidationError:
        return None
    expected_s = of_benchmark(machine, found)
    sizes = regions(machine, found, expected_s)
    ratio = found.seconds / expected_s
    limits = _limits(found.ranks, used.domain_gpus)
    largest, all_large = (_faster_than(ratio[mask]) for mask in (sizes.rate, sizes.large))
    rate = None if largest is None or all_large is None else min(largest, _NOT_FULL * all_large)
    small = float(np.median(ratio[sizes.small])) if sizes.small.any() else None
    above = found.sizes[sizes.large & (ratio > limits.most)]
    large = found.sizes[sizes.large]
    said = Judgement(
        found,
        machine,
        expected_s,
        limits,
        rate,
        largest,
        small,
        slow_sizes=_ends(above),
        judged_bytes=_ends(large),
    )
    if not said.is_slow or rate is None:
        return said
    slower = Slower(rate, small, log(limits.most))
    return replace(said, faults=likely_faults(machine, found, sizes, slower))


def _ends(sizes: Any) -> tuple[float, float] | None:
    return (float(sizes[0]), float(sizes[-1])) if len(sizes) else None


def _limits(ranks: int, domain_gpus: int) -> HealthyLimits:
    if ranks <= domain_gpus:
        return INSIDE
    return ACROSS if ranks <= MANY_RANKS else CROWDED


def _faster_than(ratios: Any) -> float | None:
    return float(np.quantile(ratios, _SHARE)) if len(ratios) else None
