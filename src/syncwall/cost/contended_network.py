"""Communication over links that flows share: hashes that collide, narrow tiers, slow parts.

Holds `ContendedNetwork` and `SharedLinks`, which makes it for a machine, with the `AxisFlows` that
it was asked for. NCCL's model prices a
collective on free paths; what depends on its size takes as many times longer as the busiest link
needs beyond the NICs. Formulas in docs/explanation/contention.md.
"""

from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

import numpy as np

from syncwall.cost.calibration import NetworkFit
from syncwall.cost.communication import NcclNetwork
from syncwall.cost.path import FREE, Crossing, Path
from syncwall.describe import Cluster
from syncwall.network import Routing
from syncwall.work.number import Number
from syncwall.work.operations import Group

if TYPE_CHECKING:  # a prediction without shared links loads none of it
    from syncwall.network.flows import Pairs
    from syncwall.network.graph import Links
    from syncwall.network.routing import Carried, Routes

DRAWS = 20
SEED = 0
MOST_PAIRS = 1_000_000
"""Pairs of an all-to-all that are routed; of a larger one the tiers' own ratio counts."""


@dataclass(frozen=True, slots=True)
class AxisFlows:
    """What all groups of an axis send at once, and what sharing does to it in one draw."""

    pattern: str
    """ring, tree, all-to-all or transfer."""
    ranks: int
    stride: int
    slower: float
    """Times longer than over NICs alone."""
    link: int
    """The one that takes longest."""

    def pairs(self, cluster: Cluster) -> "Pairs":
        """Who sends to whom."""
        from syncwall.network.flows import PATTERNS, place_groups

        return PATTERNS[self.pattern](
            place_groups(cluster.gpus, self.ranks, self.stride, cluster.domain_gpus)
        )


@dataclass(frozen=True)
class SharedLinks:
    """A network model: links, how flows find their way, and which draw of the hashes counts."""

    links: "Links"
    routing: Routing = "ecmp"
    qps: int = 1
    """Queue pairs of a connection between two GPUs; each is hashed by itself."""
    order: tuple[int, ...] | None = None
    """Nodes of the network in the order of ranks; the first ones if not given."""
    name: str = "fabric"
    """As people call the network."""
    seed: int = SEED
    draw: int | None = None
    """The draw that counts; None if nothing is shared: free paths."""
    most_draws: int = DRAWS
    """Draws from which the median is taken, where something is hashed."""
    _known: dict[tuple[Any, ...], tuple[float, int]] = field(default_factory=dict, compare=False, repr=False)
    _found: "dict[tuple[int, int], Routes]" = field(default_factory=dict, compare=False, repr=False)

    @property
    def hashed(self) -> bool:
        """True if chance decides over ways."""
        from syncwall.network.routing import is_hashed

        return is_hashed(self.links, self.routing)

    @property
    def draws(self) -> int:
        """Draws that differ: one where nothing is hashed."""
        return self.most_draws if self.hashed else 1

    def __call__(self, cluster: Cluster, fit: NetworkFit, /, *, latency: Any = 1.0) -> NcclNetwork:
        """The network of `cluster`, which must have a place on the links."""
        return ContendedNetwork(cluster, fit, self, latency=latency)

    def fits(self, cluster: Cluster) -> bool:
        """True if every node of `cluster` has a place."""
        return cluster.nodes <= len(self.links.nodes if self.order is None else self.order)

    def slower(self, pattern: str, ranks: int, stride: int, cluster: Cluster) -> float:
        """Times longer that all groups of `ranks`, each `stride` from the next, take at once."""
        from syncwall.network.flows import PATTERNS, place_groups
        from syncwall.network.routing import one_draw

        key = (self.draw, cluster.nodes, cluster.gpus_per_node, pattern, ranks, stride)
        if key not in self._known:
            placed = place_groups(cluster.gpus, ranks, stride, cluster.domain_gpus)
            self._known[key] = one_draw(
                self._routes(cluster),
                PATTERNS[pattern](placed),
                qps=self.qps,
                seed=self.seed,
                number=self.draw or 0,
            )
        return self._known[key][0]

    def _routes(self, cluster: Cluster) -> "Routes":
        from syncwall.network.routing import Ends, Routes

        key = (cluster.nodes, cluster.gpus_per_node)
        if key not in self._found:
            order = None if self.order is None else self.order[: cluster.nodes]
            self._found[key] = Routes(self.links, self.routing, Ends.of(cluster, order))
        return self._found[key]

    def flows(self) -> tuple[AxisFlows, ...]:
        """All that was asked so far of this draw, the slowest first."""
        mine = [
            AxisFlows(pattern, ranks, stride, slower, link)
            for (draw, _, _, pattern, ranks, stride), (slower, link) in self._known.items()
            if draw == self.draw
        ]
        return tuple(sorted(mine, key=lambda one: (-one.slower, -one.link)))

    def busiest(self) -> tuple[str, float]:
        """The link that slows this draw most, and how many times, of all that was asked so far."""
        slowest = next(iter(self.flows()), None)
        routes = next(iter(self._found.values()), None)
        if slowest is None or routes is None or slowest.slower <= 1.0:
            return "", 1.0
        return routes.links.name(slowest.link), slowest.slower

    def carried(self, flows: AxisFlows, cluster: Cluster) -> "Carried":
        """What every link carries of `flows` in this draw."""
        from syncwall.network.routing import Carried, over_nics

        routes = self._routes(cluster)
        times = over_nics(routes, flows.pairs(cluster), qps=self.qps, seed=self.seed, number=self.draw or 0)
        job = np.full(len(self.links.nodes), -1)
        job[routes.ends.node] = 0
        slow = flows.link if flows.slower > 1.0 else None
        return Carried(self.links, routes.links, times[None, :], job, slow)


