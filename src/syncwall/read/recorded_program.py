"""Reads a recorded program, as `syncwall capture` writes it.

Names, tasks, streams and places stand in lists, calls have their numbers. Whatever is the same in
every round of a block (`work.program`) is written once.

The file may be a stranger's: every number is checked before it is used.
"""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import is_dataclass
from functools import cache
from io import BytesIO
from itertools import accumulate, chain
from math import isfinite
from pathlib import Path
from typing import Annotated, Any, Final, Literal, get_args, get_origin, get_type_hints

import numpy as np
from numpy.typing import NDArray
from pydantic import BaseModel, ConfigDict, FailFast, Field, ValidationError

from syncwall.describe.choice import Dtype
from syncwall.problems import InputError
from syncwall.read.limited import MOST_VALUES, LimitedStream, UnpackLimits, limited, open_limited, whole_json
from syncwall.work.block import AnyTask, StepPhase
from syncwall.work.operations import (
    Collective,
    Convolution,
    CoreAttention,
    Elementwise,
    Gemm,
    Group,
    GroupAxis,
    Kernel,
    Message,
    Offload,
    Transfer,
)
from syncwall.work.program import (
    Call,
    FoldedBlock,
    Held,
    HeldKind,
    Note,
    NoteKind,
    Program,
    RankProgram,
    ShardedUnit,
    SourceLocation,
)

FORMAT: Final = "syncwall program"
VERSION: Final = 1
NO_TASK: Final = -1
"""Instead of the number of a task, where the host waits and nothing runs."""
MOST_CALLS: Final = 1_000_000
MOST_CALLS_OF_STRANGERS: Final = 20_000
"""Each is priced, with all that could be changed, in about 0.1 ms."""
_VALUES_OF_A_CALL: Final = 20
"""Numbers and words that a file may have for each call that is allowed; those of captured programs have 4 to
10."""
TASKS: Final[dict[str, type[Any]]] = {
    "gemm": Gemm,
    "attention": CoreAttention,
    "convolution": Convolution,
    "elementwise": Elementwise,
    "kernel": Kernel,
    "collective": Collective,
    "message": Message,
    "offload": Offload,
    "transfer": Transfer,
}

_SHAPED: Final = ("attention", "convolution")
"""Whose every stated dimension is above 0."""
_AT_LEAST_ONE: Final = ("calls", "copies", "domains")
"""Counts of a collective."""
_MOST: Final = 2**53
_MOST_SUM: Final = 2.0**61
"""Of numbers in arrays; larger ones are summed without a limit."""
_Count = Annotated[int, Field(ge=0, le=_MOST)]
_Size = Annotated[float, Field(ge=0, allow_inf_nan=False)]
_Counts = Annotated[list[_Count], FailFast()]
_Change = Annotated[int, Field(ge=-_MOST, le=_MOST)]
_Changes = Annotated[list[Annotated[list[_Change], FailFast()]], FailFast()]
_Rows = Annotated[list[Annotated[list[Any], FailFast()]], FailFast()]
_Words = Annotated[list[str], FailFast()]


class _Strict(BaseModel):
    model_config = ConfigDict(strict=True, extra="forbid", frozen=True)


class RankFile(_Strict):
    """A `RankProgram`. Columns with one entry a call of the first round of each block: `name`,
    `task`, `stream`, `phase` and `after`; with one a call: `where`, `reads` and `writes`.
    """

    rank: _Count
    alike: Annotated[int, Field(ge=1, le=_MOST)]
    blocks: _Rows
    """Length and rounds of each."""
    name: _Counts
    task: Annotated[list[_Change], FailFast()]
    stream: _Counts
    phase: _Counts
    after: Annotated[list[_Counts], FailFast()]
    """How many calls back the awaited ones are."""
    host_waits: _Counts
    """Entries of the columns at which the host waits."""
    where: _Changes
    """Place and micro batch."""
    reads: _Changes
    writes: _Changes
    tensor_bytes: Annotated[list[_Size], FailFast()]
    kept: _Counts
    """Distances from one kept tensor to the next."""
    held: _Rows
    """Kind, module and bytes."""
    buffers: Annotated[list[_Counts], FailFast()] = Field(default_factory=list)
    """Number of a tensor, and number of the unit of FSDP that it is for."""


