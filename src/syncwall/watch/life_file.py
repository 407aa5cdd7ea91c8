"""Writing the life of a job down while it goes on.

Holds `LifeFile`, a listener of an agent. It follows the lowest rank of its node: ranks of a job
step together.
"""

import json
import os
import time
from collections import defaultdict
from math import inf
from pathlib import Path
from typing import Any, Final

from syncwall.cause import Cause
from syncwall.watch.events import Process, RankState, StepRecord
from syncwall.watch.life import CLOSED, ENDED, STARTED, STEPS, Life, life_of, read_life
from syncwall.watch.live import Live

_EVERY_S: Final = 5.0
"""Between two lines about steps: what a kill of the agent can lose."""


class LifeFile:
    """Appends to one file, which several starts of a job share; every line is written whole."""

    def __init__(self, path: Path, since_s: float) -> None:
        """`since_s` is when this start of the job began, ranks or not."""
        self.path = path
        self._file: int | None = None
        """Opened by the agent of the first node only, when there is something to write."""
        self._pid: int | None = None
        self._rank = 0
        self._seconds: dict[Cause, float] = defaultdict(float)
        self._steps = 0
        self._written_s = self._end_s = 0.0
        self._since_s = since_s

    def round(self, live: Live) -> None:
        """Follow the lowest rank."""
        own = live.reports[0]
        if not own.ranks or own.node_rank > 0:
            return
        state = min(own.ranks, key=lambda one: one.rank)
        if self._pid is not None and state.rank < self._rank:
            self._pid, self._rank = state.pid, state.rank  # others were seen before it
        elif state.pid != self._pid:
            self._started(state, live)
        for step in live.steps:
            if step.rank == state.rank:
                self._add(step)
        if live.now_s - self._written_s >= _EVERY_S or state.process.is_over:
            self._steps_so_far()
        if state.process.is_over and self._pid is not None:
            self._ended(state, live.now_s)

    def life(self, now_s: float | None = None) -> Life:
        """What is known so far."""
        return life_of(read_life(self.path), now_s)

    def close(self) -> None:
        """Write what is left, and until when the job was watched."""
        if self._file is not None:
            self._steps_so_far()
            self._write(CLOSED, time.time())
            os.close(self._file)
            self._file = None

    def _started(self, state: RankState, live: Live) -> None:
        if state.process.is_over:
            return
        self._steps_so_far()
        self._pid, self._rank = state.pid, state.rank
        own = live.reports[0]
        began_s = min(live.now_s, state.phase_since_s or live.now_s, self._since_s)
        self._since_s = inf
        self._write(STARTED, began_s, nodes=own.nodes, ranks=own.world)

    def _add(self, step: StepRecord) -> None:
        for cause, spent_s in step.seconds.items():
            self._seconds[cause] += spent_s
        self._steps += 1
        self._end_s = step.end_s
        if step.seconds.get(Cause.CHECKPOINT):
            self._steps_so_far(checkpoint=True)

    def _steps_so_far(self, *, checkpoint: bool = False) -> None:
        if not self._steps:
            return
        seconds = {str(cause): spent_s for cause, spent_s in self._seconds.items()}
        told: dict[str, Any] = {"steps": self._steps, "seconds": seconds}
        self._write(STEPS, self._end_s, **told, **({"checkpoint": True} if checkpoint else {}))
        self._seconds.clear()
        self._steps = 0

    def _ended(self, state: RankState, now_s: float) -> None:
        how = "finished" if state.process is Process.FINISHED else str(state.process)
        self._write(ENDED, state.changed_s or now_s, how=how)
        self._pid = None

    def _write(self, event: str, time_s: float, **told: Any) -> None:
        if self._file is None:
            self._mend()
            flags = os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC
            self._file = os.open(self.path, flags, 0o644)
        line = json.dumps({"event": event, "time_s": time_s, **told}) + "\n"
        os.write(self._file, line.encode())
        self._written_s = time_s

    def _mend(self) -> None:
        """End a line that a kill has cut off, so that the next one stands on its own."""
        text = self.path.read_bytes() if self.path.exists() else b""
        if text and not text.endswith(b"\n"):
            os.truncate(self.path, text.rfind(b"\n") + 1)
