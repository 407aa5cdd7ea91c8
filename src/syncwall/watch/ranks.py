"""One rank as its agent follows it: ring, steps, windows, process, state, totals.

Holds `WatchedRank`; `ProcessWatch`, `Death` and `doing`, its process as the kernel sees it: a
`pidfd` wakes whoever waits for it when the process ends, so that of several deaths within a tenth
of a second the first is known; looking at `/proc` now and then would not do. `stands_at`: where a
silent rank is, by torch's own worker server, if its program has started one
(`torch.distributed.elastic.control_plane.worker_main`, socket named by
TORCH_WORKER_SERVER_SOCKET): a thread in C++ that answers while Python does not.
"""

import http.client
import json
import os
import re
import select
import signal
import socket
from collections import defaultdict, deque
from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path
from typing import Any, Final, NamedTuple

from syncwall.cause import Cause
from syncwall.watch.cores import CoreWait, process_stat
from syncwall.watch.events import (
    TIMES_OF_A_STEP,
    Process,
    RankFacts,
    RankState,
    StepClock,
    StepRecord,
    StepWindow,
    from_json,
)
from syncwall.watch.judges import THRESHOLDS, Thresholds
from syncwall.watch.place import open_plain
from syncwall.watch.rings import (
    EPOCH_NS,
    NOTES,
    DeviceTime,
    Mark,
    MarkKind,
    RingNote,
    RingReader,
    clock_s,
    read_error,
)
from syncwall.watch.speed import is_pause, window_of
from syncwall.watch.steps import StepMaker

_OF_ITS_OWN: Final = (signal.SIGKILL, signal.SIGSEGV, signal.SIGBUS, signal.SIGILL, signal.SIGFPE)
"""Signals that no rank gets because another one has died, but for torchrun's SIGKILL 30 s later."""
_NOTICED_LATE_S: Final = 1.0
"""An agent on a busy machine looks at its processes at least so often."""


class Death(NamedTuple):
    """The end of a process."""

    time_s: float
    """Since the epoch."""
    number: int
    """0 for the first that ended, 1 for the next, ..."""
    status: int | None
    """As `os.waitstatus_to_exitcode` takes it; None if the kernel does not tell, or nobody was
    quick enough to ask before the parent did."""

    def earliest_s(self, last_mark_s: float) -> float:
        """When it may have happened at the earliest, for the order of deaths.

        Others fail milliseconds after a rank that is killed, and say so themselves; the agent
        notices the kill only when it looks.
        """
        if self.status is None or -os.waitstatus_to_exitcode(self.status) not in _OF_ITS_OWN:
            return self.time_s
        return max(last_mark_s, self.time_s - _NOTICED_LATE_S)

    @property
    def how(self) -> str:
        """In words: "was ended by SIGKILL"."""
        if self.status is None:
            return "is gone"
        code = os.waitstatus_to_exitcode(self.status)
        return f"was ended by {signal.Signals(-code).name}" if code < 0 else f"ended with code {code}"


class ProcessWatch:
    """Some processes, by their ids."""

    def __init__(self) -> None:
        self._poll = select.poll()
        self._files: dict[int, int] = {}
        """Process ids by pidfd."""
        self.died: dict[int, Death] = {}

    def add(self, pid: int) -> None:
        """Watch a process, too; one that is gone already has died now."""
        try:
            file = os.pidfd_open(pid)
        except OSError:
            self._dies(pid)
            return
        self._files[file] = pid
        self._poll.register(file, select.POLLIN)

    def wait(self, seconds: float) -> bool:
        """Wait so long, or until a process ends: then True."""
        ended = self._poll.poll(max(seconds, 0.0) * 1e3)
        for file, _ in ended:
            self._poll.unregister(file)
            os.close(file)
            self._dies(self._files.pop(file))
        return bool(ended)

    def _dies(self, pid: int) -> None:
        self.died.setdefault(pid, Death(clock_s(), len(self.died), _exit_status(pid)))

    def state(self, pid: int) -> Process:
        """What the kernel says now; only a pidfd says in which order processes end."""
        if pid in self.died:
            return Process.DEAD
        return Process.STOPPED if process_stat(pid)[:1] in ("T", "t") else Process.RUNNING

    @property
    def alive(self) -> int:
        """Processes that have not ended."""
        return len(self._files)


