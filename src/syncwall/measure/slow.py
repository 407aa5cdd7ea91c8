"""Who is slow: a rank whose own work takes longer than that of the others, step after step.

Holds `Suspect` and `slow_ranks`.
"""

from collections.abc import Sequence
from typing import Annotated

import numpy as np
from pydantic import Field

from syncwall.describe.base import Description

SLOWER = 1.4
"""A rank is accused only if its work takes this many times that of the others."""
CONSISTENT = 0.8
"""And if it is slower by half of that in this share of the steps."""


class Suspect(Description):
    """A rank or host that holds the others up."""

    host: str
    ranks: tuple[int, ...]
    ratio: Annotated[float, Field(gt=0)]
    """Its time over that of the others."""
    share: Annotated[float, Field(ge=0, le=1)]
    """Share of the steps in which it was slower."""

    def __str__(self) -> str:
        ranks = ", ".join(map(str, self.ranks))
        return (
            f"host {self.host} (rank {ranks}) is slow: its own work takes {self.ratio:.2f} times "
            f"that of the others, in {self.share:.0%} of the steps"
        )


def slow_ranks(busy_s: Sequence[Sequence[float]], hosts: Sequence[str]) -> tuple[Suspect, ...]:
    """Ranks that are slow in `busy_s` (by rank and step), one entry for each host."""
    times = np.asarray(busy_s, dtype=float)
    if len(times) < 2 or not times.size:
        return ()
    found: dict[str, list[tuple[int, float, float]]] = {}
    for rank in range(len(times)):
        ratio, share = _against_the_others(times, rank)
        if ratio >= SLOWER and share >= CONSISTENT:
            found.setdefault(hosts[rank], []).append((rank, ratio, share))
    return tuple(
        Suspect(
            host=host,
            ranks=tuple(rank for rank, _, _ in ranks),
            ratio=max(ratio for _, ratio, _ in ranks),
            share=max(share for _, _, share in ranks),
        )
        for host, ranks in found.items()
    )


def _against_the_others(times: np.ndarray, rank: int) -> tuple[float, float]:
    """Median ratio to the median of the other ranks, and the share of steps in which it is slow."""
    others = np.median(np.delete(times, rank, axis=0), axis=0)
    ratios = times[rank] / np.maximum(others, 1e-12)
    return float(np.median(ratios)), float(np.mean(ratios > (1.0 + SLOWER) / 2.0))
