"""One line for each file that was read.

Holds `file_lines`.
"""

from collections.abc import Iterator
from pathlib import Path

from syncwall.describe import Cluster
from syncwall.explain.answer import Explanation
from syncwall.explain.slowdown import Slowdown
from syncwall.explain.traces import JobTraces
from syncwall.read.execution_trace import ExecutionTrace
from syncwall.read.fabric_graph import FabricGraph
from syncwall.read.nccl_facts import NcclLog
from syncwall.read.nccl_graph import NcclGraph
from syncwall.read.nccl_tests_facts import NcclTests
from syncwall.read.nsys_stats import NsysStats
from syncwall.read.topology import Topology


def file_lines(found: Explanation) -> Iterator[tuple[str, str]]:
    """What each file is, and what it says in a few words."""
    if found.traces is not None:
        yield "traces", _traces(found.traces)
    if found.against is not None:
        yield "against", _traces(found.against)
    for slowdown in found.slowdowns:
        yield Path(slowdown.source).name, _operations(slowdown)
    for dump in found.dumps:
        who = "?" if dump.rank is None else dump.rank
        yield Path(dump.source).name, f"rank {who}: {len(dump.entries):,} collectives"
    for log in found.logs:
        yield Path(log.source).name, _log(log)
    for topology, machine in found.topologies:
        yield Path(topology.source).name, _topology(topology, machine, found.machine_guessed)
    for other in found.others:
        yield from _other(other)


def _traces(job: JobTraces) -> str:
    ranks = len(job.ranks) or 1
    of = f" of {job.world_size:,}" if job.world_size else ""
    device = f" on {job.device}" if job.device else ""
    steps = len(job.ledger.steps)
    told = "" if job.ledger.found_by == "marks" else f", found by {job.ledger.found_by}"
    return f"{ranks:,} rank{'s' * (ranks > 1)}{of}{device}; {steps} steps{told}"


def _operations(found: Slowdown) -> str:
    ranks = found.dp * found.stages
    return (
        f"{found.operations:,} operations of {ranks} workers (dp {found.dp} x pp {found.stages}) "
        f"in {found.steps} steps"
    )


def _log(log: NcclLog) -> str:
    world = log.world
    size = f"{world.ranks} ranks on {world.nodes or len(log.hosts)} nodes, " if world else ""
    channels = f", {world.coll_channels} channels" if world and world.coll_channels else ""
    ways = ", ".join(log.transports) or "no connections"
    used = f", {len(log.nics_used)} of {len(log.nics)} NICs" if log.nics else ""
    gdr = {True: ", GPUDirect", False: ", no GPUDirect", None: ""}[log.gdr]
    return f"NCCL {log.version or '?'}: {size}{ways}{channels}{used}{gdr}"


def _topology(topology: Topology, machine: Cluster | None, guessed: bool) -> str:
    gpus, nics = len(topology.gpus), len(topology.nics)
    how = "taken for" if guessed else "checked against"
    against = f"; {how} {machine.name}" if machine is not None else ""
    nodes = f", {len(topology.numa_nodes)} NUMA nodes" if topology.numa_nodes else ""
    return f"{topology.format}: {gpus} GPUs, {nics} NICs{nodes}{against}"


def _other(other: object) -> Iterator[tuple[str, str]]:
    if isinstance(other, NcclTests):
        best = max((t.busbw_gb_per_s for row in other.rows if (t := row.out_of_place)), default=0.0)
        name = other.collective or "benchmark"
        ranks = f" on {other.ranks} ranks" if other.ranks else ""
        yield (
            Path(other.source).name,
            f"{name}{ranks}, {len(other.rows)} sizes, at most {best:.1f} GB/s busbw",
        )
    elif isinstance(other, FabricGraph):
        tiers = max(other.tiers.values(), default=0)
        yield (
            Path(other.source).name,
            f"{other.format}: {len(other.switches)} switches in {tiers} tiers, "
            f"{len(other.hosts)} hosts, {len(other.cables)} cables",
        )
    elif isinstance(other, NcclGraph):
        rate = other.intra_bytes_per_s / 1e9
        yield "graph", f"{other.pattern}: {len(other.channels)} channels of {rate:.0f} GB/s"
    elif isinstance(other, NsysStats):
        yield Path(other.source).name, "nsys: " + ", ".join(other.tables)
    elif isinstance(other, ExecutionTrace):
        yield (
            Path(other.source).name,
            f"schema {other.schema}: {other.nodes:,} nodes, {len(other.collectives)} collectives",
        )
