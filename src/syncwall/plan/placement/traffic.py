"""What jobs send over the network at once, and how much longer that takes than over NICs alone.

Holds `JobTraffic` with `traffic_of`, `SharedFabric`, which prices a placement by fair shares and
says what links carry, `Slowdowns` and `mean_slower`.
Of every job one axis sends: the experts' all-to-all if it leaves a scale-up domain, else the rings
of the data-parallel axis, else the pipeline's transfers. All jobs send all the time, which is the
most that they can do to each other. A job is as slow as the slowest of its streams.
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
from syncwall.network.carried import Carried
from syncwall.network.collisions import EXACT
from syncwall.network.fair import Usage, fair_rates
from syncwall.network.graph import Floats, Ints, Links
from syncwall.network.routes import Ends, Entries, Routes, is_hashed
from syncwall.network.streams import PATTERNS, Pairs, place_groups
from syncwall.work.groups import groups
from syncwall.work.operations import GroupAxis

Nodes = tuple[int, ...]
"""Nodes of a job in the order of its ranks."""
_AXES: Final[tuple[tuple[GroupAxis, str], ...]] = (
    ("ep", "all-to-all"), ("shard", "ring"), ("dp", "ring"), ("pp", "transfer"),
)  # fmt: skip
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
            pairs = PATTERNS[pattern](
                place_groups(cluster.gpus, ranks, stride, cluster.domain_gpus)
            )
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
        self, links: Links, jobs: Sequence[JobTraffic], routing: Routing = "ecmp", qps: int = 1,
        seed: int = SEED, most_draws: int = DRAWS,
    ) -> None:  # fmt: skip
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
            np.repeat(nodes, each), np.tile(np.arange(each), len(nodes)), each,
            self.links.nics_per_node, each,
        )  # fmt: skip

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
