"""A training program as it was recorded: every kernel, collective and wait of one step.

A description becomes a `Work` of repeated blocks for any layout; a program is one list of calls on
named streams for the layout that it was recorded in. Nothing here needs PyTorch.

Calls repeat if name, task, stream, phase and waits do; module, source line and tensors may differ
from round to round.
"""

from collections import Counter
from collections.abc import Hashable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field, fields
from enum import StrEnum
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from syncwall.public import Answer, Late, published
from syncwall.work.block import AnyTask, StepPhase, Work
from syncwall.work.operations import (
    Collective,
    CoreAttention,
    Group,
    GroupAxis,
    Message,
    Transfer,
)

COMPUTE_STREAM = "compute"
"""The stream that everything runs on if the program names no other."""


@dataclass(frozen=True, slots=True)
class SourceLocation:
    """Where in the user's program a call comes from."""

    module: str = ""
    """Name of the module, as `named_modules` has it; empty outside of all."""
    source: str = ""
    """`train.py:41`, the innermost line that is the user's own; empty if there is none."""


NOWHERE = SourceLocation()


@dataclass(frozen=True, slots=True)
class Call:
    """One kernel, collective or message, or the host waiting for the device."""

    name: str
    """As PyTorch calls it: `aten.mm`, `c10d.allgather_base`."""
    what: AnyTask | None
    """None where the host waits, and nothing runs."""
    stream: str = COMPUTE_STREAM
    """Calls of a stream run in order. A collective has the stream of its process group."""
    after: tuple[int, ...] = ()
    """Calls whose end it waits for, besides the call before it on its stream."""
    phase: StepPhase = StepPhase.FORWARD
    place: SourceLocation = NOWHERE
    reads: tuple[int, ...] = ()
    """Numbers of the tensors that it reads; of views, that of the tensor they show."""
    writes: tuple[int, ...] = ()
    host_waits: bool = False
    """The host goes on only when all calls in `after` have ended (`.item()`, `synchronize`)."""
    micro_batch: int = 0
    """Of gradient accumulation, or of a pipeline: which one it belongs to."""

    def awaiting(self, after: tuple[int, ...]) -> "Call":
        """The same one, which waits for other calls; quick, as there are many."""
        if after == self.after:
            return self
        place, reads, writes = self.place, self.reads, self.writes
        rest = (self.phase, place, reads, writes, self.host_waits, self.micro_batch)
        return Call(self.name, self.what, self.stream, after, *rest)


class HeldKind(StrEnum):
    """What bytes on a device are for."""

    WEIGHTS = "weights"
    GRADIENTS = "gradients"
    OPTIMIZER = "optimizer"
    ACTIVATIONS = "activations"
    """Kept from the forward pass for the backward pass."""
    GATHERED = "unsharded weights"
    OTHER = "other"
    """Inputs, temporary tensors."""


@dataclass(frozen=True, slots=True)
class Held:
    """Bytes on the device at the moment when they are most."""

    kind: HeldKind
    module: str
    bytes: float


class NoteKind(StrEnum):
    """What a reader of the answer has to know of a program."""

    UNKNOWN = "unknown operation"
    """Its FLOPs are not known: priced by the bytes that it moves."""
    PLACEHOLDER = "placeholder"
    """A value that only real data would give was made up."""
    CPU_ONLY = "differs on CUDA"
    """On a GPU other kernels do it."""
    PADDED = "padding"
    """A sharded parameter is padded: `bytes` are sent, `useful_bytes` of them are its own."""
    NOT_RECORDED = "not recorded"
    """Something that the program does and the recording leaves out."""


@dataclass(frozen=True, slots=True)
class Note:
    """Something that makes the recording differ from the program on GPUs."""

    kind: NoteKind
    """Why."""
    what: str
    """The operation, the parameter or the value."""
    place: SourceLocation = NOWHERE
    count: int = 1
    """How often."""
    flops: float = 0.0
    bytes: float = 0.0
    useful_bytes: float = 0.0


