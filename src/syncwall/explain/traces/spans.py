"""Stretches of time as arrays: union, intersection, difference, length.

Holds `Spans` (disjoint and in order; nanoseconds), `merged` and `shares`, which deals out time
among causes in order of precedence.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np


@dataclass(frozen=True)
class Spans:
    """Disjoint stretches in order; int64 arrays of starts and ends."""

    start: Any
    end: Any

    @property
    def length(self) -> int:
        """All stretches together."""
        return int((self.end - self.start).sum())

    def __len__(self) -> int:
        return len(self.start)

    def until(self, time: Any) -> Any:
        """Length covered before each of `time`."""
        if not len(self.start):
            return np.zeros(np.shape(time), np.int64)
        before = np.concatenate([[0], np.cumsum(self.end - self.start)])
        at = np.searchsorted(self.start, time, side="right")
        last = np.maximum(at - 1, 0)
        inside = np.clip(np.minimum(time, self.end[last]) - self.start[last], 0, None)
        return np.where(at > 0, before[last] + inside, 0)

    def within(self, start: Any, end: Any) -> Any:
        """Length covered in each window from `start` to `end`."""
        return self.until(end) - self.until(start)

    def holds(self, time: Any) -> Any:
        """Whether each of `time` lies in a stretch, its end not included."""
        before = np.searchsorted(self.start, time, side="right")
        return before > np.searchsorted(self.end, time, side="right")

    def gaps(self, start: int, end: int) -> "Spans":
        """What is not covered between two times."""
        if end <= start:
            return EMPTY
        return Spans(np.array([start]), np.array([end])) - self

    def __or__(self, other: "Spans") -> "Spans":
        return merged(
            np.concatenate([self.start, other.start]), np.concatenate([self.end, other.end])
        )

    def __and__(self, other: "Spans") -> "Spans":
        return self._where(other, inside=True)

    def __sub__(self, other: "Spans") -> "Spans":
        return self._where(other, inside=False)

    def _where(self, other: "Spans", *, inside: bool) -> "Spans":
        """The parts of these stretches that lie in `other`, or not."""
        points = np.unique(np.concatenate([self.start, self.end, other.start, other.end]))
        left, right = points[:-1], points[1:]
        keep = self.holds(left) & (other.holds(left) == inside)
        return merged(left[keep], right[keep])


EMPTY = Spans(np.zeros(0, np.int64), np.zeros(0, np.int64))
"""No time at all."""


def merged(start: Any, end: Any) -> Spans:
    """The union of stretches that may overlap, in any order; empty ones are dropped."""
    some = end > start
    start, end = np.asarray(start)[some], np.asarray(end)[some]
    if not len(start):
        return EMPTY
    order = np.argsort(start, kind="stable")
    start, reached = start[order], np.maximum.accumulate(end[order])
    new = np.concatenate([[True], start[1:] > reached[:-1]])
    last = np.concatenate([np.flatnonzero(new)[1:] - 1, [len(start) - 1]])
    return Spans(start[new], reached[last])


def shares(claims: Sequence[Spans], start: Any, end: Any) -> tuple[list[Any], Spans]:
    """Length of each claim in each window, where an earlier claim takes precedence.

    Returns one array over windows for each claim, and the union of all. What is left of a window
    is its length less the sum.
    """
    taken, before = EMPTY, np.zeros(np.shape(start), np.int64)
    lengths = []
    for claim in claims:
        taken = taken | claim
        now = taken.within(start, end)
        lengths.append(now - before)
        before = now
    return lengths, taken
