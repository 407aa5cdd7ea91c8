"""Files that `measure` and `lab run` wrote, read, and checked so that nothing later can fail.

Holds `read_source`, `Source`, what the data of a result may be (`Collectives`, `Links`,
`KernelTimes`, `StepData` and `LabData`) with `data_of`, and `loads_of`.
"""

import math
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from pydantic import ConfigDict, ValidationError

from syncwall.describe.base import Description
from syncwall.describe.faults import faults_of
from syncwall.describe.reading import validated
from syncwall.documents import Document, KeyPath, read_document
from syncwall.lab.closed_loop import Forecast
from syncwall.lab.experiment import Fault
from syncwall.lab.run import LabRecord
from syncwall.measure.collectives import CollectiveRow, SkippedKind
from syncwall.measure.kernels import KernelRow
from syncwall.measure.links import LinkRow
from syncwall.measure.load import MachineLoad
from syncwall.measure.overlap import Overlap
from syncwall.measure.result import JobFacts, Result
from syncwall.measure.step import StepData
from syncwall.measure.suspects import Suspect
from syncwall.measure.timing import Times
from syncwall.problems import InputError, Problem

_LARGEST: Final = 1e25
_SHORTEST_STEP_S: Final = 1e-9
_SHORTEST_S: Final = 1e-12
_TIMES: Final = frozenset(Times.model_fields)
_Faults = Iterator[tuple[KeyPath, str]]


class _Data(Description):
    """Data of a result; what a later version adds is ignored."""

    model_config = ConfigDict(extra="ignore")


class Collectives(_Data):
    """Of `measure collectives`."""

    rows: tuple[CollectiveRow, ...]
    skipped: tuple[SkippedKind, ...] = ()
    """What was left out, and why."""


class Links(_Data):
    """Of `measure links`."""

    rows: tuple[LinkRow, ...]
    suspects: tuple[Suspect, ...] = ()
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


class LabData(_Data):
    """Of `lab run`."""

    experiment: ExperimentSetup
    records: tuple[LabRecord, ...]


Data = Collectives | Links | KernelTimes | StepData | LabData
_TYPES: Final[dict[str, type[Description]]] = {
    "collectives": Collectives, "links": Links, "matmul": KernelTimes, "step": StepData,
    "lab": LabData,
}  # fmt: skip


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
    if isinstance(data, LabData):
        for number, record in enumerate(data.records):
            _checked(document, ("data", "records", number), _record_faults(record))
            if record.result is not None:
                _data(record.result, document, ("data", "records", number, "result", "data"))
    return Source(str(path), result, data)


def loads_of(result: Result, data: Data) -> list[MachineLoad | None]:
    """What else the machine did: once, or for each record of a lab."""
    if isinstance(data, LabData):
        return [record.load for record in data.records]
    return [result.load]


def data_of(result: Result) -> Data:
    """The data of a result that has been read and checked."""
    found = _TYPES[result.kind].model_validate(result.data)
    assert isinstance(found, Collectives | Links | KernelTimes | StepData | LabData)
    return found


def _data(result: Result, document: Document, path: KeyPath) -> Data:
    """The data of `result`, which stands at `path`."""
    try:
        data = data_of(result)
    except ValidationError as error:
        found = faults_of(error, _TYPES[result.kind])
        raise InputError(
            [document.problem((*path, *keys), message) for keys, message in found]
        ) from None
    if not isinstance(data, LabData):
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
    if isinstance(data, Collectives):
        for number, row in enumerate(data.rows):
            if row.ranks < 1 or row.bytes < 0:
                yield ("rows", number), "a collective has at least one rank and no negative size"
    if isinstance(data, Links):
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
