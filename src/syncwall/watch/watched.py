"""One rank as its agent follows it: ring, steps, windows, state, totals.

Holds `WatchedRank`.
"""

import json
from collections import defaultdict, deque
from collections.abc import Iterable
from pathlib import Path
from typing import Any, Final

from syncwall.cause import Cause
from syncwall.watch.clock import DeviceTime
from syncwall.watch.events import Clock, Process, RankState, StepRecord, Window
from syncwall.watch.judge_speed import window_of
from syncwall.watch.marks import Mark, MarkKind, RingReader
from syncwall.watch.notes import NOTES, NoteKind
from syncwall.watch.processes import ProcessWatch, doing
from syncwall.watch.steps import StepMaker
from syncwall.watch.thresholds import THRESHOLDS, Thresholds
from syncwall.watch.worker_server import stands_at

_KEPT: Final = 8
"""Windows of a rank; whoever judges keeps more."""


class WatchedRank:
    """One process of one rank."""

    def __init__(self, path: Path, limits: Thresholds = THRESHOLDS) -> None:
        """ValueError if the ring is none, OSError if it is gone."""
        self._reader, self._limits = RingReader(path), limits
        self.path = path
        self.facts: dict[str, Any] = json.loads(path.with_suffix(".json").read_text("utf-8"))
        self.rank, self.pid = self._reader.rank, self._reader.pid
        self.node: str = self.facts["node"]
        self._live = StepMaker(self.rank, self._reader.epoch_ns)
        """By the host's clock: where the rank stands."""
        self._live.last_ns = self._reader.start_ns
        self._device: tuple[DeviceTime, StepMaker] | None = None
        """By the device's clock, if there is one: what steps spend."""
        self._asked_at = 0.0, ""
        self._inside: list[StepRecord] = []
        self.windows: deque[Window] = deque(maxlen=_KEPT)
        self.steps = 0
        self.spent_s: dict[Cause, float] = defaultdict(float)
        self.tokens: float | None = None
        self.first_s: float | None = None
        self.last_s = 0.0
        self.latest: StepRecord | None = None

    @property
    def lost_marks(self) -> int:
        """Overwritten before they were read."""
        return self._reader.lost

    @property
    def notes(self) -> list[str]:
        """What cannot be told of this rank."""
        return [NOTES[NoteKind(one)] for one in sorted(self._live.notes & set(NOTES))]

    def read(self) -> list[StepRecord]:
        """Steps that were finished since the last call."""
        lost = self._reader.lost
        marks = self._reader.read()
        if self._reader.lost > lost:
            self._live.lost_some()
        if not marks:
            return []
        live = list(self._live.take(marks))
        found = self._on_device(marks) if self._is_timed(marks) else live
        for step in found:
            self._count(step)
        return found

    def _is_timed(self, marks: Iterable[Mark]) -> bool:
        if self._device is None and any(one.kind == MarkKind.DEVICE_TIME for one in marks):
            self._device = DeviceTime(), StepMaker(self.rank, self._reader.epoch_ns, Clock.DEVICE)
            self._device[1].step = self._live.step
        return self._device is not None

    def _on_device(self, marks: Iterable[Mark]) -> list[StepRecord]:
        assert self._device is not None
        times, maker = self._device
        return list(maker.take(times.take(marks)))

    def _count(self, step: StepRecord) -> None:
        self.steps += 1
        self.latest = step
        for cause, spent_s in step.seconds.items():
            self.spent_s[cause] += spent_s
        if step.tokens is not None:
            self.tokens = (self.tokens or 0.0) + step.tokens
        self.first_s = step.start_s if self.first_s is None else self.first_s
        self.last_s = step.end_s
        if step.step % self._limits.window == 0:
            self._inside.clear()
        self._inside.append(step)
        if len(self._inside) == self._limits.window:
            self.windows.append(window_of(self._inside, self.node))
            self._inside.clear()

    def state(self, processes: ProcessWatch, before: RankState | None, now_s: float) -> RankState:
        """Where the rank stands now."""
        maker = self._live
        process = processes.state(self.pid)
        death = processes.died.get(self.pid)
        since_s = self._reader.epoch_s(maker.last_ns)
        changed_s = death.earliest_s(since_s) if death else None
        if death and maker.exited_ns is not None:
            process = Process.FAILED if maker.failed or death.status else Process.FINISHED
            changed_s = self._reader.epoch_s(maker.exited_ns)  # it takes its time to end
        if process is Process.STOPPED:
            was = before is not None and before.process is Process.STOPPED
            changed_s = before.changed_s if was and before is not None else now_s
        silent = now_s - since_s > self._limits.hang_floor_s and process is Process.RUNNING
        return RankState(
            self.rank, self.node, self.pid, process, maker.phase, since_s, maker.step,
            maker.progress, maker.collectives, maker.step_s, maker.longest_silence_ns / 1e9,
            changed_s, death.number if death else None,
            death.how if death else self._stands_at(since_s) if silent else "",
        )  # fmt: skip

    def _stands_at(self, since_s: float) -> str:
        """What is known of a silent rank; torch's server is asked once a silence."""
        if self._asked_at[0] != since_s:
            server = self.facts["server"]
            self._asked_at = since_s, stands_at(server) if server else ""
        return self._asked_at[1] or doing(self.pid)

    def close(self) -> None:
        """Let go of the ring, and remove it: nobody needs it once its rank is over."""
        self._reader.close()
        self.path.unlink(missing_ok=True)
        self.path.with_suffix(".json").unlink(missing_ok=True)