class ProgramFile(_Strict):
    """A `Program`."""

    format: Literal["syncwall program"] = FORMAT
    version: Literal[1] = VERSION
    world_size: Annotated[int, Field(ge=1, le=_MOST)]
    command: str
    torch: str
    samples: _Size
    tokens: _Size
    parameters: _Size
    compiled: bool
    names: _Words
    streams: _Words
    phases: _Words
    places: _Rows
    """Module and source line."""
    groups: _Rows
    """Axis, ranks and stride."""
    tasks: _Rows
    """A word of `TASKS`, and the fields that do not have their default."""
    units: _Rows = Field(default_factory=list)
    """Units of FSDP: for each parameter its size along the sharded dimension, and elements a step.
    """
    notes: _Rows
    """Kind, what, number of the place, count, FLOP, bytes and useful bytes."""
    ranks: Annotated[list[RankFile], Field(min_length=1), FailFast()]


Rows = Sequence[Sequence[int]]


def residuals(rows: Rows, blocks: Iterable[FoldedBlock]) -> list[list[int]]:
    """What is left of every number of a call without what the rounds before let expect."""
    return [
        [value - guess for value, guess in zip(row, _expected(rows, at, length, turn, len(row)))]  # noqa: B905 - guesses never end
        for at, length, turn in _turns(blocks)
        for row in (rows[at],)
    ]


def sums(changes: Rows, blocks: Iterable[FoldedBlock]) -> list[Sequence[int]]:
    """The numbers whose `residuals` these are; IndexError if there are too few of them."""
    rows: list[Sequence[int]] = []
    for block in blocks:
        first = FoldedBlock(block.start, block.length)
        quick = _later_rounds(changes, block)
        for at, length, turn in _turns([block if quick is None else first]):
            change = changes[at]
            guesses = _expected(rows, at, length, turn, len(change))
            rows.append([value + guess for value, guess in zip(change, guesses)])  # noqa: B905
        if quick is not None:
            rows += _unrolled(rows[block.start :], quick)
    return rows


def _later_rounds(changes: Rows, block: FoldedBlock) -> NDArray[np.int64] | None:
    """Changes of every round but the first, one row each; None where rounds are not alike in shape."""
    later = changes[block.start + block.length : block.end]
    widths = list(map(len, changes[block.start : block.start + block.length]))
    if not later or list(map(len, later)) != widths * (block.rounds - 1):
        return None
    found = np.array(list(chain.from_iterable(later)), dtype=np.int64).reshape(block.rounds - 1, sum(widths))
    return found if float(np.abs(found).max(initial=0)) * block.rounds**2 < _MOST_SUM else None


def _unrolled(first: Sequence[Sequence[int]], changes: NDArray[np.int64]) -> list[Sequence[int]]:
    """The rows of later rounds: each goes on as the two rounds before, and by its change."""
    start = np.array(list(chain.from_iterable(first)), dtype=np.int64)
    ends = list(accumulate(map(len, first)))
    bounds = list(zip([0, *ends[:-1]], ends, strict=True))
    rows: list[Sequence[int]] = []
    for values in (start + np.cumsum(np.cumsum(changes, axis=0), axis=0)).tolist():
        rows += [values[begin:end] for begin, end in bounds]
    return rows


def _turns(blocks: Iterable[FoldedBlock]) -> Iterator[tuple[int, int, int]]:
    """Every call, the length of its block, and the round that it belongs to."""
    for block in blocks:
        for offset in range(block.length * block.rounds):
            yield block.start + offset, block.length, offset // block.length


def _expected(rows: Rows, at: int, length: int, turn: int, count: int) -> list[int]:
    """`count` guesses for call `at`: on from the last two rounds, else from the call before."""
    last = rows[at - length] if turn else rows[at - 1] if at else ()
    before = rows[at - 2 * length] if turn > 1 else last
    found = []
    for slot in range(count):
        if slot < len(last) and slot < len(before):
            found.append(2 * last[slot] - before[slot])
        else:
            found.append(found[-1] if found else last[-1] if last else 0)
    return found


_Entry = tuple[str, AnyTask | None, str, StepPhase, bool]
_LIMITS: Final = UnpackLimits(raw_bytes=64 << 20, ratio=1100.0)


def read_program(path: Path | str) -> Program:
    """The program in the file at `path`; InputError says what is wrong with it.

    Example:
        >>> import syncwall as sw
        >>> sw.read_program("examples/capture/hybrid.work.json.gz")
        Program('hybrid.py --batch 64', world_size=256, calls=...)
    """
    return _read(open_limited(path, _LIMITS), path, MOST_CALLS)


