"""Fat trees of one, two and three tiers in closed form.

Holds `Tree` (counts of one tree) and `tree`. Every leaf has cables to every spine above it, equally
many to each: so the number of spines divides a leaf's ports up. In three tiers, leaves and spines
form pods; the i-th spine of every pod is joined to the i-th set of cores in the same way.
Sources: Al-Fares et al. 2008 (k³/4 hosts, 5k²/4 switches of k ports); NVIDIA's DGX SuperPOD tables,
whose counts of spines follow from equal spreading.
"""

from dataclasses import dataclass
from typing import Any

import numpy as np

from syncwall.plan.fabric.question import Wiring, ceil


@dataclass(frozen=True, slots=True)
class Tree:
    """Switches of a tree, today and grown; arrays broadcast."""

    tiers: Any
    possible: Any
    leaves: Any
    spines: Any
    cores: Any
    grown_leaves: Any
    grown_spines: Any
    grown_cores: Any
    leaf_up: Any
    """Ports up of a leaf; 0 for a tree of one switch."""
    spine_up: Any
    """Ports up of a spine; 0 in two tiers."""
    pods: Any
    """Groups of leaves and spines in three tiers, else 1."""
    share: Any
    """Rate up through the narrowest tier over the rate down to the NICs, at most 1."""

    @property
    def hops(self) -> Any:
        """Switches between the two ends farthest apart."""
        return 2 * self.tiers - 1


def tree(
    wiring: Wiring, leaves: Any, grown_leaves: Any, *, alone: Any = False, pod_leaves: int
) -> Tree:
    """The tree above `leaves`, with room for `grown_leaves`; `alone` where one switch does.

    `pod_leaves` is how many leaves of three tiers form a pod, at most a spine's ports down.
    """
    down, up = wiring.ports(0)
    spine_down, spine_up = wiring.ports(1)
    _, spine_radix, core_radix = wiring.radix
    leaves, grown = np.asarray(leaves), np.asarray(grown_leaves)
    pods, grown_pods = ceil(leaves, max(pod_leaves, 1)), ceil(grown, max(pod_leaves, 1))
    tiers = np.where(alone, 1, np.where(grown <= spine_radix, 2, 3))
    flat = next_divisor(up, ceil(grown * up, spine_radix))
    cores = up * next_divisor(spine_up, ceil(grown_pods * spine_up, core_radix))
    tall = tiers == 3
    share = np.where(tall, _share(up, down) * _share(spine_up, spine_down), _share(up, down))
    return Tree(
        tiers=tiers,
        possible=~tall | ((grown_pods <= core_radix) & (pod_leaves > 0)),
        leaves=np.where(alone, 1, leaves),
        spines=np.where(tall, pods * up, np.where(alone, 0, flat)),
        cores=np.where(tall, cores, 0),
        grown_leaves=np.where(alone, 1, grown),
        grown_spines=np.where(tall, grown_pods * up, np.where(alone, 0, flat)),
        grown_cores=np.where(tall, cores, 0),
        leaf_up=np.where(alone, 0, up),
        spine_up=np.where(tall, spine_up, 0),
        pods=np.where(tall, pods, 1),
        share=np.where(alone, 1.0, share),
    )


def next_divisor(number: int, least: Any) -> Any:
    """The smallest divisor of `number` that is at least `least`; `number` if there is none."""
    divisors = np.array([part for part in range(1, number + 1) if number % part == 0])
    return divisors[np.minimum(np.searchsorted(divisors, least), len(divisors) - 1)]


def _share(up: int, down: int) -> float:
    return min(1.0, up / down)
