"""How a recorded program stands in a file: columns of numbers that layers repeat.

Holds `ProgramFile` and `RankFile`, whose fields are the keys of the JSON, `TASKS`, the words for
kinds of tasks, and `differences` and `sums`, which take from each number what the rounds before it
let expect, and add it again. Names, tasks, streams and places stand in lists, calls have their
numbers. Whatever is the same in every round of a block (`work.folding`) is written once.
"""

from collections.abc import Iterable, Iterator, Sequence
from typing import Annotated, Any, Final, Literal

from pydantic import BaseModel, ConfigDict, FailFast, Field

from syncwall.work.folding import FoldedBlock
from syncwall.work.operations import (
    Collective,
    Convolution,
    CoreAttention,
    Elementwise,
    Gemm,
    Kernel,
    Message,
    Offload,
    Transfer,
)

FORMAT: Final = "syncwall program"
VERSION: Final = 1
NO_TASK: Final = -1
"""Instead of the number of a task, where the host waits and nothing runs."""
MOST_CALLS: Final = 1_000_000
TASKS: Final[dict[str, type[Any]]] = {
    "gemm": Gemm, "attention": CoreAttention, "convolution": Convolution,
    "elementwise": Elementwise, "kernel": Kernel, "collective": Collective, "message": Message,
    "offload": Offload, "transfer": Transfer,
}  # fmt: skip

_MOST: Final = 2**53
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
    ranks: Annotated[list[RankFile], FailFast()]


Rows = Sequence[Sequence[int]]


def differences(rows: Rows, blocks: Iterable[FoldedBlock]) -> list[list[int]]:
    """What is left of every number of a call without what the rounds before let expect."""
    return [
        [value - guess for value, guess in zip(row, _expected(rows, at, length, turn, len(row)))]  # noqa: B905 - guesses never end
        for at, length, turn in _turns(blocks)
        for row in (rows[at],)
    ]


def sums(changes: Rows, blocks: Iterable[FoldedBlock]) -> list[list[int]]:
    """The numbers whose `differences` these are; IndexError if there are too few of them."""
    rows: list[list[int]] = []
    for at, length, turn in _turns(blocks):
        change = changes[at]
        guesses = _expected(rows, at, length, turn, len(change))
        rows.append([value + guess for value, guess in zip(change, guesses)])  # noqa: B905
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