def program_in(data: bytes, name: str) -> Program:
    """The program in the bytes of a stranger's file; `name` is what messages call it."""
    return _read(limited(BytesIO(data), name, _LIMITS), name, MOST_CALLS_OF_STRANGERS)


def _read(opened: LimitedStream, path: Path | str, most_calls: int) -> Program:
    with opened as stream:
        raw = stream.read()
        if stream.problem is not None:
            raise InputError([stream.problem])
    most_values = min(_VALUES_OF_A_CALL * most_calls, MOST_VALUES)
    value = whole_json(raw, str(path), "a recorded program", most_values)
    if not isinstance(value, dict) or value.get("format") != FORMAT:
        raise InputError.of("is not a recorded program; `syncwall capture` writes one", file=str(path))
    if value.get("version") != VERSION:
        raise InputError.of(
            f"has version {str(value.get('version'))[:20]} of the format, this syncwall reads "
            f"{VERSION}: record it again",
            file=str(path),
        )
    try:
        file = ProgramFile.model_validate(value)
        calls = sum(block.length * block.rounds for one in file.ranks for block in _blocks(one))
        if calls > most_calls:
            aside = "" if most_calls == MOST_CALLS else ": give it to `syncwall predict --work`"
            raise InputError.of(f"has {calls:,} calls, {most_calls:,} are taken here{aside}", file=str(path))
        return _Parts(file).program()
    except ValidationError as error:
        fault = error.errors(include_url=False, include_input=False)[0]
        where = ".".join(str(part) for part in fault["loc"])
        raise InputError.of(f"is damaged: {where}: {fault['msg']}", file=str(path)) from None
    except (ValueError, TypeError, KeyError, IndexError, OverflowError) as error:
        raise InputError.of(f"is damaged: {str(error)[:120]}", file=str(path)) from None


class _Parts:
    """What the calls of a file share."""

    def __init__(self, file: ProgramFile) -> None:
        self.file = file
        self.phases = [StepPhase(word) for word in file.phases]
        self.places = [SourceLocation(_text(module), _text(source)) for module, source in file.places]
        self.groups = [_group(row) for row in file.groups]
        self.tasks = [self._task(row) for row in file.tasks]
        self.units = [_unit(row) for row in file.units]

    def program(self) -> Program:
        file = self.file
        return Program(
            file.world_size,
            tuple(map(self._rank, file.ranks)),
            file.command,
            file.torch,
            file.samples,
            file.tokens,
            file.parameters,
            tuple(map(self._note, file.notes)),
            file.compiled,
        )

    def _rank(self, one: RankFile) -> RankProgram:
        kept, last = set(), 0
        for step in one.kept:
            last += step
            kept.add(last)
        if kept:
            _check(last, one.tensor_bytes, "tensor")
        held = tuple(_held(row) for row in one.held)
        sizes = tuple(one.tensor_bytes)
        buffers = tuple(
            (_check(tensor, sizes, "tensor"), self.units[_check(unit, self.units, "unit")])
            for tensor, unit in one.buffers
        )
        return RankProgram(one.rank, one.alike, self._calls(one), sizes, held, frozenset(kept), buffers)

    def _calls(self, one: RankFile) -> tuple[Call, ...]:
        blocks = _blocks(one)
        where, reads, writes = (sums(rows, blocks) for rows in (one.where, one.reads, one.writes))
        for rows in (reads, writes):
            _check_numbers(chain.from_iterable(rows), one.tensor_bytes, "tensor")
        places, micro_batches = zip(*where, strict=True) if where else ((), ())
        _check_numbers(places, self.places, "place")
        if min(micro_batches, default=0) < 0:
            raise ValueError("a micro batch has a number below zero")
        entries = self._entries(one, sum(block.length for block in blocks))
        calls: list[Call] = []
        begin = 0
        for block in blocks:
            for offset in range(block.length):
                if block.start + offset < max(entries[begin + offset][1], default=0):
                    raise ValueError(f"call {block.start + offset} waits for one before the first")
            for at in range(block.start, block.end):
                call, back = entries[begin + (at - block.start) % block.length]
                after = tuple([at - other for other in back]) if back else ()
                place, used = self.places[places[at]], (tuple(reads[at]), tuple(writes[at]))
                calls.append(Call(*call[:3], after, call[3], place, *used, call[4], micro_batches[at]))
            begin += block.length
        return tuple(calls)

    def _entries(self, one: RankFile, count: int) -> list[tuple[_Entry, list[int]]]:
        """What is the same in each round of a call, and how many calls back it waits for."""
        file, host_waits = self.file, set(one.host_waits)
        columns = zip(one.name, one.task, one.stream, one.phase, one.after, strict=True)
        found: list[tuple[_Entry, list[int]]] = []
        for at, (name, task, stream, phase, back) in enumerate(columns):
            if task < NO_TASK or 0 in back:
                raise ValueError(f"entry {at} has task {task} and waits for {back[:9]} calls back")
            what = None if task == NO_TASK else self.tasks[task]
            words = file.names[name], what, file.streams[stream], self.phases[phase]
            found.append(((*words, at in host_waits), back))
        if len(found) != count:
            raise ValueError(f"{len(found)} entries in columns for {count}")
        return found

    def _task(self, row: Sequence[Any]) -> AnyTask:
        kind, given = row
        hints = _hints(kind)
        if kind in _SHAPED and any(value == 0 and type(value) is not bool for value in given.values()):
            raise ValueError(f"{kind} of nothing: {given}")
        if kind == "collective" and any(_size(given.get(name, 1)) < 1 for name in _AT_LEAST_ONE):
            raise ValueError(f"a collective of less than one: {given}")
        task: AnyTask = TASKS[kind](
            **{name: self._field(hints[name], value) for name, value in given.items()}
        )
        return task

    def _field(self, hint: Any, value: Any) -> Any:
        if hint is Group:
            return self.groups[_check(value, self.groups, "group")]
        if any(isinstance(one, type) and is_dataclass(one) for one in get_args(hint)):
            raise ValueError("what only a description has")
        return _typed(hint, value)

    def _note(self, row: Sequence[Any]) -> Note:
        kind, what, place, count, *sizes = row
        flops, moved, useful = (_size(size) for size in sizes)
        at = self.places[_check(place, self.places, "place")]
        return Note(NoteKind(kind), _text(what), at, _typed(int, count), flops, moved, useful)


