"""Writes a recorded program as `run.work.json.gz`.

Holds `write_program`; `read.recorded_program` reads it again.
"""

import gzip
from collections.abc import Hashable, Iterator, Sequence
from dataclasses import MISSING, fields
from pathlib import Path
from typing import Any

from syncwall.documents import write_whole
from syncwall.problems import InputError
from syncwall.read.recorded_program import MOST_CALLS, NO_TASK, TASKS, ProgramFile, RankFile, residuals
from syncwall.work.block import AnyTask, StepPhase
from syncwall.work.operations import Group
from syncwall.work.program import (
    Call,
    FoldedBlock,
    Program,
    RankProgram,
    ShardedUnit,
    SourceLocation,
    folded,
    task_value,
)

_WORDS = {kind: word for word, kind in TASKS.items()}
_PHASES = list(StepPhase)


def write_program(program: Program, path: Path | str) -> None:
    """Write `program` to `path`, which is replaced as a whole; the same bytes each time.

    Example:
        >>> import syncwall as sw
        >>> program = sw.read_program("examples/capture/hybrid.work.json.gz")
        >>> sw.write_program(program, "mine.work.json.gz")
    """
    path = Path(path)
    if sum(len(one.calls) for one in program.ranks) > MOST_CALLS:
        raise InputError.of(f"a program of over {MOST_CALLS:,} calls is not kept", file=str(path))
    text = _Lists().file(program).model_dump_json()
    write_whole(path, gzip.compress(text.encode(), 9, mtime=0))


class _Lists:
    """Everything that calls share, each once."""

    def __init__(self) -> None:
        self.names: dict[str, int] = {}
        self.streams: dict[str, int] = {}
        self.places: dict[SourceLocation, int] = {}
        self.groups: dict[tuple[Any, ...], int] = {}
        self.tasks: dict[Hashable, int] = {}
        self.units: dict[ShardedUnit, int] = {}
        self.task_rows: list[list[Any]] = []

    def file(self, program: Program) -> ProgramFile:
        """All of it."""
        ranks = [self._rank(one) for one in program.ranks]
        notes = [
            [
                str(note.kind),
                note.what,
                _number(self.places, note.place),
                note.count,
                _whole(note.flops),
                _whole(note.bytes),
                _whole(note.useful_bytes),
            ]
            for note in program.notes
        ]
        return ProgramFile(
            world_size=program.world_size,
            command=program.command,
            torch=program.torch,
            samples=_whole(program.samples),
            tokens=_whole(program.tokens),
            parameters=_whole(program.parameters),
            compiled=program.compiled,
            names=list(self.names),
            streams=list(self.streams),
            phases=[str(phase) for phase in _PHASES],
            places=[[place.module, place.source] for place in self.places],
            groups=[list(group) for group in self.groups],
            tasks=self.task_rows,
            units=[[list(pair) for pair in unit.parameters] for unit in self.units],
            notes=notes,
            ranks=ranks,
        )

    def _rank(self, one: RankProgram) -> RankFile:
        blocks = folded(one.calls)
        first = list(_first_rounds(one.calls, blocks))
        kept = sorted(one.kept)
        where = [(_number(self.places, call.place), call.micro_batch) for call in one.calls]
        return RankFile(
            rank=one.rank,
            alike=one.alike,
            blocks=[[block.length, block.rounds] for block in blocks],
            name=[_number(self.names, call.name) for _, call in first],
            task=[self._task(call.what) for _, call in first],
            stream=[_number(self.streams, call.stream) for _, call in first],
            phase=[_PHASES.index(call.phase) for _, call in first],
            after=[[at - other for other in call.after] for at, call in first],
            host_waits=[entry for entry, (_, call) in enumerate(first) if call.host_waits],
            where=residuals(where, blocks),
            reads=residuals([call.reads for call in one.calls], blocks),
            writes=residuals([call.writes for call in one.calls], blocks),
            tensor_bytes=[_whole(size) for size in one.tensor_bytes],
            kept=[value - last for value, last in zip(kept, [0, *kept], strict=False)],
            buffers=[[tensor, _number(self.units, unit)] for tensor, unit in one.buffers],
            held=[[str(held.kind), held.module, _whole(held.bytes)] for held in one.held],
        )

    def _task(self, task: AnyTask | None) -> int:
        if task is None:
            return NO_TASK
        value = task_value(task)
        if value not in self.tasks:
            self.tasks[value] = len(self.tasks)
            self.task_rows.append([_WORDS[type(task)], self._fields(task)])
        return self.tasks[value]

    def _fields(self, task: AnyTask) -> dict[str, Any]:
        values = {one.name: getattr(task, one.name) for one in fields(task)}
        defaults = {one.name: one.default for one in fields(task)}
        return {
            name: self._plain(value)
            for name, value in values.items()
            if defaults[name] is MISSING or value != defaults[name]
        }

    def _plain(self, value: Any) -> Any:
        if isinstance(value, Group):
            return _number(self.groups, (value.axis, _whole(value.ranks), _whole(value.stride)))
        return value if isinstance(value, str | bool) or value is None else _whole(value)


def _first_rounds(calls: Sequence[Call], blocks: Sequence[FoldedBlock]) -> Iterator[tuple[int, Call]]:
    for block in blocks:
        for at in range(block.start, block.start + block.length):
            yield at, calls[at]


def _number(known: dict[Any, int], value: Hashable) -> int:
    return known.setdefault(value, len(known))


def _whole(value: Any) -> Any:
    """The same number without `.0`."""
    return int(value) if float(value).is_integer() else float(value)
