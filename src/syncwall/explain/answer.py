"""Everything that a user's files say together.

Holds `Question`, `Explanation` and `explain`.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from syncwall.answer.prediction import Prediction, predict
from syncwall.describe import Cluster, Run
from syncwall.describe.lookup import cluster
from syncwall.explain.changed_machine import price_for
from syncwall.explain.finding import Finding, worst_first
from syncwall.explain.hang import Hang, find_hangs
from syncwall.explain.identity import likely_cluster
from syncwall.explain.launch_blocking import nsys_findings
from syncwall.explain.nccl_findings import nccl_findings
from syncwall.explain.placement_checks import used_by
from syncwall.explain.ranks import RanksVerdict
from syncwall.explain.side_by_side import SideBySide, side_by_side
from syncwall.explain.slowdown import Slowdown, slowdown_of
from syncwall.explain.topology_checks import check_fabric, check_topology
from syncwall.explain.traces import JobTraces, explain_traces
from syncwall.problems import InputError, Problem
from syncwall.read.detect import FileKind, Files, expanded, read_fabric, read_topology
from syncwall.read.execution_trace import read_execution_traces
from syncwall.read.fabric_graph import FabricGraph
from syncwall.read.flight_recorder import FlightDump, read_flight_recorder
from syncwall.read.nccl_facts import NcclLog
from syncwall.read.nccl_graph import read_nccl_graphs
from syncwall.read.nccl_log import read_nccl_log
from syncwall.read.nccl_tests import read_nccl_tests
from syncwall.read.nsys_stats import NsysStats, read_nsys_stats
from syncwall.read.topology import HostTopology

Progress = Callable[[float], None]


@dataclass(frozen=True)
class Question:
    """What is asked of the files."""

    run: Run | None = None
    """The run that was measured, to be predicted and laid beside it."""
    machine: Cluster | None = None
    """What the hosts should be; that of the run, or the likeliest of the catalogue."""
    workers: int | None = None
    ray: str | None = None
    store: Path | None = None
    """Directory in which events are kept as Parquet."""


@dataclass(frozen=True)
class Explanation:
    """What was found, by kind of file."""

    files: dict[FileKind, int]
    """How many of each."""
    traces: JobTraces | None = None
    predicted: Prediction | None = None
    gap: SideBySide | None = None
    """Predicted and measured, or before and after."""
    slowdowns: tuple[Slowdown, ...] = ()
    dumps: tuple[FlightDump, ...] = ()
    hangs: tuple[Hang, ...] = ()
    logs: tuple[NcclLog, ...] = ()
    topologies: tuple[tuple[HostTopology, Cluster | None], ...] = ()
    """Hosts, and what they were checked against."""
    others: tuple[Any, ...] = ()
    """Benchmarks, fabrics, graphs, reports and execution traces as read."""
    findings: tuple[Finding, ...] = ()
    """The worst first."""
    problems: tuple[Problem, ...] = ()
    """What could not be read."""
    against: JobTraces | None = None
    machine_guessed: bool = False
    """True if nobody said what the hosts should be."""

    @property
    def ranks(self) -> RanksVerdict | None:
        """What holds ranks up, if there are traces of several."""
        return self.traces.verdict if self.traces else None

    @property
    def is_bad(self) -> bool:
        """True if something is wrong for sure."""
        return bool(
            self.hangs
            or (self.ranks is not None and self.ranks.kind != "clean")
            or any(finding.severity == "wrong" for finding in self.findings)
            or any(one.slow for one in self.slowdowns)
        )


_ANYTHING = Question()


def explain(
    paths: Sequence[Path],
    question: Question = _ANYTHING,
    *,
    against: Sequence[Path] = (),
    progress: Progress = lambda share: None,
) -> Explanation:
    """What the files at `paths` say; traces are compared with those `against` which they are."""
    files, unknown = expanded(paths)
    traces = _traces(files, question, progress)
    before = _before(against, question)
    predicted = predict(question.run) if question.run is not None else None
    logs = tuple(read_nccl_log(path) for path in files.get(FileKind.NCCL_LOG, ()))
    hosts = tuple(_host(path, question) for path in files.get(FileKind.TOPOLOGY, ()))
    dumps = tuple(read_flight_recorder(path) for path in files.get(FileKind.FLIGHT, ()))
    others = tuple(_others(files))
    return Explanation(
        files={kind: len(found) for kind, found in files.items()},
        traces=traces,
        predicted=predicted,
        gap=_gap(traces, before, predicted),
        slowdowns=tuple(slowdown_of(path) for path in files.get(FileKind.OPERATIONS, ())),
        dumps=dumps,
        hangs=find_hangs(dumps) if dumps else (),
        logs=logs,
        topologies=hosts,
        others=others,
        findings=worst_first(_findings(logs, hosts, others, question)),
        problems=(*unknown, *(traces.problems if traces else ())),
        against=before,
        machine_guessed=question.machine is None and question.run is None,
    )


def _traces(files: Files, question: Question, progress: Progress) -> JobTraces | None:
    paths = files.get(FileKind.TRACE, [])
    if not paths:
        return None
    nics = question.run.cluster.node.nics if question.run else None
    return explain_traces(
        paths,
        link_bytes_per_s=nics.rate_bytes_per_s if nics else None,
        workers=question.workers,
        ray=question.ray,
        store=question.store,
        progress=progress,
    )


def _before(paths: Sequence[Path], question: Question) -> JobTraces | None:
    if not paths:
        return None
    files, _ = expanded(paths)
    found = _traces(files, replace(question, store=None), lambda share: None)
    if found is None:
        raise InputError.of("--against needs profiler traces", file=str(paths[0]))
    return found


def _gap(
    traces: JobTraces | None, before: JobTraces | None, predicted: Prediction | None
) -> SideBySide | None:
    if traces is None:
        return None
    if before is not None:
        return side_by_side(before.ledger.ledger, traces.ledger.ledger)
    return None if predicted is None else side_by_side(predicted.ledger, traces.ledger.ledger)


def _host(path: Path, question: Question) -> tuple[HostTopology, Cluster | None]:
    """A topology, and the machine that it should be."""
    topology = read_topology(path)
    machine = question.machine or (question.run.cluster if question.run else None)
    if machine is None:
        likely = likely_cluster(topology)
        machine = cluster(likely[0][0]) if likely else None
    return topology, machine


def _others(files: Files) -> Iterator[Any]:
    for path in files.get(FileKind.NCCL_TESTS, ()):
        yield from read_nccl_tests(path)
    for path in files.get(FileKind.FABRIC, ()):
        yield read_fabric(path)
    for path in files.get(FileKind.GRAPH, ()):
        yield from read_nccl_graphs(path)
    for path in files.get(FileKind.NSYS, ()):
        yield read_nsys_stats(path)
    for path in files.get(FileKind.EXECUTION, ()):
        yield from read_execution_traces(path)


def _findings(
    logs: Sequence[NcclLog],
    hosts: Sequence[tuple[HostTopology, Cluster | None]],
    others: Sequence[Any],
    question: Question,
) -> Iterator[Finding]:
    price = price_for(question.run) if question.run is not None else None
    for log in logs:
        yield from nccl_findings(log, price, question.run)
    used = used_by(logs[0]) if len(logs) == 1 else None
    for topology, machine in hosts:
        if machine is not None:
            yield from check_topology(topology, machine, question.run, used)
    for other in others:
        if isinstance(other, NsysStats):
            yield from nsys_findings(other)
        elif isinstance(other, FabricGraph):
            yield from check_fabric(other)
