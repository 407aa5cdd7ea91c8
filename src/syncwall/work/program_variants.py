"""A recorded program with single changes, on other ranks, or as a compiler would run it.

Each rank keeps its batch, so computation stays as it is. What FSDP sends follows from the sizes of
its parameters, which the recording has, padding included; what it copies and the optimizer follow
from the shards. With HSDP the replicas grow, with DDP the whole.

Each call has a level: how many kernels that cannot be joined (multiplications, attention,
convolutions, communication) lie on the longest way to it. Memory-bound kernels of one level that
read what another of them writes, or the same tensor, become one kernel, which reads and writes only
what others need; it takes the traffic that the framework's fused kernels were fitted to take over
that. Ahead of time and without a device it cannot be known what a compiler really joins; see
docs/explanation/capture.md.
"""

from collections import Counter, defaultdict
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from enum import StrEnum
from typing import Final

from syncwall.work.block import StepPhase
from syncwall.work.operations import Collective, Elementwise, Group, Message
from syncwall.work.program import Call, HeldKind, NoteKind, Program, RankProgram

_GROWING: Final = ("dp", "shard", "replica", "other")
_SHARDS: Final = (HeldKind.WEIGHTS, HeldKind.GRADIENTS, HeldKind.OPTIMIZER)
_COPY_IN: Final = "all gather copy in"
"""The stream on which FSDP copies shards into what it sends."""


def why_fixed(program: Program) -> str | None:
    """Why a program cannot be resized; None if it can."""
    if program.world_size == 1:
        return "it has one rank, and no group of ranks that could grow"
    if any(isinstance(call.what, Message) for rank in program.ranks for call in rank):
        return "it is a pipeline: which stages another number of ranks would have is not recorded"
    if len(program.ranks) > 1:
        return "several of its ranks differ"
    return next((why for group in _groups(program) if (why := _why_not(group, program))), None)


def _why_not(group: Group, program: Program) -> str | None:
    """Why a group can neither grow nor stay as it is."""
    if group.axis not in _GROWING:
        return f"its groups of {group.ranks:g} ranks ({group.axis}) split the model"
    if group.ranks == program.world_size:
        unknown = group.axis == "shard" and not program.ranks[0].buffers
        return "which parameters FSDP shards is not in the file: record it again" if unknown else None
    of_shards = max((float(g.ranks) for g in _groups(program) if g.axis == "shard"), default=1.0)
    if group.axis == "shard" or group.ranks * of_shards == program.world_size:
        return None
    return f"what its groups of {group.ranks:g} ranks ({group.axis}) are for is not known"


def shard_ranks(program: Program) -> int:
    """The program can have multiples of so many ranks: the size of its shard group, with HSDP."""
    sizes = [int(group.ranks) for group in _groups(program) if group.ranks < program.world_size]
    return max(sizes, default=1) if any(g.axis == "replica" for g in _groups(program)) else 1


def resized(program: Program, world_size: int) -> Program:
    """`program` on `world_size` ranks, each with the batch that it has; ValueError says why not."""
    if world_size == program.world_size:
        return program
    reason = why_fixed(program)
    if reason is not None:
        raise ValueError(reason)
    if world_size % shard_ranks(program):
        raise ValueError(f"it shards over {shard_ranks(program)} ranks: write multiples of that")
    times = world_size / program.world_size
    rank = _Resized(program, world_size).rank()
    return replace(
        program,
        world_size=world_size,
        ranks=(replace(rank, alike=world_size),),
        samples=program.samples * times,
        tokens=program.tokens * times,
        notes=tuple(note for note in program.notes if note.kind is not NoteKind.PADDED),
    )


def _groups(program: Program) -> Iterator[Group]:
    for rank in program.ranks:
        for call in rank:
            if isinstance(call.what, Collective):
                yield call.what.group