def _blocks(one: RankFile) -> list[FoldedBlock]:
    blocks, start = [], 0
    for row in one.blocks:
        length, rounds = (_typed(int, value) for value in row)
        if not length * rounds:
            raise ValueError("a block without calls")
        blocks.append(FoldedBlock(start, length, rounds))
        start = blocks[-1].end
    return blocks


def _group(row: Sequence[Any]) -> Group:
    axis, ranks, stride = row
    if _size(ranks) < 1:
        raise ValueError("a group without ranks")
    return Group(_typed(GroupAxis, axis), ranks, _size(stride))


def _unit(row: Sequence[Any]) -> ShardedUnit:
    return ShardedUnit(tuple((_typed(int, size), _typed(int, each)) for size, each in row))


def _held(row: Sequence[Any]) -> Held:
    kind, module, size = row
    return Held(HeldKind(kind), _text(module), _size(size))


@cache
def _hints(kind: str) -> dict[str, Any]:
    return get_type_hints(TASKS[kind])


def _typed(hint: Any, value: Any) -> Any:
    """`value`, if the type of a field allows it; numbers are never negative."""
    if hint is Dtype:
        return Dtype(value)
    if get_origin(hint) is Literal:
        if value not in get_args(hint):
            raise ValueError(f"unknown word {value!r}")
        return value
    if hint is str:
        return _text(value)
    if hint is bool or hint is int:
        if type(value) is not hint or value < 0:
            raise ValueError(f"{value!r} is not {'true or false' if hint is bool else 'a count'}")
        return value
    return None if value is None and type(None) in get_args(hint) else _size(value)


def _size(value: Any) -> float:
    if type(value) not in (int, float) or not isfinite(value) or value < 0:
        raise ValueError(f"{str(value)[:40]!r} is not a size")
    return value  # type: ignore[no-any-return]


def _text(value: Any) -> str:
    if not isinstance(value, str):
        raise TypeError(f"{str(value)[:40]!r} is not text")
    return value


def _check_numbers(numbers: Iterable[int], things: Sequence[Any], what: str) -> None:
    """All of `numbers` are of things that there are."""
    given = set(numbers)
    if given:
        _check(min(given), things, what)
        _check(max(given), things, what)


def _check(number: Any, things: Sequence[Any], what: str) -> int:
    """`number`, if there is such a thing."""
    if type(number) is not int or not 0 <= number < len(things):
        raise ValueError(f"there is no {what} {str(number)[:40]}")
    return number
