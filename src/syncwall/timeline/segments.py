"""A priced block: what is done without interruption is one segment.

Holds `Segment`, `Segments` and `segments`. Operations that take no time are left out; computation
between two waits is one segment, whose causes are booked once instead of round by round.
"""

from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from syncwall.cost.calibration import Calibration
from syncwall.cost.compute import smooth_max
from syncwall.cost.prices import Prices
from syncwall.timeline.ledger import Ledger
from syncwall.work.block import Block, Operation, Stream, Wait


@dataclass(slots=True)
class Segment:
    """Operations of one stream that run back to back."""

    stream: Stream
    cause: str
    seconds: Any
    waits: tuple[Wait, ...]
    """Indices are those of segments."""
    pieces: list[tuple[Operation, Any]]


@dataclass(slots=True)
class Segments:
    """One round of a block."""

    segments: list[Segment]
    own: Ledger
    """Seconds of the compute stream by cause, without waiting, in one round."""


def segments(block: Block, prices: Prices, fit: Calibration) -> Segments:
    """`block` priced and packed, with contention and the host's share in its computation."""
    priced = [(op, prices.seconds(op.what)) for op in block.operations]
    packed, where = _packed(priced)
    waits = [tuple(_renumbered(segment.waits, where)) for segment in packed]
    found = [replace(segment, waits=wait) for segment, wait in zip(packed, waits, strict=True)]
    own = _slow_down(found, fit.network.contention, prices.host_s)
    return Segments(found, own)


def _packed(priced: list[tuple[Operation, Any]]) -> tuple[list[Segment], dict[int, int]]:
    """Segments, and the segment that each operation went into."""
    awaited = {wait.index for op, _ in priced for wait in op.after}
    found: list[Segment] = []
    where: dict[int, int] = {}
    open_segment: int | None = None
    for index, (operation, seconds) in enumerate(priced):
        computing = operation.stream is Stream.COMPUTE
        if not computing and not np.any(seconds):
            continue  # nothing moves, so nobody waits for it
        if computing and open_segment is not None and not _blocked(operation, where):
            segment = found[open_segment]
            segment.seconds = segment.seconds + seconds
            segment.pieces.append((operation, seconds))
        else:
            found.append(
                Segment(operation.stream, operation.cause, seconds, operation.after,
                        [(operation, seconds)])
            )  # fmt: skip
        where[index] = (
            open_segment
            if computing and open_segment is not None and not _blocked(operation, where)
            else len(found) - 1
        )
        if computing:
            open_segment = where[index]
            if index in awaited and _awaited_soon(index, priced):
                open_segment = None
    return found, where


def _blocked(operation: Operation, where: dict[int, int]) -> bool:
    """True if it waits for something that takes time."""
    return any(wait.of != "end" or wait.index in where for wait in operation.after)


def _awaited_soon(index: int, priced: list[tuple[Operation, Any]]) -> bool:
    """True if communication that takes time waits for the end of operation `index`."""
    return any(
        np.any(seconds)
        for op, seconds in priced
        if op.stream is not Stream.COMPUTE
        and any(wait.index == index and wait.of == "end" for wait in op.after)
    )


def _renumbered(waits: tuple[Wait, ...], where: dict[int, int]) -> list[Wait]:
    return [replace(wait, index=where[wait.index]) for wait in waits if wait.index in where]


def _slow_down(found: list[Segment], contention: float, host_s: float) -> Ledger:
    """Stretch computation by contention and by the host; the ledger of one round.

    The host issues operations one after the other; a round that is shorter waits for it.
    """
    own = Ledger()
    beside: Any = 0.0
    for segment in found:
        if segment.stream in (Stream.GATHER, Stream.REDUCE):
            beside = np.maximum(beside, 1.0 * (segment.seconds > 0))
    slower = (contention - 1.0) * beside
    computing = [segment for segment in found if segment.stream is Stream.COMPUTE]
    count = 0
    for segment in computing:
        for operation, seconds in segment.pieces:
            own.add(operation.cause, seconds)
            count += 1
    busy = own.total
    own.add("contention", busy * slower)
    device = busy * (1.0 + slower)
    stretched = smooth_max(device, host_s * count)
    own.add("host", stretched - device)
    factor = stretched / np.maximum(busy, 1e-12)
    for segment in computing:
        segment.seconds = segment.seconds * factor
    return own
