"""What a report is about: results, runs and jobs, read from their files, checked and computed."""

import math
from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Final

from pydantic import ConfigDict, ValidationError

from syncwall.answer import Prediction, predict
from syncwall.answer.improvements import Improvement, improvements
from syncwall.describe import Cluster, Job, Run
from syncwall.describe.base import Description
from syncwall.describe.faults import faults_of
from syncwall.describe.files import RunFile
from syncwall.describe.reading import validated
from syncwall.describe.stated import StatedRun
from syncwall.documents import Document, KeyPath, opened, read_document, read_text
from syncwall.job.completion import Completion, JobChange, finish, job_changes
from syncwall.lab.closed_loop import Forecast, step_label
from syncwall.lab.comparison import EXPOSED, Compared, ledger_groups, predicted_steps
from syncwall.lab.experiment import Fault
from syncwall.lab.experiment_run import LabRecord
from syncwall.lab.virtual_network import rate_text
from syncwall.measure.collectives import CollectiveRow, SkippedKind
from syncwall.measure.kernel_times import KernelRow, Times
from syncwall.measure.links import LinkRow
from syncwall.measure.overlap import Overlap
from syncwall.measure.result import JobFacts, MachineLoad, Result
from syncwall.measure.suspects import SlowComponent
from syncwall.measure.training_step import StepData
from syncwall.plan.reference import Reference
from syncwall.plan.wall.sync_wall import SyncWall, wall_of
from syncwall.problems import InputError, Problem
from syncwall.read.recorded_program import read_program

_LARGEST: Final = 1e25
_SHORTEST_STEP_S: Final = 1e-9
_SHORTEST_S: Final = 1e-12
_TIMES: Final = frozenset(Times.model_fields)
_Faults = Iterator[tuple[KeyPath, str]]


class _Data(Description):
    """Data of a result; what a later version adds is ignored."""

    model_config = ConfigDict(extra="ignore")


class CollectivesResult(_Data):
    """Of `measure collectives`."""

    rows: tuple[CollectiveRow, ...]
    skipped: tuple[SkippedKind, ...] = ()
    """What was left out, and why."""


class LinksResult(_Data):
    """Of `measure links`."""

    rows: tuple[LinkRow, ...]
    suspects: tuple[SlowComponent, ...] = ()
    """Who is slow."""
    size_bytes: int | None = None
    """Of one transfer."""
    repeats: int | None = None
    """How often every pair was measured."""


class KernelTimes(_Data):
    """Of `measure matmul`."""

    rows: tuple[KernelRow, ...]
    beside: Overlap | None = None
    """What computation and communication cost each other; None for one rank."""


class ExperimentSetup(_Data):
    """What an experiment says of itself."""

    name: str = "unnamed"
    title: str | None = None
    question: str | None = None
    threads: int = 1
    repeats: int = 1
    faults: tuple[Fault, ...] = ()


class LabResult(_Data):
    """Of `lab run`."""

    experiment: ExperimentSetup
    records: tuple[LabRecord, ...]


Data = CollectivesResult | LinksResult | KernelTimes | StepData | LabResult
_TYPES: Final[dict[str, type[Description]]] = {
    "collectives": CollectivesResult,
    "links": LinksResult,
    "matmul": KernelTimes,
    "step": StepData,
    "lab": LabResult,
}


@dataclass(frozen=True)
class Source:
    """One result with its data."""

    file: str
    result: Result
    data: Data


def read_source(path: Path) -> Source:
    """The result in the file at `path`; InputError says what is wrong with it, and where."""
    document = read_document(path)
    result = validated(document, Result)
    data = _data(result, document, ("data",))
    if isinstance(data, LabResult):
        for number, record in enumerate(data.records):
            _checked(document, ("data", "records", number), _record_faults(record))
            if record.result is not None:
                _data(record.result, document, ("data", "records", number, "result", "data"))
    return Source(str(path), result, data)


def loads_of(result: Result, data: Data) -> list[MachineLoad | None]:
    """What else the machine did: once, or for each record of a lab."""
    if isinstance(data, LabResult):
        return [record.load for record in data.records]
    return [result.load]


def data_of(result: Result) -> Data:
    """The data of a result that has been read and checked."""
    found = _TYPES[result.kind].model_validate(result.data)
    assert isinstance(found, CollectivesResult | LinksResult | KernelTimes | StepData | LabResult)
    return found


def _data(result: Result, document: Document, path: KeyPath) -> Data:
    """The data of `result`, which stands at `path`."""
    try:
        data = data_of(result)
    except ValidationError as error:
        found = faults_of(error, _TYPES[result.kind])
        raise InputError([document.problem((*path, *keys), message) for keys, message in found]) from None
    if not isinstance(data, LabResult):
        _checked(document, path, strange_numbers(data.model_dump()))
        _checked(document, path, _faults(data, result.job))
    return data