@dataclass(frozen=True, slots=True)
class ShardedUnit:
    """Parameters that FSDP gathers, and reduces the gradients of, together."""

    parameters: tuple[tuple[int, int], ...]
    """Of each: its size along the dimension that is sharded, and elements for each step along it.
    """

    def shard_elements(self, ranks: float) -> float:
        """Elements on the first of so many ranks."""
        return float(sum(-(-size // ranks) * each for size, each in self.parameters))

    def padded_elements(self, ranks: float) -> float:
        """Elements that are sent: as many for each rank."""
        return ranks * self.shard_elements(ranks)


@published(
    "rank alike operations host_waits model_flops recompute_flops memory_traffic_bytes",
    "communication held_bytes held=held_by_every_kind",
)
@dataclass(frozen=True)
class RankProgram:
    """What one class of equal ranks does in a step."""

    communication = Late("work.program:sent")
    memory_traffic_bytes = Late("work.program:memory_traffic_bytes")
    rank: int
    """The rank that was recorded."""
    alike: int
    """Ranks that do the same, this one among them."""
    calls: tuple[Call, ...]
    tensor_bytes: tuple[float, ...] = ()
    """Bytes of each tensor that calls read or write, by its number."""
    held: tuple[Held, ...] = ()
    """All that is on the device when it is fullest."""
    kept: frozenset[int] = field(default_factory=frozenset)
    """Tensors that outlive the step, or are kept from the forward pass for the backward pass:
    whatever fuses kernels, they are written to memory."""
    buffers: tuple[tuple[int, ShardedUnit], ...] = ()
    """Tensors that FSDP gathers weights into, or reduces gradients from, with what is in them."""

    def __iter__(self) -> Iterator[Call]:
        return iter(self.calls)

    @property
    def operations(self) -> int:
        """Kernels."""
        return sum(hasattr(call.what, "hbm_bytes") for call in self)

    @property
    def host_waits(self) -> int:
        """Times that the host waits for the device, such as for `.item()`."""
        return sum(call.host_waits for call in self)

    @property
    def held_by_every_kind(self) -> dict[str, float]:
        """By what it is for: weights, gradients, optimizer, activations, ..."""
        return dict.fromkeys(map(str, HeldKind), 0.0) | self.held_by_kind

    @property
    def held_bytes(self) -> float:
        """Bytes on the device when it is fullest."""
        return sum(one.bytes for one in self.held)

    @property
    def held_by_kind(self) -> dict[str, float]:
        """The same by what they are for; only what there is."""
        found: dict[str, float] = {}
        for one in self.held:
            found[one.kind] = found.get(one.kind, 0.0) + one.bytes
        return found

    @property
    def model_flops(self) -> float:
        """FLOP of the mathematics on this rank."""
        return sum(_model_flops(call) for call in self.calls if call.phase is not StepPhase.RECOMPUTE)

    @property
    def recompute_flops(self) -> float:
        """FLOP done a second time."""
        return sum(_model_flops(call) for call in self.calls if call.phase is StepPhase.RECOMPUTE)


def _model_flops(call: Call) -> float:
    if isinstance(call.what, CoreAttention):
        return float(call.what.model_flops)
    return float(getattr(call.what, "flops", 0.0))


@dataclass(frozen=True, repr=False)
class Program(Answer):
    """One optimizer step of a user's own program, recorded without a GPU."""

    world_size: int
    """Ranks of the job."""
    ranks: tuple[RankProgram, ...]
    """One for each class of equal ranks: the stages of a pipeline, else one."""
    command: str = ""
    """What was run."""
    torch: str = ""
    """Version of PyTorch."""
    samples: float = 0.0
    """Samples of the step, all ranks together; 0 if nobody knows."""
    tokens: float = 0.0
    """Tokens of the step, all ranks together; 0 if the inputs are no tokens."""
    parameters: float = 0.0
    """Of the whole model."""
    notes: tuple[Note, ...] = ()
    compiled: bool = False
    """The program asks for `torch.compile`; it was recorded eagerly all the same."""
    noted = Late("work.program:noted_shares")
    _captured = Late("work.program:CapturedStep")

    def view(self, **how: Any) -> Any:
        """The blocks of what was recorded."""
        return self._captured.view(**how)

    def to_dict(self) -> dict[str, Any]:
        """What was recorded as plain data."""
        found: dict[str, Any] = self._captured.to_dict()
        return found

    def __repr__(self) -> str:
        calls = sum(len(one.calls) for one in self.ranks)
        return f"Program({self.command!r}, world_size={self.world_size}, calls={calls})"

    @property
    def model_flops(self) -> float:
        """FLOP of the mathematics, all ranks together."""
        return sum(one.model_flops * one.alike for one in self.ranks)

    @property
    def recompute_flops(self) -> float:
        """FLOP done a second time, all ranks together."""
        return sum(one.recompute_flops * one.alike for one in self.ranks)


def whole_step(program: Program) -> Work:
    """What can be said of the step as a whole; it has no blocks that could be done otherwise."""
    none = Transfer(0.0, Group("pp", 1))
    flops, again = program.model_flops, program.recompute_flops
    return Work((), 1, none, flops, again, program.tokens, program.world_size)


NOTABLE: Final = 0.05
"""Share of a step from which on a verdict says that it is not known."""
NOT_KNOWN: Final = (NoteKind.UNKNOWN, NoteKind.PLACEHOLDER, NoteKind.NOT_RECORDED)
"""Notes about work whose price is made up."""


@dataclass(frozen=True, slots=True)
class Sent:
    """Equal communication of one rank in a step."""

    kind: str
    """A collective, or "message"."""
    axis: GroupAxis
    """What the group is for; "pp" for messages."""
    ranks: float
    """Ranks of the group."""
    calls: int
    """In the step."""
    bytes: float
    """Together: the size that nccl-tests prints, summed."""


def sent(calls: Iterable[Call]) -> list[Sent]:
    """All communication by kind and group, most bytes first."""
    found: dict[tuple[str, GroupAxis, float], tuple[int, float]] = {}
    for call in calls:
        what = call.what
        key: tuple[str, GroupAxis, float]
        if isinstance(what, Collective):
            key = (what.kind, what.group.axis, float(what.group.ranks))
        elif isinstance(what, Message):
            key = ("message", "pp", 2.0)
        else:
            continue
        count, moved = found.get(key, (0, 0.0))
        found[key] = count + 1, moved + float(what.bytes)
    rows = (Sent(*key, count, moved) for key, (count, moved) in found.items())
    return sorted(rows, key=lambda one: -one.bytes)


def memory_traffic_bytes(calls: Iterable[Call]) -> float:
    """Bytes that all kernels together read and write."""
    return float(sum(getattr(call.what, "hbm_bytes", 0.0) for call in calls))


@published(
    "kind=note.kind what=note.what module=note.place.module source=note.place.source",
    "count=note.count flops_share=flops bytes_share=bytes",
)
@dataclass(frozen=True, slots=True)
class NotedShare:
    """Something that makes the recording differ from the program on GPUs, and of how much."""

    note: Note
    flops: float
    """Share of the FLOPs."""
    bytes: float
    """Share of the memory traffic; of padding, of what is sent."""

    @property
    def largest(self) -> float:
        """The larger one."""
        return max(self.flops, self.bytes)


def noted_shares(program: Program) -> list[NotedShare]:
    """All notes of a program, those about the most of it first."""
    flops = sum(one.model_flops + one.recompute_flops for one in program.ranks)
    moved = sum(memory_traffic_bytes(one) for one in program.ranks)
    communicated = sum(row.bytes for one in program.ranks for row in sent(one))
    found = []
    for note in program.notes:
        if note.kind is NoteKind.PADDED:
            shares = 0.0, _share(note.bytes - note.useful_bytes, communicated)
        else:
            shares = _share(note.flops, flops), _share(note.bytes, moved)
        found.append(NotedShare(note, *shares))
    return sorted(found, key=lambda one: -one.largest)


def unknown_share(program: Program) -> float:
    """Share of a step that is unknown, made up or left out: of FLOPs or bytes, if that is more."""
    doubtful = [one for one in noted_shares(program) if one.note.kind in NOT_KNOWN]
    flops, moved = sum(one.flops for one in doubtful), sum(one.bytes for one in doubtful)
    return min(max(flops, moved), 1.0)


def _share(part: float, whole: float) -> float:
    return part / whole if whole else 0.0


@published(
    "command=program.command torch=program.torch compiled=program.compiled",
    "world_size=program.world_size parameters=program.parameters samples=program.samples",
    "tokens=program.tokens model_flops=program.model_flops ranks=program.ranks",
    "notes=program.noted file seconds",
)
@dataclass(frozen=True)
class CapturedStep(Answer):
    """One optimizer step of a user's own program, just recorded."""

    verb = "capture"
    program: Program
    file: str = ""
    """Where it was written; empty if nowhere."""
    seconds: float | None = None
    """That recording took; None if nobody measured it."""


_LEAST_SAVED: Final = 16
"""Calls that a repetition must save: shorter ones only cut a list into crumbs."""
_MOST_PERIODS: Final = 128


@dataclass(frozen=True, slots=True)
class FoldedBlock:
    """`length` calls from number `start` on, `rounds` times one after the other."""

    start: int
    length: int
    rounds: int = 1

    @property
    def end(self) -> int:
        """The number of the first call behind it."""
        return self.start + self.length * self.rounds


def folded(calls: Sequence[Call]) -> tuple[FoldedBlock, ...]:
    """Blocks that together are all calls, in their order; what repeats nothing has one round.

    The repetition that saves most calls is taken first, then that before and behind it.
    """
    numbers: dict[Hashable, int] = {}
    keys = np.array([numbers.setdefault(_key(call, at), len(numbers)) for at, call in enumerate(calls)], int)
    found, todo = [], [(0, len(calls))] if calls else []
    while todo:
        start, end = todo.pop()
        best = _best(keys[start:end], start)
        if best is None:
            found.append(FoldedBlock(start, end - start))
            continue
        found.append(best)
        todo += [part for part in ((start, best.start), (best.end, end)) if part[0] < part[1]]
    return tuple(sorted(found, key=lambda block: block.start))


def task_value(task: AnyTask | None) -> Hashable:
    """What is equal for equal tasks; a `Group` is equal to itself alone."""
    if not isinstance(task, Collective | Transfer):
        return task
    group = task.group
    rest = tuple(getattr(task, one.name) for one in fields(task) if one.name != "group")
    return type(task), rest, group.axis, group.ranks, group.stride


def _key(call: Call, at: int) -> Hashable:
    waits = tuple(at - other for other in call.after)
    return call.name, task_value(call.what), call.stream, call.phase, call.host_waits, waits


def _best(keys: NDArray[Any], start: int) -> FoldedBlock | None:
    """The repetition within `keys` that saves most calls; None if none saves enough."""
    best, most = None, _LEAST_SAVED - 1
    for period in _periods(keys):
        if len(keys) - period <= most:
            continue
        at, run = _longest_run(keys[period:] == keys[:-period])
        rounds = run // period + 1
        if (rounds - 1) * period > most:
            best, most = FoldedBlock(start + at, period, rounds), (rounds - 1) * period
    return best


def _periods(keys: NDArray[Any]) -> list[int]:
    """Distances from a call to the next of its kind: the most frequent ones, short ones first.

    What a layer does once comes again after just one period.
    """
    order = np.argsort(keys, kind="stable")
    again = keys[order[1:]] == keys[order[:-1]]
    counted = Counter(np.diff(order)[again].tolist())
    return sorted(period for period, _ in counted.most_common(_MOST_PERIODS))


def _longest_run(same: NDArray[Any]) -> tuple[int, int]:
    """Where the longest run of True begins, and its length."""
    edges = np.flatnonzero(np.diff(np.concatenate(([False], same, [False])).astype(np.int8)))
    if not len(edges):
        return 0, 0
    lengths = edges[1::2] - edges[::2]
    at = int(np.argmax(lengths))
    return int(edges[2 * at]), int(lengths[at])