def _exit_status(pid: int) -> int | None:
    """Of a process that has ended and that its parent has not asked for yet."""
    fields = process_stat(pid).split()
    return int(fields[-1]) if fields and fields[0] == "Z" else None


def doing(pid: int) -> str:
    """What the main thread of a process does: computes, or sleeps and where in the kernel."""
    letter = process_stat(pid)[:1]
    if letter == "R":
        return "its main thread computes"
    if letter == "D":
        return "its main thread waits for a disk or a driver"
    channel = ""
    with suppress(OSError):
        channel = Path(f"/proc/{pid}/wchan").read_text(encoding="utf-8").strip("0\n")
    return f"its main thread sleeps{f' in {channel}' if channel else ''}"


_LIMIT_S: Final = 1.0
_THREAD: Final = re.compile(r"^(?:Current t|T)hread .*$", re.MULTILINE)
_FRAME: Final = re.compile(r'File "(.+?)", line (\d+) in (\S+)')
_LIBRARIES: Final = re.compile(r"site-packages|dist-packages|/lib/python3|^<")


def stands_at(server: str) -> str:
    """The innermost line of the user's own, and the latest collective; empty if nobody answers."""
    found = []
    with suppress(OSError, ValueError, KeyError, http.client.HTTPException):
        found += _line(_asked(server, "dump_traceback").decode(errors="replace"))
        found += _collective(json.loads(_asked(server, "fr_trace_json")))
    return ", ".join(found)


def _asked(server: str, handler: str) -> bytes:
    with socket.socket(socket.AF_UNIX) as channel:
        channel.settimeout(_LIMIT_S)
        channel.connect(server)
        connection = http.client.HTTPConnection("localhost")
        connection.sock = channel
        connection.request("POST", f"/handler/{handler}")
        return connection.getresponse().read()


def _line(dump: str) -> list[str]:
    """Of the last thread of a dump, which is the main one; frames come innermost first."""
    frames = _FRAME.findall(_THREAD.split(dump)[-1])
    own = [one for one in frames if not _LIBRARIES.search(one[0])]
    return [f"{file}:{line} in {function}" for file, line, function in own[:1]]


def _collective(trace: dict[str, Any]) -> list[str]:
    """The latest entry of the flight recorder."""
    entries = trace.get("entries") or []
    return [f"{one['profiling_name']} {one['state']}" for one in entries[-1:]]


_MOST_BYTES: Final = 1 << 16
"""Of what a rank says of itself."""


def read_facts(path: Path) -> RankFacts:
    """What a rank says of itself; OSError or ValueError if that is nothing that can be used."""
    with os.fdopen(open_plain(path), "rb") as file:
        return from_json(RankFacts, file.read(_MOST_BYTES))


_KEPT: Final = 8
"""Windows of a rank; whoever judges keeps more."""