def _checked(document: Document, path: KeyPath, found: _Faults) -> None:
    problems: list[Problem] = [document.problem((*path, *keys), message) for keys, message in found]
    if problems:
        raise InputError(problems)


def strange_numbers(value: Any, path: KeyPath = ()) -> _Faults:
    """Numbers that no measurement gives: negative, infinite, or times below a picosecond."""
    if isinstance(value, dict):
        for key, inner in value.items():
            yield from strange_numbers(inner, (*path, str(key)))
    elif isinstance(value, list | tuple):
        for number, inner in enumerate(value):
            yield from strange_numbers(inner, (*path, number))
    elif isinstance(value, int | float) and not isinstance(value, bool):
        key = path[-1] if path else ""
        is_below = (value < 0 and key != "lost_s") or (key in _TIMES and 0 < value < _SHORTEST_S)
        if not math.isfinite(value) or abs(value) > _LARGEST or is_below:
            yield path, f'"{key}": {value} cannot have been measured'


def _faults(data: Data, job: JobFacts) -> _Faults:
    """What types do not say of the data of a measurement."""
    if isinstance(data, CollectivesResult):
        for number, row in enumerate(data.rows):
            if row.ranks < 1 or row.bytes < 0:
                yield ("rows", number), "a collective has at least one rank and no negative size"
    if isinstance(data, LinksResult):
        for number, link in enumerate(data.rows):
            if not (link.source < job.world and link.target < job.world):
                yield ("rows", number), f"a rank beyond the {job.world} of the job"
    if isinstance(data, KernelTimes) and data.beside and data.beside.alone_s < _SHORTEST_STEP_S:
        yield ("beside", "alone_s"), "an all-reduce takes longer than a nanosecond"
    if isinstance(data, StepData) and data.times.median_s < _SHORTEST_STEP_S:
        yield ("times", "median_s"), "a step takes longer than a nanosecond"


def _record_faults(record: LabRecord) -> _Faults:
    """What is wrong with a record besides the data of its result."""
    yield from strange_numbers(record.seconds, ("seconds",))
    if record.link is not None:
        yield from strange_numbers(record.link.model_dump(), ("link",))
    if record.result is not None and record.result.kind == "lab":
        yield ("result", "kind"), "a lab does not run inside a lab"
    if record.predicted is None:
        return
    try:
        forecast = Forecast.model_validate(record.predicted)
    except ValidationError as error:
        yield from ((("predicted", *keys), message) for keys, message in faults_of(error, Forecast))
        return
    yield from strange_numbers(forecast.model_dump(), ("predicted",))
    if not forecast.step_s >= _SHORTEST_STEP_S:
        yield ("predicted", "step_s"), "a step takes longer than a nanosecond"
    if record.result is not None and record.result.kind != "step":
        yield ("predicted",), "only a step is predicted"


_GZIP: Final = b"\x1f\x8b"


def is_program(path: Path) -> bool:
    """True for what `syncwall capture` writes; nothing else that reports take is compressed."""
    with opened(path) as stream:
        return stream.read(len(_GZIP)) == _GZIP


@dataclass(frozen=True)
class ReportRequest:
    """A run or a job to report on."""

    file: str
    text: str
    run: Run
    job: Job | None = None


def read_any(path: Path) -> Source | ReportRequest:
    """The result, the run or the job in the file at `path`; InputError says what is wrong."""
    value = read_document(path).value
    if _is_answer(value):
        raise InputError.of(
            "is what `predict --json` printed: write the run file or the job file instead, the "
            "report computes it again",
            file=str(path),
        )
    return read_stated(path) if _is_stated(value) else read_source(path)


def read_stated(path: Path) -> ReportRequest:
    """The run or the job in the file at `path`."""
    file = RunFile(path)
    file.run(sections=True)  # refuses a site, which a report does not take
    run = StatedRun.of_file(file).run()
    return ReportRequest(str(path), read_text(path), run, file.job(run))


def _is_stated(value: Any) -> bool:
    """True for a run file and a job file; a result has a kind and data."""
    if not isinstance(value, dict) or {"kind", "data"} & set(value):
        return False
    return "run" in value or bool({"model", "cluster"} & set(value))


def _is_answer(value: Any) -> bool:
    return isinstance(value, dict) and {"verdict", "ledger_s", "run"} <= set(value)


