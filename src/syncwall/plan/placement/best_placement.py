"""Where jobs stand on a fabric and where they should, as asked, found and told to schedulers.

Nodes are written as Slurm does: `node[001-064,100]`.

Sources: kueue.sigs.k8s.io/docs/tasks/run/topology_aware_scheduling (one annotation on the Pod
template, its value the node label of a level) and Volcano's "Network Topology Aware Scheduling User
Guide" (`networkTopology` of a Job: `hard` with the highest tier, or `soft`).
"""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Annotated, Any, Final, Literal

import numpy as np
import yaml
from pydantic import BeforeValidator, Field, ValidationError

from syncwall.answer.contention import UNPROVEN
from syncwall.answer.prediction import Prediction
from syncwall.cost.contended_network import SharedLinks
from syncwall.describe import Cluster, Run
from syncwall.describe.base import Description, Positive
from syncwall.describe.faults import faults_of
from syncwall.describe.reading import validated
from syncwall.describe.run import ClusterRef
from syncwall.documents import read_document
from syncwall.hosts import slurm_hosts
from syncwall.network import Routing
from syncwall.network.graph import Links
from syncwall.plan.placement.placement_search import (
    Estimate,
    Groups,
    JobTraffic,
    Nodes,
    Placer,
    SharedFabric,
    Slowdowns,
    exchanged,
    groups_of,
    mean_slower,
    packed,
    traffic_of,
)
from syncwall.problems import InputError, did_you_mean
from syncwall.public import Answer, Late, published


def _names(value: Any) -> Any:
    """One text, one number, or a list of them, as a list of texts."""
    many = value if isinstance(value, list | tuple) else [value]
    return tuple(str(one) for one in many if isinstance(one, str | int))


NodeNames = Annotated[tuple[str, ...], BeforeValidator(_names)]


class PlacementJob(Description):
    """One job."""

    name: Annotated[str, Field(pattern=r"^[A-Za-z0-9][A-Za-z0-9._-]{0,99}$")]
    """Also of the files that are written for it."""
    run: str | dict[str, Any]
    """A run file, or a run in place; cluster and nodes are those that are stated here."""
    nodes: Positive | None = None
    """As many as it is placed on, or as the run says, if not given."""
    placement: NodeNames = ()
    """The nodes that it has, in the order of ranks; the first free ones if not given."""


class PlacementFile(Description):
    """Several jobs on nodes of one kind."""

    cluster: ClusterRef
    nodes: Positive | None = None
    """Of the fabric; those of the cluster if not given. A fabric's file has its own."""
    jobs: Annotated[tuple[PlacementJob, ...], Field(min_length=1, max_length=1000)]
    free: NodeNames | None = None
    """Nodes that jobs may move to; all that no job has, if not given."""

    @property
    def machine(self) -> Cluster:
        """The nodes that the fabric joins."""
        return self.cluster if self.nodes is None else self.cluster.using(self.nodes)

    def runs(self, folder: Path) -> list[Run]:
        """The run of each job; paths are relative to `folder`."""
        names = [job.name for job in self.jobs]
        if twice := {name for name in names if names.count(name) > 1}:
            raise InputError.of(f'two jobs are called "{min(twice)}"')
        return [self._run(job, folder) for job in self.jobs]

    def _run(self, job: PlacementJob, folder: Path) -> Run:
        stated = job.run
        if isinstance(stated, str):
            stated = read_document(folder / stated).value
            if not isinstance(stated, dict):
                raise InputError.of(f"{job.run} is no run file: it has no `key: value` lines")
        placed = sum(1 for _ in slurm_hosts(",".join(job.placement)))
        count = job.nodes or placed or stated.get("nodes")
        if count is None:
            raise InputError.of(f'"{job.name}" has no nodes: write nodes: 8, or placement')
        left = {key: value for key, value in stated.items() if key not in ("gpus", "nodes")}
        fields = {**left, "cluster": self.cluster, "nodes": count}
        try:
            return Run.model_validate(fields, context={"in_file": True, "directory": folder})
        except ValidationError as error:
            where, reason = faults_of(error, Run)[0]
            key = ".".join(map(str, where))
            raise InputError.of(f"{job.name}: run{'.' if key else ''}{key}: {reason}") from None

    def placed(self, links: Links, runs: list[Run]) -> tuple[list[Nodes], frozenset[int]]:
        """The nodes that each job has, and all that jobs may take."""
        given = [nodes_named(job.placement, links, job.name) for job in self.jobs]
        stand = [node for nodes in given for node in nodes]
        if len(set(stand)) != len(stand):
            double = next(node for node in stand if stand.count(node) > 1)
            raise InputError.of(f"node {links.nodes[double]} is placed twice")
        others = set(range(len(links.nodes))) - set(stand)
        free = others if self.free is None else set(nodes_named(self.free, links, "free")) & others
        left = sorted(free)
        found = []
        for job, run, nodes in zip(self.jobs, runs, given, strict=True):
            if nodes and len(nodes) != run.nodes:
                raise InputError.of(
                    f"{job.name} has {len(nodes)} nodes in its placement, its run {run.nodes}"
                )
            if not nodes and len(left) < run.nodes:
                raise InputError.of(f"{job.name} needs {run.nodes} nodes, {len(left)} are free")
            taken = nodes or tuple(left[: run.nodes])
            left = left if nodes else left[run.nodes :]
            found.append(taken)
        return found, frozenset(free | set(stand))


def read_jobs(path: Path) -> PlacementFile:
    """The jobs in the file at `path`."""
    return validated(read_document(path), PlacementFile)


