"""Nodes that are being repaired, and when enough of them are back.

Holds `Repairs`. Every repair takes equally long, so nodes come back in the order in which they
failed, and the one to wait for is found by counting: with s spares, the oldest failure after which
no more than s nodes were taken away must be repaired.
"""

from typing import Any

import numpy as np

from syncwall.job.numbers import Numbers


class Repairs:
    """What was taken away from each of many jobs, failure by failure."""

    def __init__(self, plan: Numbers, candidates_per_s: float) -> None:
        self.plan, jobs = plan, len(plan.number)
        expected = candidates_per_s * float(plan.repair_s.max())
        self._size = int(expected + 8.0 * expected**0.5 + 16.0)
        """Failures that are remembered; all earlier ones are repaired."""
        self._times = np.zeros((self._size, jobs))
        self._taken = np.zeros((self._size, jobs), dtype=np.int64)
        self._total = np.zeros(jobs, dtype=np.int64)
        self._awaited = np.zeros(jobs, dtype=np.int64)
        self._oldest = np.zeros(jobs, dtype=np.int64)
        self._returned = np.zeros(jobs, dtype=np.int64)
        self._number = 0

    def keep(self, kept: Any) -> None:
        """Forget all jobs but those where `kept` is true."""
        for name in ("_total", "_awaited", "_oldest", "_returned"):
            setattr(self, name, getattr(self, name)[kept])
        self._times, self._taken = self._times[:, kept], self._taken[:, kept]

    def take(self, nodes: Any, now_s: Any) -> tuple[Any, Any]:
        """Take `nodes` away from each job at `now_s`.

        Returns when no more nodes are away than there are spares (minus infinity if so now), and
        how many are missing until then.
        """
        self._total += nodes
        slot = self._number % self._size
        self._times[slot], self._taken[slot] = now_s, self._total
        needed = self._total - self.plan.spares
        self._number += 1
        if not np.any(needed > 0):
            return np.full(len(needed), -np.inf), np.zeros(len(needed))
        first = self._number - self._size
        short = np.flatnonzero(needed > 0)
        self._awaited[short] = np.maximum(self._awaited[short], first)
        behind = short
        while behind.size:
            rows = self._awaited[behind] % self._size
            behind = behind[self._taken[rows, behind] < needed[behind]]
            self._awaited[behind] += 1
        back_s = np.full(len(needed), -np.inf)
        back_s[short] = self._times[self._awaited[short] % self._size, short]
        back_s[short] += self.plan.repair_s[short]
        back_s[back_s <= now_s] = -np.inf
        missing = self._missing(now_s, first) if self.plan.shrinks else np.zeros(len(needed))
        return back_s, missing

    def _missing(self, now_s: Any, first: int) -> Any:
        """Nodes that the job lacks right now."""
        self._oldest = np.maximum(self._oldest, first)
        back = np.arange(len(self._oldest))
        while back.size:
            rows = self._oldest[back] % self._size
            repaired_s = self._times[rows, back] + self.plan.repair_s[back]
            returned = (self._oldest[back] < self._number) & (repaired_s <= now_s[back])
            back, rows = back[returned], rows[returned]
            self._returned[back] = self._taken[rows, back]
            self._oldest[back] += 1
        return np.maximum(self._total - self._returned - self.plan.spares, 0)
