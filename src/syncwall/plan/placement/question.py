"""Jobs that share a fabric, as a file states them.

Holds `PlacementJob`, `PlacementFile` with `read_jobs`, and `nodes_named`. Nodes are written as
Slurm does: `node[001-064,100]`.
"""

from collections.abc import Iterable
from pathlib import Path
from typing import Annotated, Any

from pydantic import BeforeValidator, Field, ValidationError

from syncwall.describe import Cluster, Run
from syncwall.describe.base import Description, Positive
from syncwall.describe.faults import faults_of
from syncwall.describe.reading import validated
from syncwall.describe.run import ClusterRef
from syncwall.documents import read_document
from syncwall.hosts import slurm_hosts
from syncwall.network.graph import Links
from syncwall.plan.placement.traffic import Nodes
from syncwall.problems import InputError, did_you_mean


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
                raise InputError.of(f"{job.name} has {len(nodes)} nodes in its placement, its run "
                                    f"{run.nodes}")  # fmt: skip
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
            raise InputError.of(
                f'{what}: the fabric has no node "{name[:60]}"{near or "; " + nodes}'
            )
        found.append(places[name])
    return tuple(found)
