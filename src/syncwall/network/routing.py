"""The links that traffic between two GPUs passes, collisions of hashes, and what each link
carries.

A flow is one queue pair: ECMP draws one of the shortest ways for each, `static` one for each
destination (as InfiniBand's forwarding tables do), `valiant` goes over a random switch of a
dragonfly first. What a dead NIC would carry is spread evenly over the NICs of its node that work.

Loads are times: what a link needs over what NICs alone would need, so that the busiest link has the
slow-down itself where all flows are equally long.
"""

from copy import copy
from dataclasses import dataclass
from functools import cached_property
from math import exp
from typing import Any, Final, get_args

import numpy as np

from syncwall.describe import Cluster
from syncwall.network import Routing
from syncwall.network.flows import Pairs
from syncwall.network.graph import (
    UNREACHABLE,
    CutOffError,
    Floats,
    Ints,
    Links,
    equivalent_switches,
    pooled,
)

ROUTINGS: Final[tuple[Routing, ...]] = get_args(Routing)
_SPRAYED: Final = 16
"""Flows that stand for packets where several ways are left after pooling (dragonflies)."""
_AT_ONCE: Final = 1 << 16


@dataclass(frozen=True)
class Ends:
    """GPUs of a job, rank by rank, and the NICs that each uses."""

    node: Ints
    """Of every rank, the node of the network that it runs on."""
    local: Ints
    """Of every rank, its GPU in that node."""
    gpus_per_node: int
    nics_per_node: int
    domain_gpus: int
    """Neighbouring ranks that reach each other without a NIC."""
    pxn: bool = True
    """True if GPUs hand data to the one whose NIC hangs on the receiver's rail."""

    @classmethod
    def of(cls, cluster: Cluster, order: Any = None, pxn: bool = True) -> "Ends":
        """The ranks of a job on `cluster`; `order` names the node of each group of ranks."""
        nodes = np.arange(cluster.nodes) if order is None else np.asarray(order, np.int64)
        each = cluster.gpus_per_node
        nics = cluster.node.nics.count if cluster.node.nics else 0
        return cls(
            np.repeat(nodes, each),
            np.tile(np.arange(each), len(nodes)),
            each,
            nics,
            cluster.domain_gpus,
            pxn,
        )

    @property
    def ranks(self) -> int:
        """GPUs of the job."""
        return len(self.node)

    def nic(self, rank: Ints, flow: Ints) -> Ints:
        """NIC of a rank in the node; flows of a GPU with several NICs take turns."""
        several = max(1, self.nics_per_node // self.gpus_per_node)
        own = self.local[rank] * self.nics_per_node // self.gpus_per_node
        return np.asarray(own + flow % several, np.int64)


@dataclass(frozen=True)
class Entries:
    """Which flow passes which link, each pair once."""

    flow: Ints
    link: Ints


class Routes:
    """Ways over `links` under a routing; a generator draws the hashes."""

    def __init__(self, links: Links, routing: Routing, ends: Ends) -> None:
        self.links = pooled(links) if routing == "adaptive" else links
        self.routing = routing
        self.ends = ends
        self._order, self._first = self.links.out
        column = np.full(len(links.switches), -1, np.int64)
        column[self.links.edges] = np.arange(len(self.links.edges))
        self._column = column
        self.split = _split(links, routing)
        """Flows that each flow is divided into."""

    def with_ends(self, ends: Ends) -> "Routes":
        """The same ways for GPUs that stand elsewhere."""
        other = copy(self)
        other.ends = ends
        return other

    def entries(
        self,
        source: Ints,
        target: Ints,
        draw: np.random.Generator,
        qps: int,
        nics: tuple[Ints, Ints] | None = None,
    ) -> Entries:
        """Links of `qps` flows of each pair of ranks; flow i belongs to pair i // `flows(qps)`.

        `nics` are those that each pair leaves and enters by; their own if not given.
        """
        each, links = self.flows(qps), self.links
        pair = np.repeat(np.arange(len(source)), each)
        flow = np.tile(np.arange(each), len(source))
        if nics is None:
            start, end = self._nics(source[pair], target[pair], flow)
        else:
            start, end = nics[0][pair], nics[1][pair]
        number = np.arange(len(pair))
        hops = [(number, 2 * start), (number, 2 * end + 1)]
        here, there = links.switch_of_nic[start], links.switch_of_nic[end]
        if (links.distance[here, self._column[there]] == UNREACHABLE).any():
            raise CutOffError.of("this network has no way between some of the job's GPUs")
        if links.group.any() and self.routing in ("valiant", "adaptive"):
            over = self._middle(here, there, draw)
            if self.split > 1:  # every second packet takes the shortest way
                over = np.where(flow % 2 == 0, there, over)
            hops += self._way(here, over, end, draw)
            here = over
        hops += self._way(here, there, end, draw)
        return Entries(np.concatenate([one for one, _ in hops]), np.concatenate([one for _, one in hops]))

    def flows(self, qps: int) -> int:
        """Flows of a pair of GPUs: its queue pairs, at least one for each NIC of a GPU."""
        return flows_of_pair(self.links, self.routing, self.ends, qps)

    def around_dead_nics(self, pairs: Pairs) -> tuple[Pairs, tuple[Ints, Ints] | None, float]:
        """Pairs over NICs that work, these NICs, and the most that one NIC carries if all work.

        A pair whose NIC is dead is divided evenly among the others, at both ends the same one on
        rails. `CutOffError` if a node has none left. NICs are None, and the load 0, if all work.
        """
        works, each = self.links.works, self.links.nics_per_node
        if works.all() or not len(pairs):
            return pairs, None, 0.0
        several = max(1, self.ends.nics_per_node // self.ends.gpus_per_node)
        pair, flow = np.divmod(np.arange(len(pairs) * several), several)
        part = pairs.part[pair] / several
        start, end = self._nics(pairs.source[pair], pairs.target[pair], flow)
        count = self.links.nics
        most = max(np.bincount(start, part, count).max(), np.bincount(end, part, count).max())
        (here, out), (there, into) = np.divmod(start, each), np.divmod(end, each)
        hurt = np.flatnonzero(~(works[here, out] & works[there, into]))
        leaves, enters = works[here[hurt]], works[there[hurt]]
        lost = np.flatnonzero(~(leaves.any(1) & enters.any(1)))
        if len(lost):
            node = here[hurt][lost[0]] if not leaves[lost[0]].any() else there[hurt][lost[0]]
            raise CutOffError.of(f"node {self.links.nodes[node]} is cut off: no NIC is left")
        own = np.eye(each, dtype=bool)
        left = np.where(leaves[np.arange(len(hurt)), out[hurt], None], own[out[hurt]], leaves)
        entered = np.where(enters[np.arange(len(hurt)), into[hurt], None], own[into[hurt]], enters)
        ways = left[:, :, None] & entered[:, None, :]
        if self._handed_on:
            same = (leaves & enters)[:, :, None] & own
            is_same = np.asarray((leaves & enters).any(1))
            if self.links.forwards and not is_same.all():
                raise CutOffError.of("two nodes have no rail left on which both work")
            ways = np.where(is_same[:, None, None], same, ways)
        which, new_out, new_into = np.nonzero(ways)
        kept = np.delete(np.arange(len(pair)), hurt)
        moved = hurt[which]
        rows = np.concatenate([kept, moved])
        shares = np.concatenate([part[kept], part[moved] / ways.sum((1, 2))[which]])
        nics = (
            np.concatenate([start[kept], here[moved] * each + new_out]),
            np.concatenate([end[kept], there[moved] * each + new_into]),
        )
        found = pair[rows]
        return (
            Pairs(pairs.source[found], pairs.target[found], shares, pairs.stream[found]),
            nics,
            float(most),
        )

    @property
    def _handed_on(self) -> bool:
        """True if GPUs hand data to the one whose NIC hangs on the receiver's rail."""
        return self.links.forwards or (self.links.rails and self.ends.pxn)

    def _nics(self, source: Ints, target: Ints, flow: Ints) -> tuple[Ints, Ints]:
        """NICs that a flow leaves and enters; on rails those of the receiver's rail."""
        ends, each = self.ends, self.links.nics_per_node
        into = ends.nic(target, flow)
        out = into if self._handed_on else ends.nic(source, flow)
        return ends.node[source] * each + out, ends.node[target] * each + into

    def _middle(self, here: Ints, there: Ints, draw: np.random.Generator) -> Ints:
        """A random switch: of the same group, if both ends are in one, else of any."""
        edges, group = self.links.edges, self.links.group
        near = group[here] == group[there]
        low = np.searchsorted(group[edges], group[here])
        high = np.searchsorted(group[edges], group[here], "right")
        low, high = np.where(near, low, 0), np.where(near, high, len(edges))
        found: Ints = edges[low + (draw.random(len(here)) * (high - low)).astype(np.int64)]
        return found

    def _way(self, here: Ints, there: Ints, nic: Ints, draw: np.random.Generator) -> list[tuple[Ints, Ints]]:
        """Hops from switch to switch on the way to a NIC, all flows one step at a time."""
        hops = []
        going = np.flatnonzero(here != there)
        at, column = here[going], self._column[there[going]]
        while len(going):
            parts = [slice(i, i + _AT_ONCE) for i in range(0, len(at), _AT_ONCE)]
            taken = np.concatenate([self._step(at[one], column[one], nic[going[one]], draw) for one in parts])
            hops.append((going, 2 * self.links.nics + taken))
            at = self.links.ends[taken, 1]
            left = self.links.edges[column] != at
            going, at, column = going[left], at[left], column[left]
        return hops

    def _step(self, at: Ints, column: Ints, nic: Ints, draw: np.random.Generator) -> Ints:
        """A cable on a shortest way for each flow, each of them as likely."""
        start, count = self.links.next_hops
        many = count[at, column]
        chance = draw.random(len(at))
        chosen = nic % np.maximum(many, 1) if self.routing == "static" else chance * many
        apart = np.flatnonzero(many < 0)
        taken = self._order[np.where(many < 0, 0, start[at, column] + chosen.astype(np.int64))]
        if len(apart):
            taken[apart] = self._scattered(at[apart], column[apart], nic[apart], chance[apart])
        return taken

    def _scattered(self, at: Ints, column: Ints, nic: Ints, chance: Floats) -> Ints:
        """The same where cables on shortest ways do not stand side by side."""
        distance, length, to = self.links.distance, self.links.length, self.links.ends[:, 1]
        first, degree = self._first[at], self._first[at + 1] - self._first[at]
        port = np.arange(int(degree.max()))
        cable = self._order[np.minimum(first[:, None] + port, len(self._order) - 1)]
        near = distance[to[cable], column[:, None]] + length[cable]
        good = (near == distance[at, column][:, None]) & (port < degree[:, None])
        count = good.sum(1)
        chosen = nic % count if self.routing == "static" else (chance * count).astype(np.int64)
        nth = (np.cumsum(good, 1) == chosen[:, None] + 1) & good
        found: Ints = cable[np.arange(len(at)), nth.argmax(1)]
        return found


def is_hashed(links: Links, routing: Routing) -> bool:
    """True if chance decides over ways."""
    return routing in ("ecmp", "valiant") or bool(links.group.any())


def flows_of_pair(links: Links, routing: Routing, ends: Ends, qps: int) -> int:
    """Flows of a pair of GPUs: its queue pairs, at least one for each NIC of a GPU."""
    return max(
        1 if routing == "adaptive" else qps, _split(links, routing), ends.nics_per_node // ends.gpus_per_node
    )


def _split(links: Links, routing: Routing) -> int:
    return _SPRAYED if routing == "adaptive" and links.group.any() else 1


def loads(links: Links, entries: Entries, flow_bytes: Any) -> Floats:
    """Bytes on every link; `flow_bytes` of each flow, or of all of them."""
    each = np.asarray(flow_bytes, float)
    sent = each[entries.flow] if each.ndim else np.broadcast_to(each, entries.flow.shape)
    return np.asarray(np.bincount(entries.link, sent, len(links.rates)), float)


EXACT = 1e-9
"""Slow-downs below this are rounding: none."""


def most_on_a_link(flows_per_link: float, links: int) -> tuple[float, float, float]:
    """Mean, P50 and P90 of the flows on the fullest of `links`, each flow on a random one.

    Poisson: P(most <= x) = F(x) ** links. Within 5 % of draws for 32 links a leaf, 10 % for 16.
    """
    term = total = exp(-flows_per_link)
    number, mean, median, ninth = 0, 0.0, -1, -1
    while True:
        below = total**links
        median = number if median < 0 and below >= 0.5 else median
        ninth = number if ninth < 0 and below >= 0.9 else ninth
        if 1.0 - below < 1e-12 or number > 10 * flows_per_link + 1000:
            return mean, float(median), float(ninth)
        mean += 1.0 - below
        number += 1
        term *= flows_per_link / number
        total += term


@dataclass(frozen=True)
class Drawn:
    """Slow-downs over NICs alone, one for each draw of the hashes."""

    factors: Floats
    busiest: tuple[int, ...]
    """Of each draw, the link that takes longest."""

    def quantile(self, share: float) -> float:
        """The slow-down that `share` of the draws do not exceed; a value that was drawn."""
        return float(np.quantile(self.factors, share, method="higher"))


def drawn(routes: Routes, pairs: Pairs, *, qps: int, draws: int, seed: int) -> Drawn:
    """Draw the ways of all flows `draws` times."""
    found = [one_draw(routes, pairs, qps=qps, seed=seed, number=number) for number in range(draws)]
    return Drawn(np.array([slower for slower, _ in found]), tuple(link for _, link in found))


def one_draw(routes: Routes, pairs: Pairs, *, qps: int, seed: int, number: int) -> tuple[float, int]:
    """The slow-down of one draw, and the link that takes longest."""
    times = over_nics(routes, pairs, qps=qps, seed=seed, number=number)
    worst = int(times.argmax())
    slower = float(times[worst])
    return (slower if slower > 1.0 + EXACT else 1.0), worst


def over_nics(routes: Routes, pairs: Pairs, *, qps: int, seed: int, number: int) -> Floats:
    """Of one draw, the time that each link needs over that of the NICs alone."""
    links, each = routes.links, routes.flows(qps)
    if not len(pairs):
        return np.zeros(len(links.rates))
    draw = np.random.default_rng((seed, number))
    pairs, nics, most = routes.around_dead_nics(pairs)
    entries = routes.entries(pairs.source, pairs.target, draw, qps, nics)
    moved = loads(links, entries, np.repeat(pairs.part / each, each))
    alone_s = (most or moved[: 2 * links.nics].max()) / links.nic_bytes_per_s
    times = np.divide(moved, links.rates, out=np.zeros_like(moved), where=links.rates > 0)
    return np.asarray(times / alone_s, float)


@dataclass(frozen=True)
class Carried:
    """Loads of links."""

    links: Links
    """The network as it is built."""
    routed: Links
    """As flows see it: equal ways are one with adaptive routing, else the same as `links`."""
    loads: Floats
    """Of every job, of every link of `routed`: its time over that of NICs alone."""
    job_of_node: Ints
    """Of every node, the job that has it; -1 if none has."""

    busiest: int | None
    """The link of `routed` that takes longest; None if nobody is slowed down."""

    @cached_property
    def most(self) -> float:
        """The largest load of a link."""
        return float(self.loads.sum(0).max())

    @cached_property
    def _same(self) -> Ints:
        """Of every switch, the one that it is for flows."""
        if self.routed is self.links:
            return np.arange(len(self.links.switches))
        return equivalent_switches(self.links)

    @cached_property
    def _sorted(self) -> tuple[Ints, Ints]:
        """Cables by their ends, as numbers, and in which order."""
        key = self.routed.ends[:, 0] * len(self.links.switches) + self.routed.ends[:, 1]
        order = np.argsort(key, kind="stable")
        return key[order], order

    def nic(self, nic: int) -> int:
        """The busier one of a NIC's two links."""
        out = 2 * nic
        return out if self.loads[:, out].sum() >= self.loads[:, out + 1].sum() else out + 1

    def cable(self, one: int, other: int) -> int | None:
        """The busiest link between two switches, either way; None if there is none."""
        one, other = int(self._same[one]), int(self._same[other])
        key, order = self._sorted
        found: list[int] = []
        for start, end in ((one, other), (other, one)):
            wanted = start * len(self.links.switches) + end
            low, high = np.searchsorted(key, wanted), np.searchsorted(key, wanted, "right")
            found += (2 * self.routed.nics + order[low:high]).tolist()
        return max(found, key=lambda link: self.loads[:, link].sum(), default=None)

    def ends_of_busiest(self) -> tuple[int, ...]:
        """Switches at the ends of the busiest link, the one of a NIC first; empty without one."""
        if self.busiest is None:
            return ()
        if self.busiest < 2 * self.routed.nics:
            return (int(self.routed.switch_of_nic[self.busiest // 2]),)
        start, end = self.routed.ends[self.busiest - 2 * self.routed.nics].tolist()
        return (start, end)