class _Resized:
    """The only class of ranks of a program, on other ranks."""

    def __init__(self, program: Program, world_size: int) -> None:
        (self.one,) = program.ranks
        self.before, self.after = program.world_size, world_size
        self.is_sharded = not any(g.axis == "replica" for g in _groups(program))
        units = dict(self.one.buffers) if self.is_sharded else {}
        self.padded = {
            tensor: unit.padded_elements(self.after) / unit.padded_elements(self.before)
            for tensor, unit in units.items()
        }
        reduced = [
            units[t] for call in self.one if _is(call, "reduce-scatter") for t in call.reads if t in units
        ] or list(units.values())
        now = sum(unit.shard_elements(self.after) for unit in reduced)
        was = sum(unit.shard_elements(self.before) for unit in reduced)
        self.shard = now / was if was else 1.0
        self.all_padded = self.shard * self.after / self.before if was else 1.0
        self.groups: dict[Group, Group] = {}

    def rank(self) -> RankProgram:
        """All of it."""
        sizes = list(self.one.tensor_bytes)
        for tensor, ratio in self.padded.items():
            sizes[tensor] *= ratio
        held = tuple(replace(one, bytes=one.bytes * self._held(one.kind)) for one in self.one.held)
        calls = tuple(self._call(call) for call in self.one)
        return replace(self.one, calls=calls, tensor_bytes=tuple(sizes), held=held)

    def _held(self, kind: HeldKind) -> float:
        if kind in _SHARDS:
            return self.shard
        return self.all_padded if kind is HeldKind.GATHERED else 1.0

    def _call(self, call: Call) -> Call:
        what = call.what
        if isinstance(what, Collective):
            return replace(call, what=self._collective(call, what))
        if isinstance(what, Elementwise):
            moved = self._moved(call, float(what.bytes))
            if moved != what.bytes:
                return replace(call, what=replace(what, bytes=moved))
        return call

    def _collective(self, call: Call, what: Collective) -> Collective:
        group = self._group(what.group)
        if group is what.group:
            return what
        ratios = [self.padded[t] for t in (*call.reads, *call.writes) if t in self.padded]
        if ratios:
            ratio = ratios[0]
        elif what.kind in {"all-gather", "reduce-scatter"}:  # as much for each rank
            ratio = self.after / self.before
        else:
            ratio = 1.0
        return replace(what, bytes=what.bytes * ratio, group=group)

    def _moved(self, call: Call, moved: float) -> float:
        """Bytes of a kernel: of shards, of what is padded, or of neither."""
        if not self.padded:
            return moved
        if call.phase is StepPhase.FINISH or call.stream == _COPY_IN:
            return moved * self.shard
        for tensor in call.reads:  # copied out of what was gathered
            if tensor in self.padded:
                return moved * self.padded[tensor]
        more = (self.padded[t] - 1.0 for t in call.writes if t in self.padded)
        sizes = (self.one.tensor_bytes[t] for t in call.writes if t in self.padded)
        return moved + sum(m * s for m, s in zip(more, sizes, strict=True))

    def _group(self, group: Group) -> Group:
        """The same group on other ranks; one object for one group."""
        if group.axis == "replica":
            ranks = float(group.ranks) * self.after / self.before
        elif group.ranks == self.before:
            ranks = self.after
        else:
            return group
        if group not in self.groups:
            self.groups[group] = replace(group, ranks=ranks)
        return self.groups[group]


def _is(call: Call, kind: str) -> bool:
    return isinstance(call.what, Collective) and call.what.kind == kind


_Key = tuple[int, str, StepPhase, int]


def compiled(program: Program) -> Program:
    """`program` as it runs: memory-bound kernels joined, if it asks for `torch.compile`."""
    if not program.compiled:
        return program
    return replace(program, ranks=tuple(fused(rank) for rank in program.ranks))


def fused(rank: RankProgram) -> RankProgram:
    """The same program with its memory-bound kernels joined."""
    groups = _Groups(rank)
    readers = _readers(rank.calls)
    into: dict[int, int] = {}
    calls: list[Call] = []
    for index, call in enumerate(rank.calls):
        group = groups.of.get(index)
        if group is None:
            into[index] = len(calls)
            calls.append(call)
        elif index == group.members[-1]:
            for member in group.members:
                into[member] = len(calls)
            calls.append(_joined(rank, group.members, readers))
    return replace(rank, calls=tuple(_renumbered(call, into, at) for at, call in enumerate(calls)))


def _renumbered(call: Call, into: dict[int, int], at: int) -> Call:
    if not call.after:
        return call
    after = {into[earlier] for earlier in call.after}
    return call.awaiting(tuple(sorted(one for one in after if one < at)))


@dataclass(slots=True)
class _Group:
    """Calls that become one."""

    key: _Key
    members: list[int] = field(default_factory=list)


