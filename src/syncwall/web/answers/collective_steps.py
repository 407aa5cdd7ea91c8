"""An all-reduce step by step, as a ring and as a binary tree.

Holds `Move`, `ring`, `tree`, `parent_of` and `after`, which carries the moves out. The data of each
worker is cut into chunks; a move adds a chunk to what the receiver has, or takes its place.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import groupby


@dataclass(frozen=True, slots=True)
class Move:
    """One chunk goes from one worker to another."""

    step: int
    """Moves of one step happen at the same time."""
    source: int
    target: int
    chunk: int
    adds: bool
    """True if the receiver adds it to its own, False if it replaces its own."""


def ring(workers: int) -> list[Move]:
    """Reduce-scatter and all-gather around a ring: 2 (n - 1) steps with a chunk for each worker.

    After the first half every worker has the whole sum of one chunk; the second half passes the
    sums on. Source: Patarasuk and Yuan 2009.
    """
    found = []
    for step in range(2 * (workers - 1)):
        adds = step < workers - 1
        for source in range(workers):
            chunk = (source - step) % workers if adds else (source + workers - step) % workers
            found.append(Move(step, source, (source + 1) % workers, chunk, adds))
    return found


def tree(workers: int, chunks: int) -> list[Move]:
    """Sums go up a binary tree, then down again; chunks follow each other.

    Worker 0 is the root, 2 i + 1 and 2 i + 2 are below i. NCCL uses two such trees, each for half
    of the data, so that leaves of one are inside the other (Sanders 2009).
    """
    deepest = _depth(workers - 1)
    found = []
    for chunk in range(chunks):
        for worker in range(1, workers):
            above, depth = parent_of(worker), _depth(worker)
            found.append(Move(chunk + deepest - depth, worker, above, chunk, True))
            found.append(Move(chunk + deepest + depth - 1, above, worker, chunk, False))
    return sorted(found, key=lambda move: (move.step, move.chunk, move.source, move.target))


def parent_of(worker: int) -> int:
    """The worker above another one in the tree."""
    return (worker - 1) // 2


def after(moves: Iterable[Move], parts: Sequence[Sequence[float]]) -> list[list[float]]:
    """What every worker has after `moves`; `parts[worker][chunk]` before them."""
    held = [list(own) for own in parts]
    for _, together in groupby(moves, key=lambda move: move.step):
        sent = [(move, held[move.source][move.chunk]) for move in together]
        for move, value in sent:
            own = held[move.target][move.chunk] if move.adds else 0.0
            held[move.target][move.chunk] = own + value
    return held


def steps_of(moves: Sequence[Move]) -> int:
    """How many steps they take."""
    return max((move.step for move in moves), default=-1) + 1


def _depth(worker: int) -> int:
    return (worker + 1).bit_length() - 1
