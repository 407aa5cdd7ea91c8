"""A recorded eager program as a compiler would run it: memory-bound kernels joined.

Holds `fused`. Each call has a level: how many kernels that cannot be joined (multiplications,
attention, convolutions, communication) lie on the longest way to it. Memory-bound kernels of one
level that read what another of them writes, or the same tensor, become one kernel, which reads and
writes only what others need; it takes the traffic that the framework's fused kernels were fitted
to take over that. Ahead of time and without a device it cannot be known what a compiler
really joins; see docs/explanation/capture.md.
"""

from collections import defaultdict
from dataclasses import dataclass, field, replace

from syncwall.work.block import Phase
from syncwall.work.operations import Elementwise
from syncwall.work.program import Call, RankProgram

_Key = tuple[int, str, Phase, int]


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
    after = {into[earlier] for earlier in call.after}
    return replace(call, after=tuple(sorted(one for one in after if one < at)))


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
    return call.phase is not Phase.FINISH and not call.name.startswith("fsdp.")


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
        calls[-1], name=_name(calls), what=what, after=after,
        reads=tuple(sorted(read)), writes=tuple(sorted(needed)), place=calls[0].place,
    )  # fmt: skip


def _name(calls: list[Call]) -> str:
    return calls[0].name if len(calls) == 1 else f"fused {len(calls)} kernels"