class _Groups:
    """Which calls are joined."""

    def __init__(self, rank: RankProgram) -> None:
        self.of: dict[int, _Group] = {}
        levels: dict[int, int] = defaultdict(int)
        last_of: dict[int, _Group] = {}
        barrier = 0
        for index, call in enumerate(rank.calls):
            level = max((levels[tensor] for tensor in call.reads), default=barrier)
            level = max(level, barrier)
            if not _is_fusible(call):
                for tensor in call.writes:
                    levels[tensor] = level + 1
                    last_of.pop(tensor, None)
                if call.host_waits:
                    barrier = level + 1
                continue
            key = (level, call.stream, call.phase, call.micro_batch)
            group = self._joining(call, key, last_of)
            group.members.append(index)
            self.of[index] = group
            for tensor in (*call.reads, *call.writes):
                last_of[tensor] = group
            for tensor in call.writes:
                levels[tensor] = level

    @staticmethod
    def _joining(call: Call, key: _Key, last_of: dict[int, _Group]) -> _Group:
        """The group of a call that this one can be joined to, or a new one."""
        for tensor in call.reads:
            group = last_of.get(tensor)
            if group is not None and group.key == key:
                return group
        return _Group(key)


def _is_fusible(call: Call) -> bool:
    """Optimizers and what FSDP copies, outside of compiled modules, stay kernels of their own."""
    if not isinstance(call.what, Elementwise) or call.host_waits:
        return False
    return call.phase is not StepPhase.FINISH and not call.name.startswith("fsdp.")


def _readers(calls: tuple[Call, ...]) -> dict[int, list[int]]:
    """Calls that read each tensor."""
    found: dict[int, list[int]] = defaultdict(list)
    for index, call in enumerate(calls):
        for tensor in call.reads:
            found[tensor].append(index)
    return found


def _joined(rank: RankProgram, members: list[int], readers: dict[int, list[int]]) -> Call:
    """One kernel for all `members`: what they read from others, and write for others."""
    calls = [rank.calls[index] for index in members]
    own, written = set(members), {tensor for call in calls for tensor in call.writes}
    read = {tensor for call in calls for tensor in call.reads} - written
    needed = {
        tensor
        for tensor in written
        if tensor in rank.kept or any(reader not in own for reader in readers[tensor])
    }
    moved = sum(rank.tensor_bytes[tensor] for tensor in (*read, *needed))
    apart = sum(float(call.what.bytes) for call in calls if isinstance(call.what, Elementwise))
    kinds = {call.what.kind for call in calls if isinstance(call.what, Elementwise)}
    kind = kinds.pop() if len(kinds) == 1 else "fused"
    what = Elementwise(min(moved, apart), kind=kind)
    after = tuple(sorted({wait for call in calls for wait in call.after} - own))
    return replace(
        calls[-1],
        name=_name(calls),
        what=what,
        after=after,
        reads=tuple(sorted(read)),
        writes=tuple(sorted(needed)),
        place=calls[0].place,
    )


def _name(calls: list[Call]) -> str:
    return calls[0].name if len(calls) == 1 else f"fused {len(calls)} kernels"


class ProgramChangeKind(StrEnum):
    """What could be changed in a recorded program."""

    COMPILE = "compile"
    """`torch.compile`: memory-bound kernels are joined."""
    HOST_WAITS = "host waits"
    """The host reads no number from the device within the step."""
    PADDING = "padding"
    """Parameters are sharded along a dimension that the ranks divide."""
    RECOMPUTE = "recompute"
    """Nothing is computed again."""
    PREFETCH = "prefetch"
    """Sharded weights are asked for as early as wires allow."""
    BUCKETS = "buckets"
    """Gradients of DDP are reduced in buckets of twice the size."""


def _joined_kernels(program: Program) -> Program | None:
    return None if program.compiled else replace(program, compiled=True)


def _without_host_waits(program: Program) -> Program | None:
    if not any(call.host_waits for rank in program.ranks for call in rank):
        return None
    return _kept(
        program,
        lambda call: call.what is not None,
        lambda call: replace(call, host_waits=False) if call.host_waits else call,
    )


def _without_recompute(program: Program) -> Program | None:
    if not program.recompute_flops:
        return None
    return _kept(program, lambda c: c.phase is not StepPhase.RECOMPUTE or isinstance(c.what, Collective))


def _without_padding(program: Program) -> Program | None:
    notes = [note for note in program.notes if note.kind is NoteKind.PADDED]
    wasted = sum(note.bytes - note.useful_bytes for note in notes)
    sent = sum(note.bytes for note in notes)
    if wasted <= 0:
        return None
    calls = [call.what for rank in program.ranks for call in rank if _is_shard(call)]
    gathered = max((float(w.bytes) for w in calls if isinstance(w, Collective)), default=sent)
    share = 1.0 - wasted / max(sent, gathered)
    known: dict[int, Collective] = {}

    def smaller(call: Call) -> Call:
        what = call.what
        if not _is_shard(call) or not isinstance(what, Collective):
            return call
        if id(what) not in known:  # one object for equal ones: each is priced once
            known[id(what)] = replace(what, bytes=what.bytes * share)
        return replace(call, what=known[id(what)])

    return _kept(program, lambda call: True, smaller)