class WatchedRank:
    """One process of one rank."""

    def __init__(self, path: Path, limits: Thresholds = THRESHOLDS) -> None:
        """ValueError if the ring is none, OSError if it is gone."""
        self._reader, self._limits = RingReader(path), limits
        self.path = path
        self.facts = read_facts(path.with_suffix(".json"))
        self.rank, self.pid = self._reader.rank, self._reader.pid
        if (self.rank, self.pid) != (self.facts.rank, self.facts.pid):
            raise ValueError("its ring is of another process")
        self.node = self.facts.node
        self._live = StepMaker(self.rank, EPOCH_NS)
        """By the host's clock: current phase of the rank."""
        self._live.last_ns = self._reader.start_ns
        self._device: tuple[DeviceTime, StepMaker] | None = None
        """By the device's clock, if there is one: what steps spend."""
        self._asked_at = 0.0, ""
        self._error: str | None = None
        self._cores = CoreWait(self.pid)
        self._stolen_s = 0.0
        self._inside: list[StepRecord] = []
        self.windows: deque[StepWindow] = deque(maxlen=_KEPT)
        self.steps = 0
        self.spent_s: dict[Cause, float] = defaultdict(float)
        """Of usual steps."""
        self.beside_s: dict[Cause, float] = defaultdict(float)
        """Of pauses, and of checkpoints and evaluations in all steps."""
        self.pauses = 0
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
        return [NOTES[RingNote(one)] for one in sorted(self._live.notes & set(NOTES))]

    def read(self, stolen_s: float = 0.0) -> list[StepRecord]:
        """Steps that were finished since the last call; `stolen_s` as `CoreWait.look` takes it."""
        self._stolen_s = stolen_s
        lost = self._reader.lost
        marks = self._reader.read()
        if self._reader.lost > lost:
            self._live.lost_some()
        if not marks:
            return []
        live = list(self._live.take(marks))
        found = self._on_device(marks) if self._is_timed(marks) else live
        if any(one.step % self._limits.window in (0, self._limits.window - 1) for one in found):
            self._cores.look(clock_s(), stolen_s)
        for step in found:
            self._count(step)
        return found

    def _is_timed(self, marks: Iterable[Mark]) -> bool:
        if self._device is None and any(one.kind == MarkKind.DEVICE_TIME for one in marks):
            self._device = (
                DeviceTime(),
                StepMaker(self.rank, EPOCH_NS, StepClock.DEVICE),
            )
            self._device[1].step = self._live.step
        return self._device is not None

    def _on_device(self, marks: Iterable[Mark]) -> list[StepRecord]:
        assert self._device is not None
        times, maker = self._device
        return list(maker.take(times.take(marks)))

    def _count(self, step: StepRecord) -> None:
        self.steps += 1
        self.latest = step
        pauses = is_pause(step.step_s, self._live.step_s, self._limits)
        self.pauses += pauses
        for cause, spent_s in step.seconds.items():
            kept = self.spent_s if cause in TIMES_OF_A_STEP and not pauses else self.beside_s
            kept[cause] += spent_s
        if step.tokens is not None:
            self.tokens = (self.tokens or 0.0) + step.tokens
        self.first_s = step.start_s if self.first_s is None else self.first_s
        self.last_s = step.end_s
        if step.step % self._limits.window == 0:
            self._inside.clear()
        self._inside.append(step)
        if len(self._inside) == self._limits.window:
            waited_s = self._cores.between(self._inside[0].start_s, step.end_s)
            self.windows.append(window_of(self._inside, self.node, waited_s))
            self._inside.clear()

    def state(self, processes: ProcessWatch, before: RankState | None, now_s: float) -> RankState:
        """State of the rank now."""
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
        if silent:
            self._cores.look(now_s, self._stolen_s)
        return RankState(
            self.rank,
            self.node,
            self.pid,
            process,
            maker.phase,
            since_s,
            maker.step,
            maker.progress,
            maker.collectives,
            maker.step_s,
            maker.longest_silence_ns / 1e9,
            changed_s,
            death.number if death else None,
            death.how if death else self._stands_at(since_s) if silent else "",
            (self._cores.between(since_s, now_s) or 0.0) if silent else 0.0,
            self.error() if process is Process.FAILED else "",
        )

    def error(self) -> str:
        """The exception that the rank has left beside its ring, if any, as text for a terminal."""
        if self._error is None:
            self._error = read_error(self.path)
        return self._error

    def _stands_at(self, since_s: float) -> str:
        """What is known of a silent rank; torch's server is asked once a silence."""
        if self._asked_at[0] != since_s:
            server = self.facts.server
            self._asked_at = since_s, stands_at(server) if server else ""
        return self._asked_at[1] or doing(self.pid)

    def close(self) -> None:
        """Let go of the ring, and remove it: nobody needs it once its rank is over."""
        self._reader.close()
        self.path.unlink(missing_ok=True)
        for kind in (".json", ".error"):
            self.path.with_suffix(kind).unlink(missing_ok=True)