@dataclass(frozen=True)
class PlacedStep:
    """One measured step, and where it ran."""

    what: str
    """Model and sharing."""
    hosts: int
    world: int
    data: StepData
    rate_bytes_per_s: float | None = None
    """Of the links between hosts; None if there are none, or if nobody knows."""
    compared: Compared | None = None
    """None if it was not predicted."""
    again: int = 0
    """How often the same had run before."""

    @property
    def measured_s(self) -> float:
        """Median step."""
        return self.data.times.median_s

    @property
    def predicted_s(self) -> float | None:
        """Predicted step."""
        return self.compared.predicted.step_s if self.compared else None

    @property
    def exposed_share(self) -> float:
        """Share of the step that waits for communication."""
        return ledger_groups(self.data.ledger_s)[EXPOSED] / self.measured_s

    @property
    def link(self) -> str:
        """Rate of the links, or nothing."""
        return rate_text(self.rate_bytes_per_s) if self.rate_bytes_per_s else ""

    @property
    def label(self) -> str:
        """Place and rate, and the round if it is not the first."""
        link = f" · {self.link}" if self.link else ""
        again = f" ({self.again + 1})" if self.again else ""
        return f"{self.hosts}x{self.world / self.hosts:g}{link}{again}"


def measured_steps(result: Result, data: Data) -> list[PlacedStep]:
    """The measured steps of a lab, or the one of `measure step`; equal ones together."""
    if isinstance(data, StepData):
        model = result.settings.get("model")
        name = model.get("name", "") if isinstance(model, dict) else ""
        what = f"{name} {result.settings.get('shard', '')}".strip() or "step"
        return [PlacedStep(what, len(result.job.host_names), result.job.world, data)]
    found: dict[str, list[PlacedStep]] = {}
    for record in data.records if isinstance(data, LabResult) else ():
        if record.result is not None and record.result.kind == "step":
            what, topology = step_label(record.job), record.topology
            rate = float(topology.rate_bytes_per_s) if topology.hosts > 1 else None
            step = StepData.model_validate(record.result.data)
            row = next(iter(predicted_steps([record]).rows), None)
            found.setdefault(what, []).append(
                PlacedStep(what, topology.hosts, topology.world, step, rate, row, record.round)
            )
    return [step for equal in found.values() for step in equal]


def fastest_s(steps: Sequence[PlacedStep]) -> dict[tuple[str, int], float]:
    """By work and number of workers, the shortest step."""
    return {key: min(one.measured_s for one in group) for key, group in comparable_steps(steps).items()}


def comparable_steps(steps: Sequence[PlacedStep]) -> dict[tuple[str, int], list[PlacedStep]]:
    """Steps of the same work and number of workers."""
    groups: dict[tuple[str, int], list[PlacedStep]] = defaultdict(list)
    for step in steps:
        groups[step.what, step.world].append(step)
    return groups


_PROPOSALS: Final = 5
_WALL, _FINISH, _CHANGES = 0.3, 0.2, 0.5
"""Shares of the work."""


@dataclass(frozen=True)
class Answered:
    """A run, a job or a recorded program, and all that there is to say of it."""

    file: str
    text: str
    """Of the file; empty for a program."""
    prediction: Prediction
    proposals: list[Improvement]
    wall: SyncWall | None
    no_wall: str = ""
    """Why there is no wall."""
    completion: Completion | None = None
    changes: list[JobChange] = field(default_factory=list)

    @property
    def start(self) -> Reference:
        """The run whose GPUs grow."""
        return Reference(self.prediction)


def report_answers(stated: ReportRequest, progress: Callable[[float], None] = lambda share: None) -> Answered:
    """The answers to `stated`; no layout is searched for, so that it takes about a second."""
    prediction = predict(stated.run)
    proposals = improvements(prediction, _PROPOSALS)
    found = Answered(stated.file, stated.text, prediction, proposals, *_wall(prediction))
    if stated.job is None:
        return found
    progress(_WALL)
    completion = finish(stated.job, prediction, progress=lambda share: progress(_WALL + _FINISH * share))
    others = job_changes(completion, lambda share: progress(_WALL + _FINISH + _CHANGES * share))
    return replace(found, completion=completion, changes=others)


def answered_program(path: Path, cluster: Cluster) -> Answered:
    """The program in the file at `path`, on `cluster`."""
    prediction = predict(read_program(path), cluster=cluster)
    return Answered(str(path), "", prediction, prediction.improvements, *_wall(prediction))


def _wall(prediction: Prediction) -> tuple[SyncWall | None, str]:
    """The sync wall, or why there is none."""
    try:
        wall = wall_of(Reference(prediction), searching=False)
    except InputError as error:
        return None, str(error)
    if not prediction.is_recorded and all(len(side.curve.gpus) < 2 for side in wall.sides.values()):
        return None, "this machine cannot have more GPUs than that"
    return wall, ""
