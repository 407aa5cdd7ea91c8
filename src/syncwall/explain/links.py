"""How fast collectives move their bytes, once all ranks have arrived.

Holds `Rate`, `rates` and `slow_rate`.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from syncwall.explain.aligned import Clocks
from syncwall.explain.matching import Block
from syncwall.explain.rank_summary import RankSummary
from syncwall.explain.spans import merged

SLOW = 0.6
"""A link is called slow below this share of the rate that it should have."""
_LEAST_BYTES = 1e6
"""Smaller collectives are a matter of latency."""


@dataclass(frozen=True)
class Rate:
    """What the collectives of one group reach."""

    group: str
    ranks: tuple[int, ...]
    """By index of the summary."""
    hosts: tuple[str, ...]
    bytes_per_s: float
    """Bus bandwidth, as nccl-tests define it: what each link of a ring carries one way."""
    transfer_s: float
    """Time in which something was moved, in all steps together."""


def rates(
    blocks: Sequence[Block], clocks: Clocks, summaries: Sequence[RankSummary]
) -> tuple[Rate, ...]:
    """The rate of each group whose sizes are known; collectives at the same time count together."""
    found = []
    for block in blocks:
        large = np.nan_to_num(block.bytes) >= _LEAST_BYTES
        if not large.any():
            continue
        arrived = np.nanmax(clocks.start_s(block)[large], axis=1)
        ended = np.maximum(np.nanmedian(clocks.end_s(block)[large], axis=1), arrived)
        moving = merged(np.rint(arrived * 1e9), np.rint(ended * 1e9)).length / 1e9
        kinds = [kind for kind, use in zip(block.kinds, large, strict=True) if use]
        ring = (block.members[large] - 1) / block.members[large]
        factor = ring * [2.0 if kind == "all-reduce" else 1.0 for kind in kinds]
        ranks = tuple(int(rank) for rank in block.ranks)
        hosts = tuple(dict.fromkeys(summaries[rank].host or "" for rank in ranks))
        moved = float(np.sum(block.bytes[large] * factor))
        found.append(Rate(block.group, ranks, hosts, moved / max(moving, 1e-9), moving))
    return tuple(found)


def slow_rate(found: Sequence[Rate], expected_bytes_per_s: float | None) -> tuple[Rate, float]:
    """The slowest group between hosts, and its rate over what it should be; 1 if none is slow.

    It should reach what was expected, or else the median of the groups of the same kind.
    """
    between = [one for one in found if len(one.hosts) > 1]
    if expected_bytes_per_s is None and len(between) < 3:
        return _nothing(), 1.0
    if not between:
        return _nothing(), 1.0
    usual = expected_bytes_per_s or float(np.median([one.bytes_per_s for one in between]))
    worst = min(between, key=lambda one: one.bytes_per_s)
    return worst, min(worst.bytes_per_s / usual, 1.0)


def _nothing() -> Rate:
    return Rate("", (), (), 0.0, 0.0)
