"""What a recorded program amounts to: sums over its calls.

Holds `Sent` and `sent` (communication by kind and group), `memory_traffic_bytes`, and how much is
not known: `NotedShare`, `noted_shares`, `unknown_share` and `NOTABLE`.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final

from syncwall.public import Answer, published
from syncwall.work.operations import Collective, GroupAxis, Message
from syncwall.work.program import Call, Note, NoteKind, Program

NOTABLE: Final = 0.05
"""Share of a step from which on a verdict says that it is not known."""
_NOT_KNOWN: Final = (NoteKind.UNKNOWN, NoteKind.PLACEHOLDER, NoteKind.NOT_RECORDED)


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
    doubtful = [one for one in noted_shares(program) if one.note.kind in _NOT_KNOWN]
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
