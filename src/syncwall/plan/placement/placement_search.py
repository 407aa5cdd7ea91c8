"""A better placement of jobs, by what they send over the network at once.

Of every job one axis sends: the experts' all-to-all if it leaves a scale-up domain, else the rings
of the data-parallel axis, else the pipeline's transfers. All jobs send all the time, which is the
most that they can do to each other. A job is as slow as the slowest of its streams.

Exchanges are judged by an `Estimate`: flows that leave a group over its cables, as hashes or tables
spread them.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise
from typing import Final

import numpy as np

from syncwall.cost.contended_network import DRAWS, MOST_PAIRS, SEED
from syncwall.describe import Run
from syncwall.network import Routing
from syncwall.network.flows import PATTERNS, Pairs, Usage, fair_rates, place_groups
from syncwall.network.graph import Floats, Ints, Links
from syncwall.network.routing import EXACT, Carried, Ends, Entries, Routes, is_hashed, most_on_a_link
from syncwall.work.block import groups
from syncwall.work.operations import GroupAxis

Nodes = tuple[int, ...]
"""Nodes of a job in the order of its ranks."""
_AXES: Final[tuple[tuple[GroupAxis, str], ...]] = (
    ("ep", "all-to-all"),
    ("shard", "ring"),
    ("dp", "ring"),
    ("pp", "transfer"),
)
_MANY_STREAMS: Final = 500
"""Above this, links that are full at up to 1 % more count as full at the same time."""


@dataclass(frozen=True)
class JobTraffic:
    """Who sends to whom in a job, by rank."""

    nodes: int
    gpus_per_node: int
    axis: str
    """The axis that sends; empty if nothing leaves a scale-up domain."""
    pairs: Pairs

    @cached_property
    def edges(self) -> tuple[Ints, Ints, Floats]:
        """Places in the rank order that send and receive, and how many NIC sets each fills."""
        start = self.pairs.source // self.gpus_per_node
        end = self.pairs.target // self.gpus_per_node
        key, inverse = np.unique(start * self.nodes + end, return_inverse=True)
        weight = np.bincount(inverse, self.pairs.part, len(key)) / self.gpus_per_node
        return key // self.nodes, key % self.nodes, weight

    @cached_property
    def rings(self) -> list[list[int]]:
        """Places in the rank order that talk with each other, group by group."""
        above = list(range(self.nodes))

        def top(place: int) -> int:
            while above[place] != place:
                above[place] = above[above[place]]
                place = above[place]
            return place

        for one, other in zip(self.edges[0].tolist(), self.edges[1].tolist(), strict=True):
            above[top(one)] = top(other)
        found: dict[int, list[int]] = {}
        for place in range(self.nodes):
            found.setdefault(top(place), []).append(place)
        return list(found.values())


def traffic_of(run: Run) -> JobTraffic:
    """The traffic of a settled run."""
    cluster, of_axis = run.cluster, groups(run.layout)
    for axis, pattern in _AXES:
        ranks, stride = int(of_axis[axis].ranks), max(1, int(of_axis[axis].stride))
        leaves = ranks > 1 and ranks * stride > cluster.domain_gpus
        if leaves and not (axis == "ep" and ranks * cluster.gpus > MOST_PAIRS):
            pairs = PATTERNS[pattern](place_groups(cluster.gpus, ranks, stride, cluster.domain_gpus))
            return JobTraffic(cluster.nodes, cluster.gpus_per_node, axis, pairs)
    none = Pairs(*(np.zeros(0, np.int64),) * 2, np.zeros(0), np.zeros(0, np.int64))
    return JobTraffic(cluster.nodes, cluster.gpus_per_node, "", none)


@dataclass(frozen=True)
class Slowdowns:
    """Times longer that each job's traffic takes than over its NICs alone."""

    factors: Floats
    """Of every draw, of every job."""
    busiest: str
    """The link that is fullest in the median draw; empty if no job is slowed down."""
    median: int
    """That draw."""
    link: int | None
    """The number of that link."""

    def quantile(self, share: float) -> Floats:
        """Of each job, the slow-down that `share` of the draws do not exceed."""
        found: Floats = np.quantile(self.factors, share, axis=0, method="higher")
        return found


