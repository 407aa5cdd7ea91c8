"""GPU counts at which a scaling curve is evaluated, each with its layout.

Holds `strong_rungs`, `weak_rungs` and `stacked`. A count is part of a node or whole
nodes; all counts of a curve are one layout with arrays.
"""

from collections.abc import Iterator, Sequence
from typing import Any, Final

import numpy as np

from syncwall.answer.improvements import divisors
from syncwall.describe import Cluster, Layout
from syncwall.plan.batches import grown, is_whole, single

PER_OCTAVE: Final = 16
"""Counts between one and its double, where the batch does not forbid them."""


def strong_rungs(layout: Layout, cluster: Cluster, batch: int, most: int) -> Layout | None:
    """`layout` on every count up to `most` GPUs over which `batch` sequences can be spread."""
    largest = most // int(layout.model_ranks)
    dealt = [dp for dp in divisors(batch) if dp <= largest and is_whole(layout, cluster, dp)]
    return grown(layout, np.array(dealt), np.full(len(dealt), batch)) if dealt else None


def weak_rungs(layout: Layout, cluster: Cluster, each: int, most: int) -> Layout | None:
    """`layout` on counts up to `most` GPUs, every replica with `each` sequences."""
    ranks = int(layout.model_ranks)
    largest = most // ranks
    inside = range(1, cluster.gpus_per_node // ranks)
    first = next((dp for dp in range(1, largest + 1) if _fills_nodes(layout, cluster, dp)), None)
    beyond = () if first is None else (first * times for times in _spread(largest // first))
    counts = [*inside, *beyond]
    taken = np.array([dp for dp in counts if dp <= largest and is_whole(layout, cluster, dp)])
    return grown(layout, taken, taken * each) if len(taken) else None


def stacked(layouts: Sequence[Layout]) -> Layout:
    """Resolved layouts as one with arrays in the fields in which they differ."""
    update: dict[str, Any] = {}
    for name in Layout.model_fields:
        values = [getattr(one, name) for one in layouts]
        if name in ("dp", "global_batch") or any(value != values[0] for value in values):
            update[name] = np.array(values)
    return layouts[0].model_copy(update=update)


def picked(layout: Layout, where: Any) -> Layout:
    """The layouts of an array at `where`: an index, a mask or a list of indices."""
    arrays = {
        name: getattr(layout, name)[where]
        for name in Layout.model_fields
        if isinstance(getattr(layout, name), np.ndarray)
    }
    found = layout.model_copy(update=arrays)
    return single(found) if np.ndim(where) == 0 else found


def _fills_nodes(layout: Layout, cluster: Cluster, dp: int) -> bool:
    whole = layout.model_ranks * dp % cluster.gpus_per_node == 0
    return bool(whole and is_whole(layout, cluster, dp))


def _spread(most: int) -> Iterator[int]:
    """1, 2, 3, ... and from `PER_OCTAVE` on so many between a number and its double."""
    octaves = np.log2(max(most, 1))
    powers = 2.0 ** (np.arange(int(octaves * PER_OCTAVE) + PER_OCTAVE) / PER_OCTAVE)
    return (int(k) for k in sorted(set(np.round(powers))) if k <= most)
