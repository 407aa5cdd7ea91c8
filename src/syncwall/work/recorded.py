"""What a recorded program amounts to: sums over its calls.

Holds `Sent` and `sent` (communication by kind and group), and `memory_traffic_bytes`.
"""

from collections.abc import Iterable
from dataclasses import dataclass

from syncwall.work.operations import Collective, GroupAxis, Message
from syncwall.work.program import Call


@dataclass(frozen=True, slots=True)
class Sent:
    """Equal communication of one rank in a step."""

    kind: str
    """A collective, or "message"."""
    axis: GroupAxis
    """What the group is for; "pp" for messages."""
    ranks: float
    calls: int
    bytes: float
    """Together; of each kind as `Collective` counts them."""


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
