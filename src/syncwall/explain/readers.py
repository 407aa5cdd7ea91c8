"""The kinds of files that are read and explained one by one.

Holds `Reader`, `READERS` and `readers`, to which packages may add (`syncwall.readers`); `Question`,
what is asked of the files; `sorted_files`, the files that a user names by their kind; and
`read_files`, what they hold. Profiler traces and topologies are explained together: see
`explain.answer`.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from syncwall import plugins
from syncwall.describe import Cluster, Run
from syncwall.explain.benchmarks import corruption_findings, read_measured_file
from syncwall.explain.failures import read_words
from syncwall.explain.finding import Finding, Severity
from syncwall.explain.logs import nccl_findings, nsys_findings
from syncwall.explain.memory import memory_findings, memory_words
from syncwall.explain.remedies import price_for
from syncwall.explain.stragglers import Slowdown, slowdown_of
from syncwall.explain.topology_findings import check_fabric
from syncwall.explain.training_log import log_findings
from syncwall.explain.verdict import NotJudged
from syncwall.problems import EmptyInput, InputError, Problem
from syncwall.read.detect import TEXTS, FileKind, expanded, first_bytes, kind_of, read_fabric
from syncwall.read.execution_trace import ExecutionTrace, read_execution_traces
from syncwall.read.fabric_file import FabricGraph
from syncwall.read.failure_text import read_failure_text
from syncwall.read.flight_recorder import FlightDump, read_flight_recorder
from syncwall.read.link_rates import LinkReading, read_iperf3, read_perftest
from syncwall.read.memory_snapshot import read_memory_snapshot
from syncwall.read.nccl_facts import NcclLog
from syncwall.read.nccl_log import read_nccl_log
from syncwall.read.nccl_tests import NcclTests, read_nccl_tests
from syncwall.read.nccl_topology import NcclGraph, read_nccl_graphs
from syncwall.read.node_checks import NodeCheck, read_node_check
from syncwall.read.nsys_stats import NsysStats, read_nsys_stats
from syncwall.read.training_log import TrainingLog, read_training_log
from syncwall.units import plural


@dataclass(frozen=True)
class FilesRequest:
    """What is asked of the files."""

    run: Run | None = None
    """The run that was measured, to be predicted and laid beside it."""
    machine: Cluster | None = None
    """What the hosts should be; that of the run, or the likeliest of the catalogue."""
    workers: int | None = None
    ray: str | None = None
    store: Path | None = None
    """Directory in which events are kept as Parquet."""
    pasted: Path | None = None
    """The file of a text that somebody pasted: it is not judged, if nothing in it is known."""


@dataclass(frozen=True)
class Reader:
    """One kind of file."""

    read: Callable[[Path], Iterable[Any]]
    """What a file holds, one thing or several."""
    says: Callable[[Any], str]
    """One of these in a few words."""
    findings: Callable[[Any, FilesRequest], Iterable[Finding]] | None = None
    """What costs time in it; without, such a file only describes a job."""
    recognise: Callable[[bytes], bool] | None = None
    """Whether a file is of this kind, from its first 256 KiB; asked only if it is of none of
    `FileKind`, which `read.detect` tells apart."""


@dataclass(frozen=True)
class ReadFile:
    """One thing that a file holds."""

    path: Path
    what: Any
    says: str


def _one(read: Callable[[Path], Any]) -> Callable[[Path], Iterator[Any]]:
    """A reader of files that hold one thing."""
    return lambda path: iter((read(path),))


def _operations(found: Slowdown) -> str:
    workers = plural(found.dp * found.stages, "worker")
    return (
        f"{plural(found.operations, 'operation')} of {workers} (dp {found.dp} × pp {found.stages}) "
        f"in {plural(found.steps, 'step')}"
    )


def _dump(dump: FlightDump) -> str:
    who = "?" if dump.rank is None else dump.rank
    return f"rank {who}: {plural(len(dump.entries), 'collective')}"


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


def _log_findings(log: NcclLog, question: FilesRequest) -> Iterable[Finding]:
    run = question.run
    return nccl_findings(log, price_for(run) if run is not None else None, run)


def _nccl_tests(found: NcclTests) -> str:
    best = max((t.busbw_gb_per_s for row in found.rows if (t := row.out_of_place)), default=0.0)
    ranks = f" on {plural(found.ranks, 'rank')}" if found.ranks else ""
    sizes = plural(len(found.rows), "size")
    return f"{found.collective or 'benchmark'}{ranks}, {sizes}, at most {best:.1f} GB/s busbw"


def _fabric(found: FabricGraph) -> str:
    tiers = max(found.tiers.values(), default=0)
    return (
        f"{found.format}: {plural(len(found.switches), 'switch', 'switches')} in "
        f"{plural(tiers, 'tier')}, {plural(len(found.hosts), 'host')}, "
        f"{plural(len(found.cables), 'cable')}"
    )


def _graph(found: NcclGraph) -> str:
    channels = plural(len(found.channels), "channel")
    return f"{found.pattern}: {channels} of {found.intra_bytes_per_s / 1e9:.0f} GB/s"


def _execution(found: ExecutionTrace) -> str:
    sent = plural(len(found.collectives), "collective")
    return f"schema {found.schema}: {plural(found.nodes, 'node')}, {sent}"


def _link_rate(found: LinkReading) -> str:
    ways = plural(found.streams, "stream" if found.tool == "iperf3" else "queue pair")
    return f"{found.tool} {found.who}, {ways}: {found.bytes_per_s * 8e-9:.3g} Gb/s"


def _nsys(found: NsysStats) -> str:
    return "nsys: " + ", ".join(found.tables)


def _training_log(log: TrainingLog) -> str:
    steps = f"steps {log.steps[0]:,} to {log.steps[-1]:,}"
    return f"{log.framework}: {steps} in {plural(len(log.steps), 'line')}"


def _checks(found: NodeCheck) -> str:
    parts = {"passed": found.passed, "failed": found.faults, "skipped": found.skipped}
    said = [found.screen] * bool(found.screen)
    return f"{found.tool}: " + ", ".join(
        [*said, *(f"{len(all_)} {what}" for what, all_ in parts.items() if all_)]
    )


_AFTER_CHECK: Final = {
    "network port down": "look at the switch's port, reseat or replace cable and transceiver",
    "network port slow": "compare with the adapters that it should equal; reseat or replace the cable",
    "GPU test failed": "take the node out, and give this output with nvidia-bug-report.sh to the vendor",
    "clocks throttled": "look at temperature, power and fans of that host; compare nvidia-smi -q -d CLOCK",
    "GPU not readable": "look at dmesg for Xid, run dcgmi diag -r 3; drain the node if it stays so",
    "GPU hot": "see if clocks are held back (nvidia-smi -q -d PERFORMANCE); look at fans and air",
    "power cap differs": "set one limit for all (nvidia-smi -pl): the slowest GPU sets the pace of a job",
    "GPU idle among busy ones": (
        "look at the process of that GPU (py-spy dump, its log): in a hang the others wait in a collective, "
        "which counts as busy"
    ),
    "GPU memory error": "drain the node, reset the GPU, and replace it if the errors come back",
}


def _check_findings(found: NodeCheck, _: FilesRequest) -> Iterator[Finding]:
    for fault in found.faults:
        where = f"{found.source}:{fault.line}" if fault.line else found.source
        why = "collectives wait for the slowest and end with the first that fails"
        severity: Severity = "wrong" if fault.is_sure else "suspect"
        yield Finding(severity, fault.what, why, _AFTER_CHECK[fault.cause], where, cause=fault.cause)


READERS: Final[dict[str, Reader]] = {
    FileKind.OPERATIONS: Reader(_one(slowdown_of), _operations),
    FileKind.FLIGHT: Reader(_one(read_flight_recorder), _dump),
    FileKind.MEMORY: Reader(_one(read_memory_snapshot), memory_words, lambda what, _: memory_findings(what)),
    FileKind.NCCL_LOG: Reader(_one(read_nccl_log), _log, _log_findings),
    FileKind.NCCL_TESTS: Reader(read_nccl_tests, _nccl_tests, lambda what, _: corruption_findings(what)),
    FileKind.FABRIC: Reader(_one(read_fabric), _fabric, lambda what, _: check_fabric(what)),
    FileKind.GRAPH: Reader(read_nccl_graphs, _graph),
    FileKind.NSYS: Reader(_one(read_nsys_stats), _nsys, lambda what, _: nsys_findings(what)),
    FileKind.EXECUTION: Reader(read_execution_traces, _execution),
    FileKind.IPERF3: Reader(read_iperf3, _link_rate),
    FileKind.PERFTEST: Reader(read_perftest, _link_rate),
    FileKind.NODE_CHECK: Reader(_one(read_node_check), _checks, _check_findings),
    FileKind.FAILURE: Reader(_one(read_failure_text), read_words),
    FileKind.MEASURED: Reader(_one(read_measured_file), lambda what: what.says),
    FileKind.TRAINING_LOG: Reader(_one(read_training_log), _training_log, lambda what, _: log_findings(what)),
}
"""By what such a file is called, in the order in which an answer lists them."""


def readers() -> dict[str, Reader]:
    """Every reader, with those that packages add."""
    return plugins.table("readers", READERS, Reader)


_TEXT: Final = "text"
"""What is pasted and of no known kind."""
_NOTHING_KNOWN: Final = f"nothing in it is known: neither {TEXTS}, nor a log, trace or benchmark"
_MORE: Final = (
    "the log from its first error on, of all ranks; how the job ended (sacct, kubectl describe pod), and "
    "dmesg -T of its hosts"
)


def sorted_files(
    paths: Sequence[Path], pasted: Path | None = None
) -> tuple[dict[str, list[Path]], list[Problem]]:
    """Files by what they are called, and those in directories that are of no known kind."""
    return expanded(paths, lambda path: _kind(path, pasted))


def _kind(path: Path, pasted: Path | None) -> str:
    try:
        return kind_of(path)
    except InputError:
        head = first_bytes(path)
        for name, reader in readers().items():
            if reader.recognise is not None and reader.recognise(head):
                return name
        if path == pasted and b"\0" not in head:
            return _TEXT
        raise


def read_files(files: Mapping[str, Sequence[Path]]) -> tuple[dict[str, list[ReadFile]], list[NotJudged]]:
    """What those of the `files` hold that speak for themselves, by kind; and those that hold nothing."""
    found: dict[str, list[ReadFile]] = {}
    empty = [NotJudged("the text", _NOTHING_KNOWN, _MORE, str(path)) for path in files.get(_TEXT, ())]
    damaged: list[tuple[Path, InputError]] = []
    for kind, reader in readers().items():
        for path in files.get(kind, ()):
            try:
                found.setdefault(kind, []).extend(_read(kind, reader, path))
            except EmptyInput as error:
                empty.append(nothing_in(kind, error))
            except InputError as error:
                if kind not in _BESIDE:
                    raise
                damaged.append((path, error))
    found = {kind: some for kind, some in found.items() if some}
    for kind, others in _BESIDE.items():
        for other in others:
            inside = [one for path in files.get(kind, ()) for one in _among_lines(other, path)]
            if inside:
                found[other] = [*found.get(other, ()), *inside]
    failed = {one.path for one in found.get(FileKind.FAILURE, ())}
    for path, refusal in damaged:
        if path not in failed:
            raise refusal
    return found, empty


def nothing_in(kind: str, error: EmptyInput) -> NotJudged:
    """A file of a kind that holds nothing of what it is for."""
    problem = error.problems[0]
    whole = "the whole of it, of a run that came to its end"
    return NotJudged(f"{kind} {Path(problem.file).name}", problem.message, whole, problem.file)


_BESIDE: Final = {
    FileKind.NCCL_LOG: (FileKind.NCCL_TESTS, FileKind.TRAINING_LOG, FileKind.FAILURE, FileKind.NODE_CHECK),
    FileKind.TRAINING_LOG: (FileKind.FAILURE, FileKind.NODE_CHECK),
    FileKind.NODE_CHECK: (FileKind.FAILURE,),
    FileKind.NCCL_TESTS: (FileKind.FAILURE,),
}
"""What may stand between the lines of others: results of nccl-tests, steps, the end of the job, GPUs.
A text that says what failed is read for that, even if nothing else in it can be read."""


def _among_lines(kind: FileKind, log: Path) -> list[ReadFile]:
    """What a program wrote between the lines of a log."""
    try:
        return _read(kind, READERS[kind], log)
    except InputError:
        return []


def _read(kind: str, reader: Reader, path: Path) -> list[ReadFile]:
    try:
        return [ReadFile(path, what, reader.says(what)) for what in reader.read(path)]
    except Exception as error:
        if kind in READERS or isinstance(error, InputError):
            raise
        problem = f'the reader "{kind}" failed: {type(error).__name__}: {error}'
        raise InputError.of(problem, file=str(path)) from error