class ContendedNetwork(NcclNetwork):
    """NCCL on a machine whose links are shared."""

    def __init__(
        self, cluster: Cluster, fit: NetworkFit, shared: SharedLinks, *, latency: Number = 1.0
    ) -> None:
        super().__init__(cluster, fit, latency=latency)
        self._shared = shared
        self._crossed: dict[Group, Path] = {}

    def path(self, group: Group) -> Path:
        """Where the ranks of `group` stand, and what shared links make of their traffic."""
        if group not in self._crossed:
            found = super().path(group)
            if self._shared.draw is None:
                found = replace(found, crossing=FREE)
            elif self._shared.fits(self._cluster):
                found = replace(found, crossing=self._crossing(group, found))
            self._crossed[group] = found
        return self._crossed[group]

    def _crossing(self, group: Group, found: Path) -> Crossing:
        ranks, stride, tiers = np.broadcast_arrays(
            group.ranks, np.maximum(group.stride, 1), found.crossing.all_to_all
        )
        each = [
            self._one(group.axis, int(one), int(apart), float(ratio))
            for one, apart, ratio in zip(ranks.flat, stride.flat, tiers.flat, strict=True)
        ]
        if not ranks.ndim:
            return each[0] if each[0] != Crossing() else FREE
        columns = (
            np.array(column).reshape(ranks.shape)
            for column in zip(*((one.ring, one.tree, one.all_to_all) for one in each), strict=True)
        )
        return Crossing(*columns)

    def _handed_on(self) -> float:
        """Time that GPUs add to an all-to-all which hand on what is for other rails.

        All but one of a domain's parts, one after the other with the network (not pipelined), as
        measured for rail-only networks: 8.2 to 11.2 % (arXiv:2307.12169).
        """
        domain, cluster = self._cluster.scale_up, self._cluster
        if not self._shared.links.forwards or domain is None:
            return 0.0
        others = (cluster.domain_gpus - 1.0) / cluster.domain_gpus
        return others * cluster.nic_bytes_per_s_per_gpu / float(domain.rate_bytes_per_s)

    def _one(self, axis: str, ranks: int, stride: int, tiers: float) -> Crossing:
        cluster = self._cluster
        if ranks <= 1 or ranks * stride <= cluster.domain_gpus:
            return FREE

        def slower(pattern: str) -> float:
            return self._shared.slower(pattern, ranks, stride, cluster)

        if axis == "pp":
            return Crossing(ring=slower("transfer"))
        if axis in ("ep", "cp") and ranks * cluster.gpus <= MOST_PAIRS:
            tiers = slower("all-to-all") * (1.0 + self._handed_on())
        return Crossing(slower("ring"), slower("tree"), tiers)