def _early_weights(program: Program) -> Program | None:
    def early(call: Call) -> Call:
        first = isinstance(call.what, Collective) and call.what.kind == "all-gather"
        return call.awaiting(()) if first and _is_shard(call) else call

    if not any(_is_shard(call) for rank in program.ranks for call in rank):
        return None
    return _kept(program, lambda call: True, early)


def larger_buckets(program: Program) -> Program | None:
    """Two and two buckets in one, which is reduced when both are there."""
    ranks = tuple(_paired(rank) for rank in program.ranks)
    changed = any(len(a.calls) < len(b.calls) for a, b in zip(ranks, program.ranks, strict=True))
    return replace(program, ranks=ranks) if changed else None


def _paired(rank: RankProgram) -> RankProgram:
    calls = list(rank.calls)
    buckets = [i for i, call in enumerate(calls) if _is_bucket(call)]
    into = {
        first: second
        for first, second in zip(buckets[::2], buckets[1::2], strict=False)
        if not any(first in call.after for call in calls[first : second + 1])
    }
    for first, second in into.items():
        one, other = calls[first].what, calls[second].what
        assert isinstance(one, Collective)
        assert isinstance(other, Collective)
        both = replace(other, bytes=one.bytes + other.bytes)
        after = tuple(sorted({*calls[first].after, *calls[second].after}))
        calls[second] = replace(calls[second], what=both, after=after)
    if into:
        calls = [
            call.awaiting(tuple(sorted({into.get(earlier, earlier) for earlier in call.after})))
            for call in calls
        ]
    dropped = {id(calls[first]) for first in into}
    whole = replace(rank, calls=tuple(calls))
    return _kept_of(whole, lambda call: id(call) not in dropped, lambda call: call)


def _is_bucket(call: Call) -> bool:
    what = call.what
    return isinstance(what, Collective) and (what.kind, what.axis) == ("all-reduce", "dp")


def _is_shard(call: Call) -> bool:
    return isinstance(call.what, Collective) and call.what.axis in ("shard", "expert-shard")


def _kept(
    program: Program, keep: Callable[[Call], bool], change: Callable[[Call], Call] = lambda c: c
) -> Program:
    """`program` with only the calls to `keep`, each changed; waits for the others are dropped."""
    return replace(program, ranks=tuple(_kept_of(rank, keep, change) for rank in program.ranks))


def _kept_of(rank: RankProgram, keep: Callable[[Call], bool], change: Callable[[Call], Call]) -> RankProgram:
    into: dict[int, int] = {}
    calls: list[Call] = []
    for index, call in enumerate(rank.calls):
        if keep(call):
            into[index] = len(calls)
            after = call.after and tuple([into[earlier] for earlier in call.after if earlier in into])
            calls.append(change(call.awaiting(after)))
    return replace(rank, calls=tuple(calls))


CHANGES: Final[dict[ProgramChangeKind, Callable[[Program], Program | None]]] = {
    ProgramChangeKind.COMPILE: _joined_kernels,
    ProgramChangeKind.HOST_WAITS: _without_host_waits,
    ProgramChangeKind.PADDING: _without_padding,
    ProgramChangeKind.RECOMPUTE: _without_recompute,
    ProgramChangeKind.PREFETCH: _early_weights,
    ProgramChangeKind.BUCKETS: larger_buckets,
}
"""The program with each of the changes; None if there is nothing to change."""


def change_places(kind: ProgramChangeKind, program: Program, rank: RankProgram) -> tuple[str, ...]:
    """Lines or parameters that a change is about, the most important first; of buckets their size.

    `rank` is the one that the step waits for.
    """
    if kind is ProgramChangeKind.HOST_WAITS:
        waits = Counter(call.place for call in rank if call.host_waits).most_common()
        return tuple(place.source or place.module for place, _ in waits)
    if kind is ProgramChangeKind.PADDING:
        padded = [note for note in program.notes if note.kind is NoteKind.PADDED]
        return tuple(note.what for note in sorted(padded, key=lambda one: -(one.bytes + one.flops)))
    if kind is ProgramChangeKind.BUCKETS:
        sizes = [float(getattr(call.what, "bytes", 0.0)) for call in rank if _is_bucket(call)]
        return (f"bucket_cap_mb={2.0 * max(sizes) / 2**20:.3g}",) if sizes else ()
    return ()