def nodes_named(names: Iterable[str], links: Links, what: str) -> Nodes:
    """Nodes by name; InputError names the first that the fabric does not have."""
    places = {name: place for place, name in enumerate(links.nodes)}
    found = []
    for name in slurm_hosts(",".join(names)):
        if name not in places:
            near = did_you_mean(name, list(places)[:2000])
            nodes = f"its nodes are {links.nodes[0]} to {links.nodes[-1]}"
            raise InputError.of(f'{what}: the fabric has no node "{name[:60]}"{near or "; " + nodes}')
        found.append(places[name])
    return tuple(found)


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
    verdict = Late("show.placement:verdict")
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
            name,
            traffic[number].axis,
            slowed_step_s(jobs[number], shared, 1.0),
            least,
            at(number, given, before),
            at(number, chosen, after),
        )

    return PlacementAnswer(
        links,
        groups,
        shared.name,
        shared.routing,
        shared.qps,
        fabric.draws,
        shared.seed,
        tuple(of(number, name) for number, name in enumerate(names)),
        better.change,
        better.given_slower,
        better.slower,
        before.busiest,
        after.busiest,
        len(usable) - sum(map(len, given)),
        _together(groups, usable, given),
        _together(groups, usable, chosen),
        int(jobs[0].run.cluster.gpus_per_node),
    )


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
        ("none", list(placer.given)),
        ("order", placer.nodes(placer.counts)),
        *(("nodes", placer.nodes(counts)) for counts in (*better, greedy)),
    ]


def _together(groups: Groups, usable: frozenset[int], placed: Sequence[Nodes]) -> int:
    free = list(usable.difference(*placed))
    return int(np.bincount(groups.of_node[free]).max()) if free else 0


_LEAF_LABEL: Final = "cloud.provider.com/topology-rack"
"""The label of Kueue's own examples; a site has its own."""
_LEAF_TIER: Final = 1
"""Of HyperNodes whose members are nodes."""
HYPERNODES: Final = "hypernodes.yaml"


def hint_files(answer: PlacementAnswer, gpus_per_node: int) -> dict[str, str]:
    """Texts by the names of their files."""
    files = {HYPERNODES: _hypernodes(answer)}
    for job in answer.jobs:
        names = answer.names(job.found.nodes)
        files[f"{job.name}.hostfile"] = "".join(f"{name}\n" * gpus_per_node for name in names)
        files[f"{job.name}.torchrun"] = _torchrun(names, gpus_per_node)
        files[f"{job.name}.kueue.yaml"] = _kueue(job, names)
        files[f"{job.name}.volcano.yaml"] = _volcano(job, names)
    return files


def _torchrun(names: list[str], gpus_per_node: int) -> str:
    master = f"--master-addr={names[0]} --nnodes={len(names)} --nproc-per-node={gpus_per_node}"
    lines = [f"{name}: torchrun --node-rank={rank} {master}" for rank, name in enumerate(names)]
    return "# on each host; static rendezvous, which keeps the ranks\n" + "\n".join(lines) + "\n"


def _kueue(job: PlacedJob, names: list[str]) -> str:
    strength = "required" if job.found.groups == 1 else "preferred"
    annotations = {f"kueue.x-k8s.io/podset-{strength}-topology": _LEAF_LABEL}
    return _written(
        "Part of a Pod template. The label of leaf groups is that of Kueue's examples: write\n"
        "the one of your Topology. Ranks follow Kueue's own order inside of it.",
        {"metadata": {"annotations": annotations}, "spec": _on(names)},
    )


def _volcano(job: PlacedJob, names: list[str]) -> str:
    inside = {"mode": "hard", "highestTierAllowed": _LEAF_TIER}
    topology = inside if job.found.groups == 1 else {"mode": "soft"}
    task = {"replicas": len(names), "template": {"spec": _on(names)}}
    spec = {"schedulerName": "volcano", "minAvailable": len(names), "networkTopology": topology}
    return _written(
        f"Part of a Volcano Job. Tier {_LEAF_TIER} are the leaf groups of {HYPERNODES}.\n"
        "Ranks follow Volcano's own order of Pods inside of it.",
        {
            "apiVersion": "batch.volcano.sh/v1alpha1",
            "kind": "Job",
            "spec": spec | {"tasks": [task]},
        },
    )


def _on(names: list[str]) -> dict[str, Any]:
    """The part of a Pod that keeps it on certain nodes."""
    hosts = {"key": "kubernetes.io/hostname", "operator": "In", "values": names}
    terms = {"nodeSelectorTerms": [{"matchExpressions": [hosts]}]}
    return {"affinity": {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": terms}}}


def _hypernodes(answer: PlacementAnswer) -> str:
    """Leaf groups as HyperNodes of the first tier, and one of the second with all of them."""
    groups = [answer.names(tuple(nodes)) for nodes in answer.groups.nodes]
    leaves = [f"leaf-group-{number + 1}" for number in range(len(groups))]
    found = [_hypernode(leaf, _LEAF_TIER, "Node", nodes) for leaf, nodes in zip(leaves, groups, strict=True)]
    if len(leaves) > 1:
        found.append(_hypernode("fabric", _LEAF_TIER + 1, "HyperNode", leaves))
    note = "The leaf groups of the fabric, for a cluster whose HyperNodes are not discovered."
    return _written(note, *found)


def _hypernode(name: str, tier: int, kind: str, members: list[str]) -> dict[str, Any]:
    chosen = [{"type": kind, "selector": {"exactMatch": {"name": one}}} for one in members]
    return {
        "apiVersion": "topology.volcano.sh/v1alpha1",
        "kind": "HyperNode",
        "metadata": {"name": name},
        "spec": {"tier": tier, "members": chosen},
    }


def _written(note: str, *documents: dict[str, Any]) -> str:
    comment = "".join(f"# {line}\n" for line in note.splitlines())
    return comment + yaml.safe_dump_all(documents, sort_keys=False)
