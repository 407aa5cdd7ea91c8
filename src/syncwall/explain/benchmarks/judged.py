"""Whether a benchmark of a collective is as fast as its machine should be.

Holds `Judgement`, `judged` and `Limits`.
"""

from dataclasses import dataclass, replace
from math import log
from typing import Any, Final

import numpy as np
from pydantic import ValidationError

from syncwall.describe import Cluster
from syncwall.explain.benchmarks.collective import CollectiveBenchmark
from syncwall.explain.benchmarks.expected import of_benchmark, placed, regions
from syncwall.explain.benchmarks.faults import FaultKind, Slower, likely_faults
from syncwall.public import Numbers, published


@dataclass(frozen=True, slots=True)
class Limits:
    """Measured over expected time of healthy tables."""

    least: float
    most: float
    """Above it a table is slow."""


INSIDE: Final = Limits(0.90, 1.10)
"""In one scale-up domain. All three were fitted on half of the sources of public nccl-tests tables,
`python -m bench accuracy benchmarks DIR`: 20 healthy tables from 0.94 to 1.07."""
ACROSS: Final = Limits(0.88, 1.12)
"""Over several domains: 36 tables from 0.89 to 1.09."""
MANY_RANKS: Final = 256
CROWDED: Final = Limits(0.88, 1.30)
"""With more ranks than that, which share the network with others: 11 tables, 9 of them from 0.92 to
1.27, two 1.61 and 1.62."""
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
    limits: Limits
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
    def largest(self) -> tuple[float, float, float, float]:
        """At the largest size: bytes, busbw in bytes/s, expected busbw, and the least healthy."""
        found, expected = self.benchmark, self.benchmark.busbw(self.expected_s)[-1]
        return (float(found.sizes[-1]), float(found.busbw(found.seconds)[-1]), float(expected),
                float(expected / self.limits.most))  # fmt: skip


def judged(found: CollectiveBenchmark, machine: Cluster) -> Judgement | None:
    """`found` on `machine`; None if the machine cannot hold so many ranks."""
    try:
        used = placed(machine, found.ranks, found.nodes)
    except ValidationError:
        return None
    expected_s = of_benchmark(machine, found)
    sizes = regions(machine, found, expected_s)
    ratio = found.seconds / expected_s
    limits = _limits(found.ranks, used.domain_gpus)
    largest, large = (_faster_than(ratio[mask]) for mask in (sizes.rate, sizes.large))
    rate = None if largest is None or large is None else min(largest, _NOT_FULL * large)
    small = float(np.median(ratio[sizes.small])) if sizes.small.any() else None
    above = found.sizes[sizes.large & (ratio > limits.most)]
    said = Judgement(
        found, machine, expected_s, limits, rate, largest, small,
        slow_sizes=(float(above[0]), float(above[-1])) if len(above) else None,
    )  # fmt: skip
    if not said.is_slow or rate is None:
        return said
    slower = Slower(rate, small, log(limits.most))
    return replace(said, faults=likely_faults(machine, found, sizes, slower))


def _limits(ranks: int, domain_gpus: int) -> Limits:
    if ranks <= domain_gpus:
        return INSIDE
    return ACROSS if ranks <= MANY_RANKS else CROWDED


def _faster_than(ratios: Any) -> float | None:
    return float(np.quantile(ratios, _SHARE)) if len(ratios) else None