class SharedFabric:
    """Links that several jobs share under one routing."""

    def __init__(
        self,
        links: Links,
        jobs: Sequence[JobTraffic],
        routing: Routing = "ecmp",
        qps: int = 1,
        seed: int = SEED,
        most_draws: int = DRAWS,
    ) -> None:
        self.links, self.jobs, self.routing, self.qps, self.seed = links, jobs, routing, qps, seed
        self.hashed = is_hashed(links, routing)
        self.draws = most_draws if self.hashed else 1
        each = jobs[0].gpus_per_node
        self._routes = Routes(links, routing, self._ends([np.zeros(1, np.int64)], each))
        first = np.cumsum([0, *(job.nodes * each for job in jobs)])
        streams = np.cumsum([0, *(int(job.pairs.stream.max(initial=-1)) + 1 for job in jobs)])
        self._first_stream = streams
        self._pairs = Pairs(
            np.concatenate([job.pairs.source + at for job, at in zip(jobs, first, strict=False)]),
            np.concatenate([job.pairs.target + at for job, at in zip(jobs, first, strict=False)]),
            np.concatenate([job.pairs.part for job in jobs]),
            np.concatenate([job.pairs.stream + at for job, at in zip(jobs, streams, strict=False)]),
        )
        self._known: dict[tuple[Nodes, ...], Slowdowns] = {}

    def _ends(self, placed: Sequence[Ints], each: int) -> Ends:
        nodes = np.concatenate(placed)
        return Ends(
            np.repeat(nodes, each),
            np.tile(np.arange(each), len(nodes)),
            each,
            self.links.nics_per_node,
            each,
        )

    def slower(self, placed: Sequence[Nodes]) -> Slowdowns:
        """What sharing does to every job if they are placed so."""
        key = tuple(placed)
        if key not in self._known:
            routes = self._placed(placed)
            drawn = [self._one(routes, number) for number in range(self.draws)]
            factors = np.array([one for one, _ in drawn])
            worst = int(np.argsort(factors.max(1), kind="stable")[len(drawn) // 2])
            is_slow = factors[worst].max(initial=1.0) > 1.0
            link = drawn[worst][1] if is_slow else None
            name = "" if link is None else routes.links.name(link)
            self._known[key] = Slowdowns(factors, name, worst, link)
        return self._known[key]

    def carried(self, placed: Sequence[Nodes]) -> Carried:
        """What every link carries of each job in the median draw: flows over the link's rate."""
        routes, found = self._placed(placed), self.slower(placed)
        of_node = np.full(len(self.links.nodes), -1)
        for job, nodes in enumerate(placed):
            of_node[list(nodes)] = job
        links, count = routes.links, len(routes.links.rates)
        moved = np.zeros((len(self.jobs), count))
        if len(self._pairs):
            entries, stream = self._flows(routes, found.median)
            of_flow = np.searchsorted(self._first_stream, stream, "right") - 1
            flows = np.bincount(of_flow * count + entries.link, minlength=moved.size)
            moved = flows.reshape(moved.shape) / links.rates
        alone = moved[:, : 2 * links.nics].sum(0).max(initial=0.0)
        loads = moved / alone if alone > 0.0 else moved
        return Carried(self.links, links, loads, of_node, found.link)

    def _placed(self, placed: Sequence[Nodes]) -> Routes:
        nodes = [np.array(one, np.int64) for one in placed]
        return self._routes.with_ends(self._ends(nodes, self.jobs[0].gpus_per_node))

    def _flows(self, routes: Routes, number: int) -> tuple[Entries, Ints]:
        """Links of all flows in one draw, and the stream of each entry."""
        pairs, each = self._pairs, routes.flows(self.qps)
        draw = np.random.default_rng((self.seed, number))
        entries = routes.entries(pairs.source, pairs.target, draw, self.qps)
        return entries, pairs.stream[entries.flow // each]

    def _one(self, routes: Routes, number: int) -> tuple[Floats, int]:
        """Slow-downs of one draw, and the fullest link."""
        links = routes.links
        if not len(self._pairs):
            return np.ones(len(self.jobs)), 0
        entries, stream = self._flows(routes, number)
        usage = Usage.of(stream, entries.link, links.rates)
        batch = 0.01 if usage.streams > _MANY_STREAMS else 0.0
        rates = fair_rates(usage, batch=batch)
        nics = entries.link < 2 * links.nics
        factors = []
        for first, last in pairwise(self._first_stream.tolist()):
            mine = nics & (stream >= first) & (stream < last)
            own = rates[first:last]
            own = own[np.isfinite(own)]
            if not len(own):
                factors.append(1.0)
                continue
            alone = links.nic_bytes_per_s / np.bincount(entries.link[mine]).max()
            slower = float(alone / own.min())
            factors.append(slower if slower > 1.0 + EXACT else 1.0)
        moved = np.bincount(entries.link, minlength=len(links.rates)) / links.rates
        return np.array(factors), int(moved.argmax())


def mean_slower(found: Slowdowns, jobs: Sequence[JobTraffic]) -> float:
    """Median slow-downs, weighted with the nodes of each job."""
    weights = np.array([job.nodes for job in jobs], float)
    return float(found.quantile(0.5) @ weights / weights.sum())


_EXCHANGES: Final = 4000
"""Exchanges of nodes that are tried."""
_CROSSING: Final = 1e-3
"""What a flow that leaves its group costs if no link is full: the better of two equal placements
leaves fewer groups."""


@dataclass(frozen=True)
class Groups:
    """Nodes that reach each other over the same switches, and what leads out of each group."""

    of_node: Ints
    nodes: list[list[int]]
    """Of every group, in the order of the fabric."""
    cables: Floats
    """Cables that lead out of a group."""
    rate: Floats
    """All of them, in nodes that send at the rate of their NICs."""

    @property
    def count(self) -> int:
        """How many there are."""
        return len(self.nodes)


def groups_of(links: Links) -> Groups:
    """The leaf groups of a network."""
    hangs = links.switch_of_nic.reshape(-1, links.nics_per_node)
    _, first, inverse = np.unique(hangs, axis=0, return_index=True, return_inverse=True)
    rank = np.argsort(np.argsort(first))
    of_node = rank[inverse.ravel()]
    nodes = [np.flatnonzero(of_node == group).tolist() for group in range(len(first))]
    start = links.ends[:, 0]
    cables = np.bincount(start, minlength=len(links.switches)).astype(float)
    rates = np.bincount(start, links.rates[2 * links.nics :], len(links.switches))
    on = [np.unique(hangs[mine[0]]) for mine in nodes]
    full = links.nics_per_node * links.nic_bytes_per_s
    return Groups(
        of_node,
        nodes,
        np.array([cables[one].sum() for one in on]),
        np.array([rates[one].sum() for one in on]) / full,
    )


def crossed(groups: Groups, nodes: Sequence[int]) -> Nodes:
    """`nodes` in another order: one of each leaf group in turn."""
    own: dict[int, list[int]] = {}
    for node in nodes:
        own.setdefault(int(groups.of_node[node]), []).append(node)
    most = max(map(len, own.values()), default=0)
    return tuple(node for turn in range(most) for mine in own.values() for node in mine[turn : turn + 1])


def arranged(job: JobTraffic, counts: Ints) -> Ints:
    """The group of every place in the rank order, if a job has so many nodes in each.

    Whole rings first, the groups with most nodes before others; what is left over forms the rest.
    """
    found = np.zeros(job.nodes, np.int64)
    left = counts.copy()
    waiting = []
    largest_first = np.argsort(-counts, kind="stable")
    for ring in sorted(job.rings, key=len, reverse=True):
        home = next((group for group in largest_first if left[group] >= len(ring)), None)
        if home is None:
            waiting.append(ring)
        else:
            found[ring] = home
            left[home] -= len(ring)
    rest = np.repeat(np.arange(len(left)), left)
    if waiting:
        by_size = np.argsort(-left[rest], kind="stable")
        found[np.concatenate([np.array(ring) for ring in waiting])] = rest[by_size]
    return found


class Estimate:
    """Slow-downs of jobs that have so many nodes in each group; a job that stays costs nothing."""

    def __init__(self, groups: Groups, jobs: Sequence[JobTraffic], qps: int, *, hashed: bool) -> None:
        self.groups, self.jobs, self.qps, self.hashed = groups, jobs, qps, hashed
        self._weights = np.array([job.nodes for job in jobs], float)
        self._fullest: dict[tuple[float, float], float] = {}
        self._sent: dict[tuple[int, bytes], Floats] = {}

    def sent(self, job: int, counts: Ints) -> Floats:
        """Nodes' worth of traffic that a job sends out of each group; what enters equals it."""
        key = (job, counts.tobytes())
        if key not in self._sent:
            place = arranged(self.jobs[job], counts)
            start, end, weight = self.jobs[job].edges
            out = place[start] != place[end]
            both = [np.bincount(place[side][out], weight[out], self.groups.count) for side in (start, end)]
            self._sent[key] = np.maximum(*both)
        return self._sent[key]

    def cost(self, sent: Floats) -> float:
        """Mean slow-down, weighted with nodes, and a little for all that leaves a group."""
        total = sent.sum(0)
        slower = np.array([self._slower(load, group) for group, load in enumerate(total.tolist())])
        of_job = np.where(sent > 0, slower, 1.0).max(1)
        crossing = total.sum() / self._weights.sum()
        return float(of_job @ self._weights / self._weights.sum() + _CROSSING * crossing)

    def _slower(self, load: float, group: int) -> float:
        """Times longer that traffic takes which leaves a group with others."""
        rate, cables = float(self.groups.rate[group]), float(self.groups.cables[group])
        if load <= 0.0 or not rate:
            return 1.0
        even = load / rate
        if not self.hashed:
            return max(1.0, even)
        flows = even * self.qps  # on each cable, of which `qps` fill one at a NIC's rate
        key = (round(flows, 6), cables)
        if key not in self._fullest:
            self._fullest[key] = most_on_a_link(flows, max(1, int(cables)))[0]
        return max(1.0, even, self._fullest[key] / self.qps)


def packed(estimate: Estimate, free: Ints) -> Ints:
    """Nodes of every job in each group: the largest job first, into the group that it fills best.

    A job that fits into none takes the emptiest groups whole, and the best fit for the rest.
    """
    left, jobs = free.copy(), estimate.jobs
    found = np.zeros((len(jobs), len(free)), np.int64)
    for job in sorted(range(len(jobs)), key=lambda one: -jobs[one].nodes):
        wanted = jobs[job].nodes
        while wanted:
            fits = np.flatnonzero(left >= wanted)
            group = int(fits[np.argmin(left[fits])]) if len(fits) else int(np.argmax(left))
            taken = min(wanted, int(left[group]))
            found[job, group] += taken
            left[group] -= taken
            wanted -= taken
    return found


def exchanged(estimate: Estimate, start: Ints, free: Ints, seed: int = 0) -> Ints:
    """The best that exchanges of nodes between jobs, and with free nodes, lead to."""
    best = np.vstack([start, free - start.sum(0)])  # the last row is nobody's
    jobs = len(estimate.jobs)
    sent = np.array([estimate.sent(job, best[job]) for job in range(jobs)])
    cost, draw = estimate.cost(sent), np.random.default_rng(seed)
    for _ in range(_EXCHANGES):
        crossing = np.flatnonzero(sent.sum(1) > 0)
        if not len(crossing):
            break
        job = int(draw.choice(crossing))
        mine = np.flatnonzero(best[job])
        group = int(draw.choice(mine))
        other = int(draw.choice(np.flatnonzero(np.arange(jobs + 1) != job)))
        theirs = np.flatnonzero(best[other])
        theirs = theirs[theirs != group]
        if not len(theirs):
            continue
        there = int(draw.choice(theirs))
        most = int(min(best[job, group], best[other, there]))
        count = most if draw.random() < 0.5 else int(draw.integers(1, most + 1))
        trial = best.copy()
        trial[[job, other], [group, there]] -= count
        trial[[job, other], [there, group]] += count
        new = sent.copy()
        for one in (job, other):
            if one < jobs:
                new[one] = estimate.sent(one, trial[one])
        if (now := estimate.cost(new)) < cost - 1e-12:
            best, sent, cost = trial, new, now
    return best[:-1]


@dataclass(frozen=True)
class Placer:
    """Counts of nodes in groups as nodes in rank order."""

    groups: Groups
    jobs: Sequence[JobTraffic]
    given: Sequence[Nodes]
    usable: frozenset[int]
    """Nodes of the jobs and free ones."""

    @cached_property
    def free(self) -> Ints:
        """Usable nodes of each group."""
        return np.array([sum(one in self.usable for one in mine) for mine in self.groups.nodes])

    @property
    def counts(self) -> Ints:
        """Nodes of each job in each group as given."""
        return np.array(
            [np.bincount(self.groups.of_node[list(one)], minlength=self.groups.count) for one in self.given]
        )

    def nodes(self, counts: Ints) -> list[Nodes]:
        """The nodes of each job; those that it has already are kept as far as possible."""
        taken: set[int] = set()
        own: list[dict[int, list[int]]] = []
        for job, row in enumerate(counts):
            had = set(self.given[job])
            kept = {
                int(group): [one for one in self.groups.nodes[group] if one in had][: row[group]]
                for group in np.flatnonzero(row)
            }
            own.append(kept)
            taken.update(one for nodes in kept.values() for one in nodes)
        for job, row in enumerate(counts):
            for group in np.flatnonzero(row).tolist():
                lack = int(row[group]) - len(own[job][group])
                new = [one for one in self.groups.nodes[group] if one in self.usable and one not in taken][
                    :lack
                ]
                own[job][group] = sorted(own[job][group] + new)
                taken.update(new)
        return [self._ordered(job, counts[job], own[job]) for job in range(len(counts))]

    def _ordered(self, job: int, row: Ints, own: dict[int, list[int]]) -> Nodes:
        queue = {group: iter(nodes) for group, nodes in own.items()}
        return tuple(next(queue[int(group)]) for group in arranged(self.jobs[job], row))
