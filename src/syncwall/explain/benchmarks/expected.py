"""What a collective should take on a machine when nothing else runs.

Holds `expected_seconds`: the prices of a prediction, as a benchmark would time them; `Region` and
`regions`, the sizes at which latency or the rate of links counts.
"""

from dataclasses import dataclass
from typing import Any, Final

import numpy as np

from syncwall.answer.pricing import Pricing
from syncwall.cost.communication import NcclNetwork
from syncwall.describe import Cluster
from syncwall.explain.benchmarks.collective import CollectiveBenchmark
from syncwall.work.operations import Collective, CollectiveKind, Group

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


def placed(machine: Cluster, ranks: int, nodes: int | None) -> Cluster:
    """`machine` with as many nodes in use as `ranks` stand on, equally filled."""
    built = machine.node.gpus
    count = nodes or -(-ranks // built)
    each = min(max(-(-ranks // count), 1), built)
    return machine.using(nodes=max(count, -(-ranks // each)), gpus_per_node=each)


def expected_seconds(
    machine: Cluster, kind: CollectiveKind, ranks: int, nodes: int | None, sizes: Any
) -> Any:
    """Seconds of a collective over neighbouring ranks, by size."""
    used = placed(machine, ranks, nodes)
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
