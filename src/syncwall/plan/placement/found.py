"""Jobs as they stand and as they should: nodes, rank order, slow-downs and steps.

Holds `PlacedJob`, `PlacementAnswer` and `place_jobs`; `Improved` and `improved`; `slowed_step_s`.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Final, Literal

import numpy as np

from syncwall.answer.contention import UNPROVEN
from syncwall.answer.prediction import Prediction
from syncwall.cost.contended_network import SharedLinks
from syncwall.describe import Cluster
from syncwall.network import Routing
from syncwall.network.graph import Links
from syncwall.plan.placement.search import Estimate, Groups, Placer, exchanged, groups_of, packed
from syncwall.plan.placement.traffic import (
    JobTraffic,
    Nodes,
    SharedFabric,
    Slowdowns,
    mean_slower,
    traffic_of,
)  # fmt: skip
from syncwall.public import Answer, Late, published

PlacementChange = Literal["none", "order", "nodes"]
"""What is to be changed: nothing, only the order of ranks, or the nodes of jobs too."""
_BETTER: Final = 1e-6


@published(
    "nodes=names leaf_groups=groups slower_p50 slower_p90 step_p50_s step_p90_s",
)
@dataclass(frozen=True, slots=True)
class JobAt:
    """A job on certain nodes."""

    nodes: Nodes
    """In the order of ranks."""
    names: list[str]
    """The same as the fabric calls them."""
    groups: int
    """Leaf groups that they are in."""
    slower_p50: float
    """Times longer that its traffic takes than over NICs alone, over the draws."""
    slower_p90: float
    step_p50_s: float
    step_p90_s: float


@published(
    "name axis=priced_axis free_step_s=free_s least_leaf_groups=least_groups given found",
)
@dataclass(frozen=True, slots=True)
class PlacedJob:
    """A job as it stands and as it should."""

    name: str
    axis: str
    """The axis whose traffic is priced; empty if nothing leaves a scale-up domain."""
    free_s: float
    """Its step if no link were shared."""
    least_groups: int
    """Leaf groups that so many nodes need at least."""
    given: JobAt
    found: JobAt

    @property
    def priced_axis(self) -> str | None:
        """The axis whose traffic is priced; None if nothing leaves a scale-up domain."""
        return self.axis or None


@published(
    "verdict change given_slower found_slower given_busiest_link found_busiest_link fabric",
    "routing qps draws seed leaf_groups=groups.count free_nodes given_free_together",
    "found_free_together accuracy jobs",
)
@dataclass(frozen=True)
class PlacementAnswer(Answer):
    """Several jobs on one fabric."""

    verb = "plan placement"
    verdict = Late("show.words.placement:verdict")
    links: Links
    groups: Groups
    fabric: str
    """As it was asked for."""
    routing: Routing
    qps: int
    """Queue pairs of a connection."""
    draws: int
    """Of the hashes; 1 where nothing is drawn."""
    seed: int
    jobs: tuple[PlacedJob, ...]
    change: PlacementChange
    """What is to be changed: nothing, the order of ranks, or nodes too."""
    given_slower: float
    """Mean of the median slow-downs, weighted with nodes."""
    found_slower: float
    given_busiest: str
    found_busiest: str
    """The fullest link of the median draw; empty if no job is slowed down."""
    free_nodes: int
    given_free_together: int
    """Free nodes of the leaf group that has most of them."""
    found_free_together: int
    gpus_per_node: int

    @property
    def given_busiest_link(self) -> str | None:
        """The fullest link of the median draw; None if no job is slowed down."""
        return self.given_busiest or None

    @property
    def found_busiest_link(self) -> str | None:
        """The same with the placement found."""
        return self.found_busiest or None

    @property
    def accuracy(self) -> str:
        """What is known of it on real fabrics."""
        return UNPROVEN

    def __repr__(self) -> str:
        slower = f"{self.given_slower:.2f} -> {self.found_slower:.2f}"
        return f"<PlacementAnswer {len(self.jobs)} jobs: {slower}>"

    def names(self, nodes: Nodes) -> list[str]:
        """Nodes as the fabric calls them."""
        return [self.links.nodes[node] for node in nodes]


@dataclass(frozen=True)
class _Slowed(SharedLinks):
    """Links over which all that leaves a scale-up domain takes `times` as long."""

    times: float = 1.0

    def slower(self, pattern: str, ranks: int, stride: int, cluster: Cluster) -> float:
        """The same for every axis."""
        return self.times


def slowed_step_s(job: Prediction, shared: SharedLinks, times: float) -> float:
    """The step of a job all of whose traffic over NICs takes `times` as long as on free links."""
    run, links = job.run, _Slowed(shared.links, shared.routing, draw=0, times=times)
    prices = replace(job.pricing, network=links)
    return float(prices.step(run.model, run.layout, run.seq, run.cluster).step_s)


def place_jobs(
    names: Sequence[str],
    jobs: Sequence[Prediction],
    given: Sequence[Nodes],
    usable: frozenset[int],
    shared: SharedLinks,
    *,
    progress: Callable[[float], None] = lambda _: None,
) -> PlacementAnswer:
    """The best placement found for predicted jobs that stand on `given` nodes of `shared` links.

    Of those that are equally good, the one that changes least. `usable` are all nodes that jobs may
    take.
    """
    links, traffic = shared.links, [traffic_of(job.run) for job in jobs]
    fabric = SharedFabric(links, traffic, shared.routing, shared.qps, shared.seed)
    groups = groups_of(links)
    better = improved(Placer(groups, traffic, given, usable), fabric, progress)
    chosen = better.placed
    before, after = fabric.slower(given), fabric.slower(chosen)
    sizes = np.cumsum(sorted((len(mine) for mine in groups.nodes), reverse=True))

    def at(number: int, placed: Sequence[Nodes], found: Slowdowns) -> JobAt:
        p50, p90 = (float(found.quantile(share)[number]) for share in (0.5, 0.9))
        p50_s, p90_s = (slowed_step_s(jobs[number], shared, times) for times in (p50, p90))
        spread = len(np.unique(groups.of_node[list(placed[number])]))
        names = [links.nodes[node] for node in placed[number]]
        return JobAt(placed[number], names, spread, p50, p90, p50_s, p90_s)

    def of(number: int, name: str) -> PlacedJob:
        least = int(np.searchsorted(sizes, traffic[number].nodes)) + 1
        return PlacedJob(
            name, traffic[number].axis, slowed_step_s(jobs[number], shared, 1.0), least,
            at(number, given, before), at(number, chosen, after),
        )  # fmt: skip

    return PlacementAnswer(
        links, groups, shared.name, shared.routing, shared.qps, fabric.draws, shared.seed,
        tuple(of(number, name) for number, name in enumerate(names)),
        better.change, better.given_slower, better.slower, before.busiest, after.busiest,
        len(usable) - sum(map(len, given)), _together(groups, usable, given),
        _together(groups, usable, chosen), int(jobs[0].run.cluster.gpus_per_node),
    )  # fmt: skip


@dataclass(frozen=True, slots=True)
class Improved:
    """The best placement that was found."""

    change: PlacementChange
    placed: list[Nodes]
    given_slower: float
    slower: float
    """Mean of the median slow-downs, weighted with nodes."""


def improved(
    placer: Placer, fabric: SharedFabric, progress: Callable[[float], None] = lambda _: None
) -> Improved:
    """The best of several placements, the given one among them; of equal ones the first."""
    tried, scores = _tried(placer, fabric.jobs, fabric), []
    for number, (_, placed) in enumerate(tried):
        scores.append(mean_slower(fabric.slower(placed), fabric.jobs))
        progress((number + 1) / len(tried))
        if scores[-1] <= 1.0 + _BETTER:  # nothing is better
            break
    best = next(n for n, score in enumerate(scores) if score <= min(scores) * (1.0 + _BETTER))
    return Improved(*tried[best], scores[0], scores[best])


def _tried(
    placer: Placer, jobs: Sequence[JobTraffic], fabric: SharedFabric
) -> list[tuple[PlacementChange, list[Nodes]]]:
    """Placements to compare, those that change least first."""
    estimate = Estimate(placer.groups, jobs, fabric.qps, hashed=fabric.hashed)
    greedy = packed(estimate, placer.free)
    starts = (placer.counts, greedy)
    better = [exchanged(estimate, start, placer.free, fabric.seed) for start in starts]
    return [
        ("none", list(placer.given)), ("order", placer.nodes(placer.counts)),
        *(("nodes", placer.nodes(counts)) for counts in (*better, greedy)),
    ]  # fmt: skip


def _together(groups: Groups, usable: frozenset[int], placed: Sequence[Nodes]) -> int:
    free = list(usable.difference(*placed))
    return int(np.bincount(groups.of_node[free]).max()) if free else 0
