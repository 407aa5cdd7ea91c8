"""Axes that send at the same time: the timeline lets one wait for the other, each on its own links.

That is never too short: both together end no later than one after the other, however fair shares
fall. It is exact where both press the same link, and too long where one presses cables upwards and
the other only the NICs.
"""

from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

from syncwall.describe import lookup
from syncwall.network.flows import PATTERNS, Pairs, Usage, fluid_s, place_groups
from syncwall.network.routing import Ends, Routes
from syncwall.plan.choices import FabricKind
from syncwall.plan.fabric.sized_links import fabric_named

NODES = 64
CROSSED = tuple(np.arange(NODES).reshape(2, 32).T.ravel().tolist())
KINDS: tuple[FabricKind, ...] = ("rail-optimised", "fat-tree-2", "dragonfly")


def ends_s(kind: FabricKind, ratio: float, order: Any, axes: Any) -> Iterator[float]:
    """Seconds until each of `axes` (pattern, ranks, stride, bytes) has ended, all begun at once."""
    cluster = lookup.cluster("dgx-h100").model_copy(update={"nodes": NODES})
    links = fabric_named(kind, cluster, (ratio, 1.0))
    routes = Routes(links, "adaptive", Ends.of(cluster, order))
    stream, link, parts, sizes, number = [], [], [], [], 0
    for pattern, ranks, stride, size in axes:
        placed = place_groups(cluster.gpus, ranks, stride, cluster.domain_gpus)
        pairs: Pairs = PATTERNS[pattern](placed)
        entries = routes.entries(pairs.source, pairs.target, np.random.default_rng(0), 1)
        each = routes.flows(1)
        mine = np.repeat(pairs.stream, each)[entries.flow]
        _, mine = np.unique(mine, return_inverse=True)
        stream.append(mine + number)
        link.append(entries.link)
        parts.append(np.repeat(pairs.part / each, each)[entries.flow])
        count = int(mine.max()) + 1
        sizes += [size] * count
        number += count
    rates = routes.links.rates
    usage = Usage.of(np.concatenate(stream), np.concatenate(link), rates, np.concatenate(parts))
    ended, first = fluid_s(usage, sizes, batch=0.01), 0
    for mine in stream:
        count = int(mine.max()) + 1 - first
        yield float(ended[first : first + count].max())
        first += count


AXES = {
    "gradients and experts": (("ring", 64, 8, 1e9), ("all-to-all", 64, 8, 1e9)),
    "gradients and stages": (("ring", 32, 16, 1e9), ("transfer", 2, 8, 3e8)),
    "weights and sequences": (("ring", 64, 8, 2e9), ("ring", 2, 8, 1e9)),
}


@pytest.mark.parametrize("name", AXES)
@pytest.mark.parametrize("order", [None, CROSSED], ids=["in order", "crossed"])
@pytest.mark.parametrize("ratio", [1.0, 4.0])
@pytest.mark.parametrize("kind", KINDS)
def test_two_axes_at_once_take_at_most_as_long_as_one_after_the_other(kind, ratio, order, name):
    one, other = AXES[name]
    alone = [next(ends_s(kind, ratio, order, [axis])) for axis in (one, other)]
    together = max(ends_s(kind, ratio, order, [one, other]))
    assert max(alone) * (1 - 1e-9) <= together <= sum(alone) * 1.011  # streams end in batches of 1%


def test_two_axes_that_press_the_same_link_take_as_long_as_one_after_the_other():
    one, other = ("ring", 64, 8, 1e9), ("ring", 64, 8, 2e9)
    alone = [next(ends_s("rail-optimised", 4.0, CROSSED, [axis])) for axis in (one, other)]
    together = max(ends_s("rail-optimised", 4.0, CROSSED, [one, other]))
    assert together == pytest.approx(sum(alone), rel=1e-6)
