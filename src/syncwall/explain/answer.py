"""Everything that a user's files say together.

Holds `Explanation` and `explain`.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Final

from syncwall.answer.gap import Suspect
from syncwall.answer.improvements import Improvement
from syncwall.answer.prediction import Prediction, predict
from syncwall.describe import Cluster
from syncwall.describe.lookup import cluster
from syncwall.explain.benchmarks import MachineCheck, check_machine
from syncwall.explain.changes import Changed, Day, read_days, what_changed
from syncwall.explain.failures import Failure, find_failure
from syncwall.explain.finding import Finding, worst_first
from syncwall.explain.hang import Hang, find_hangs
from syncwall.explain.machines import Sighting, different_machines, likely_cluster, sightings
from syncwall.explain.readers import (
    FilesRequest,
    ReadFile,
    nothing_in,
    read_files,
    readers,
    sorted_files,
)
from syncwall.explain.remedies import remedies, remedy_kind, suspects_of
from syncwall.explain.side_by_side import SideBySide, side_by_side
from syncwall.explain.stragglers import Slowdown
from syncwall.explain.topology_findings import check_topology, used_by
from syncwall.explain.traces.job_traces import JobTraces, SoFar, explain_traces
from syncwall.explain.traces.rank_comparison import RanksVerdict
from syncwall.explain.training_level import Level, level_of
from syncwall.explain.training_log import LogSummary
from syncwall.explain.verdict import EXIT_CODES, Judged, NotJudged, Verdict, VerdictState
from syncwall.problems import EmptyInput, InputError, Problem
from syncwall.public import Answer, Late, published
from syncwall.read.detect import FileKind, Files, read_topology
from syncwall.read.flight_recorder import FlightDump
from syncwall.read.memory_snapshot import DeviceMemory
from syncwall.read.nccl_facts import NcclLog
from syncwall.read.topology import HostTopology

__all__ = ["Explanation", "explain"]

Progress = Callable[[float], None]


@published(
    "verdict state=conclusion.state cause=conclusion.cause explained=conclusion.explained",
    "certainty=conclusion.certainty judged not_judged why next files facts",
    "ledger_s=traces.ledger.ledger hidden_s=traces.ledger.hidden step_s=traces.ledger.step_s ranks",
    "gap=gap.gaps remedies=remedies._remedy slowdowns hangs failure changed",
    "benchmarks=benchmarks.collectives logs memory machines findings problems=problems.__str__",
    benchmarks="Collectives that were timed, if the machine is known.",
    problems="What could not be read.",
)
@dataclass(frozen=True)
class Explanation(Answer):
    """What was found, by kind of file."""

    verb = "explain"
    verdict = Late("show.explanation:verdict")
    why = Late("show.explanation:why_lines")
    next = Late("show.explanation:next_lines")
    facts = Late("show.explanation:file_facts")
    verdicts = Late("explain.conclusions:verdicts")
    files: dict[str, int]
    """How many of each kind were read."""
    read: dict[str, list[ReadFile]] = field(default_factory=dict)
    """What they hold, where each speaks for itself."""
    traces: JobTraces | None = None
    predicted: Prediction | None = None
    gap: SideBySide | None = None
    """Predicted and measured, or before and after."""
    hangs: tuple[Hang, ...] = ()
    """Collectives that some ranks did not reach or end."""
    empty: tuple[NotJudged, ...] = ()
    """Files that hold nothing of what they are for."""
    failure: Failure | None = None
    """What ended the job, as its logs say."""
    topologies: tuple[tuple[HostTopology, Cluster | None], ...] = ()
    """Hosts, and what they were checked against."""
    findings: tuple[Finding, ...] = ()
    """The worst first."""
    problems: tuple[Problem, ...] = ()
    """What could not be read."""
    against: JobTraces | None = None
    """The last of the good days, if there are traces of both."""
    changed: Changed | None = None
    """What is different from the good days."""
    machine: Cluster | None = None
    """What the hosts should be, if somebody said it."""
    likely: dict[str, tuple[tuple[str, list[str]], ...]] = field(default_factory=dict)
    """By topology, machines that it may be with the reasons, the likeliest first; if guessed."""
    benchmarks: MachineCheck = field(default_factory=MachineCheck)
    """Collectives, links and kernels beside what the machine should give."""
    suspects: tuple[Suspect, ...] = ()
    """What would explain the gap to the prediction, the likeliest first."""
    levels: tuple[Level, ...] = ()
    """Training logs beside what the run should show."""
    pasted: str = ""
    """The file in which standard input was kept while it was read."""
    remedies: tuple[Improvement, ...] = ()
    """What would help against the verdict as the predictor prices it, the most first."""

    @property
    def conclusion(self) -> Verdict:
        """The worst of all."""
        worst: Verdict = self.verdicts[0]
        return worst

    @property
    def state(self) -> VerdictState:
        """Wrong, suspect, not judged or healthy."""
        return self.conclusion.state

    @property
    def judged(self) -> tuple[Judged, ...]:
        """What was compared with what."""
        return tuple(dict.fromkeys(judged for one in self.verdicts for judged in one.judged))

    @property
    def not_judged(self) -> tuple[NotJudged, ...]:
        """What was compared with nothing, why, and what to give."""
        return tuple(one.about for one in self.verdicts if isinstance(one.about, NotJudged))

    @property
    def exit_code(self) -> int:
        """0 healthy, 1 wrong, 3 if nobody can tell."""
        return EXIT_CODES[self.state]

    def to_dict(self) -> dict[str, Any]:
        """As plain data; standard input is "-", whatever file it was kept in."""
        found: dict[str, Any] = _renamed(super().to_dict(), self.pasted) if self.pasted else super().to_dict()
        return found

    def __repr__(self) -> str:
        read = ", ".join(f"{count} {kind}" for kind, count in self.files.items())
        return f"<Explanation of {read}: {self.state}>"

    @property
    def slowdowns(self) -> tuple[Slowdown, ...]:
        """What tables of operations say of stragglers."""
        return _of(self.read, FileKind.OPERATIONS)

    @property
    def logs(self) -> tuple[LogSummary, ...]:
        """Figures of training logs."""
        return tuple(one.figures for one in self.levels)

    @property
    def memory(self) -> tuple[DeviceMemory, ...]:
        """GPUs of memory snapshots at their worst moment."""
        return tuple(one for snapshot in _of(self.read, FileKind.MEMORY) for one in snapshot.devices)

    @property
    def machines(self) -> list[str]:
        """What the machine was taken for, if nobody named it; all that fit."""
        guess = self.benchmarks.recognised
        return [one.name for one in guess.machines] if guess else []

    @property
    def ranks(self) -> RanksVerdict | None:
        """What holds ranks up, if there are traces of several."""
        return self.traces.verdict if self.traces else None

    @property
    def is_bad(self) -> bool:
        """True if something is wrong for sure; beside good days, if it is slower or newly wrong."""
        return self.state is VerdictState.WRONG


def _renamed(found: Any, pasted: str) -> Any:
    """Plain data with "-" for the name of a file."""
    if isinstance(found, dict):
        return {key: _renamed(one, pasted) for key, one in found.items()}
    if isinstance(found, list):
        return [_renamed(one, pasted) for one in found]
    return found.replace(pasted, STANDARD_INPUT) if isinstance(found, str) else found


STANDARD_INPUT: Final = "-"
_ANYTHING = FilesRequest()


def explain(
    paths: Sequence[Path],
    question: FilesRequest = _ANYTHING,
    *,
    against: Sequence[Path] = (),
    progress: Progress = lambda share: None,
    so_far: SoFar = lambda verdict: None,
) -> Explanation:
    """What the files at `paths` say; traces are compared with those `against` which they are."""
    files, unknown = sorted_files(paths, question.pasted)
    read, empty = read_files(files)
    traces = None
    try:
        traces = _traces(files, question, progress, so_far)
    except EmptyInput as error:
        empty.append(nothing_in(FileKind.TRACE, error))
    good, read_before = _good_days(against, question, traces)
    before = good[-1].job if good else None
    changed = what_changed(traces, read, good, read_before) if against else None
    if against and changed is None:
        message = "--against needs files of the same kind: traces, NCCL logs, benchmarks"
        raise InputError.of(message, file=str(against[0]))
    if changed is not None:
        changed = replace(changed, findings=_newly_wrong(read, read_before, question))
    predicted = predict(question.run) if question.run is not None else None
    topologies = [read_topology(path) for path in files.get(FileKind.TOPOLOGY, ())]
    seen = sightings(read, traces.device if traces else None, topologies)
    machine = question.machine or (question.run.cluster if question.run else None)
    likely = {} if machine else {one.source: _likely(one, seen) for one in topologies}
    hosts = tuple((one, machine or _first(likely[one.source])) for one in topologies)
    checked = check_machine(read, machine, seen)
    found = worst_first((*_findings(read, hosts, question), *checked.findings))
    beside = _gap(traces, before, predicted)
    levels = tuple(
        level_of(log, question.run, predicted, machine) for log in _of(read, FileKind.TRAINING_LOG)
    )
    dumps: tuple[FlightDump, ...] = _of(read, FileKind.FLIGHT)
    return Explanation(
        files={kind: len(found) for kind, found in files.items()},
        read=read,
        traces=traces,
        predicted=predicted,
        gap=beside,
        suspects=_suspects(traces, before, predicted, beside) or _of_levels(levels),
        levels=levels,
        remedies=_remedies(traces, predicted),
        empty=tuple(empty),
        hangs=find_hangs(dumps) if dumps else (),
        failure=find_failure(_of(read, FileKind.FAILURE)),
        topologies=hosts,
        findings=(*different_machines(seen), *found),
        problems=(*unknown, *(traces.problems if traces else ())),
        against=before,
        changed=changed,
        machine=machine,
        likely=likely,
        benchmarks=checked,
    )


def _newly_wrong(
    now: Mapping[str, Sequence[ReadFile]],
    before: Mapping[str, Sequence[ReadFile]],
    ask: FilesRequest,
) -> tuple[Finding, ...]:
    """What the files of now say is wrong, and those of the good days do not."""
    known = {one.what for one in _findings(before, (), ask)}
    wrong = (one for one in _findings(now, (), ask) if one.severity == "wrong")
    return worst_first(one for one in wrong if one.what not in known)


def _of(read: Mapping[str, Sequence[ReadFile]], kind: FileKind) -> tuple[Any, ...]:
    return tuple(one.what for one in read.get(kind, ()))


def _traces(files: Files, question: FilesRequest, progress: Progress, so_far: SoFar) -> JobTraces | None:
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
        so_far=so_far,
    )


def _good_days(
    paths: Sequence[Path], question: FilesRequest, now: JobTraces | None
) -> tuple[tuple[Day, ...], dict[str, list[ReadFile]]]:
    """Traces of each day to compare with, and what the other files of these days hold."""
    if not paths:
        return (), {}
    files, _ = sorted_files(paths)
    traced = files.get(FileKind.TRACE, [])
    if not traced or now is None:
        return (), read_files(files)[0]
    days = read_days(traced, shown=now.rank, workers=question.workers, ray=question.ray)
    return days, read_files(files)[0]


def _gap(
    traces: JobTraces | None, before: JobTraces | None, predicted: Prediction | None
) -> SideBySide | None:
    if traces is None:
        return None
    if before is not None:
        return side_by_side(before.ledger.ledger, traces.ledger.ledger)
    return None if predicted is None else side_by_side(predicted.ledger, traces.ledger.ledger)


def _likely(topology: HostTopology, seen: Sequence[Sighting]) -> tuple[tuple[str, list[str]], ...]:
    """Machines that a topology may be of; those with the GPUs that other files name, if any."""
    every = likely_cluster(topology)
    named = set.intersection(*(set(one.devices) for one in seen)) if seen else set()
    return tuple(one for one in every if cluster(one[0]).device.name in named) or tuple(every)


def _first(likely: Sequence[tuple[str, list[str]]]) -> Cluster | None:
    return cluster(likely[0][0]) if likely else None


def _suspects(
    traces: JobTraces | None,
    before: JobTraces | None,
    predicted: Prediction | None,
    beside: SideBySide | None,
) -> tuple[Suspect, ...]:
    """None where traces are of another job, or compared with other traces."""
    if traces is None or before is not None or predicted is None or beside is None:
        return ()
    if traces.world_size not in (None, predicted.run.gpus):
        return ()
    return suspects_of(predicted, beside)


def _of_levels(levels: Sequence[Level]) -> tuple[Suspect, ...]:
    """What would explain that a training log is not as predicted."""
    gaps = [one.gap for one in levels if one.gap is not None and not one.gap.is_usual]
    return gaps[0].suspects if gaps else ()


def _remedies(traces: JobTraces | None, predicted: Prediction | None) -> tuple[Improvement, ...]:
    """Of several ranks by their verdict, of one by what it waits for."""
    if traces is None or predicted is None:
        return ()
    together = traces.verdict.kind if traces.verdict else "clean"
    return remedies(predicted, remedy_kind(traces.ledger) if together == "clean" else together)


def _findings(
    read: Mapping[str, Sequence[ReadFile]],
    hosts: Sequence[tuple[HostTopology, Cluster | None]],
    question: FilesRequest,
) -> Iterator[Finding]:
    for kind, files in read.items():
        judge = readers()[kind].findings
        if judge is not None:
            for one in files:
                yield from judge(one.what, question)
    logs: tuple[NcclLog, ...] = _of(read, FileKind.NCCL_LOG)
    used = used_by(logs[0]) if len(logs) == 1 else None
    for topology, machine in hosts:
        if machine is not None:
            yield from check_topology(topology, machine, question.run, used)
