"""What files are and say, a line for each that was read.

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
from syncwall.read.nccl_tests_json import NcclTests
from syncwall.read.nsys_stats import NsysStats
from syncwall.read.topology import HostTopology
from syncwall.show.numbers import plural


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
        yield Path(dump.source).name, f"rank {who}: {plural(len(dump.entries), 'collective')}"
    for log in found.logs:
        yield Path(log.source).name, _log(log)
    for topology, machine in found.topologies:
        yield Path(topology.source).name, _topology(topology, machine, found.machine_guessed)
    for other in found.others:
        yield _other(other)


def _traces(job: JobTraces) -> str:
    ranks = plural(len(job.ranks) or 1, "rank")
    of = f" of {job.world_size:,}" if job.world_size else ""
    device = f" on {job.device}" if job.device else ""
    told = "" if job.ledger.found_by == "marks" else f", found by {job.ledger.found_by}"
    return f"{ranks}{of}{device}; {plural(len(job.ledger.steps), 'step')}{told}"


def _operations(found: Slowdown) -> str:
    workers = plural(found.dp * found.stages, "worker")
    return (
        f"{plural(found.operations, 'operation')} of {workers} (dp {found.dp} × pp {found.stages}) "
        f"in {plural(found.steps, 'step')}"
    )


def _log(log: NcclLog) -> str:
    world = log.world
    size = channels = ""
    if world is not None:
        nodes = plural(world.nodes or len(log.hosts), "node")
        size = f"{plural(world.ranks, 'rank')} on {nodes}, "
        channels = f", {plural(world.coll_channels, 'channel')}" if world.coll_channels else ""
    ways = ", ".join(log.transports) or "no connections"
    used = f", {len(log.nics_used)} of {len(log.nics)} NICs" if log.nics else ""
    gdr = {True: ", GPUDirect", False: ", no GPUDirect", None: ""}[log.gdr]
    return f"NCCL {log.version or '?'}: {size}{ways}{channels}{used}{gdr}"


def _topology(topology: HostTopology, machine: Cluster | None, guessed: bool) -> str:
    counts = {"GPU": topology.gpus, "NIC": topology.nics, "NUMA node": topology.numa_nodes}
    found = ", ".join(plural(len(all_), one) for one, all_ in counts.items() if all_)
    how = "taken for" if guessed else "checked against"
    against = f"; {how} {machine.name}" if machine is not None else ""
    return f"{topology.format}: {found}{against}"


def _other(other: object) -> tuple[str, str]:
    name = Path(getattr(other, "source", "graph")).name
    match other:
        case NcclTests():
            best = max(
                (t.busbw_gb_per_s for row in other.rows if (t := row.out_of_place)), default=0.0
            )
            ranks = f" on {plural(other.ranks, 'rank')}" if other.ranks else ""
            what = other.collective or "benchmark"
            sizes = plural(len(other.rows), "size")
            return name, f"{what}{ranks}, {sizes}, at most {best:.1f} GB/s busbw"
        case FabricGraph():
            tiers = max(other.tiers.values(), default=0)
            return name, (
                f"{other.format}: {plural(len(other.switches), 'switch', 'switches')} in "
                f"{plural(tiers, 'tier')}, {plural(len(other.hosts), 'host')}, "
                f"{plural(len(other.cables), 'cable')}"
            )
        case NcclGraph():
            channels = plural(len(other.channels), "channel")
            return name, f"{other.pattern}: {channels} of {other.intra_bytes_per_s / 1e9:.0f} GB/s"
        case NsysStats():
            return name, "nsys: " + ", ".join(other.tables)
        case ExecutionTrace():
            sent = plural(len(other.collectives), "collective")
            return name, f"schema {other.schema}: {plural(other.nodes, 'node')}, {sent}"
    raise AssertionError(other)
