"""Processes of other people, as the kernel sees them: `pidfd` for their end, `/proc` for the rest.

Holds `ProcessWatch`, `Death` and `doing`. A `pidfd` wakes whoever waits for it when the process
ends, so that of several deaths within a tenth of a second the first is known; looking at `/proc`
now and then would not do.
"""

import os
import select
import signal
import time
from contextlib import suppress
from pathlib import Path
from typing import Final, NamedTuple

from syncwall.watch.events import Process

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
        return (
            f"was ended by {signal.Signals(-code).name}" if code < 0 else f"ended with code {code}"
        )


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
        self.died.setdefault(pid, Death(time.time(), len(self.died), _exit_status(pid)))

    def state(self, pid: int) -> Process:
        """What the kernel says now; only a pidfd says in which order processes end."""
        if pid in self.died:
            return Process.DEAD
        return Process.STOPPED if _stat(pid)[:1] in ("T", "t") else Process.RUNNING

    @property
    def alive(self) -> int:
        """Processes that have not ended."""
        return len(self._files)


def _stat(pid: int) -> str:
    """State and what follows; empty if there is no such process."""
    try:
        file = os.open(f"/proc/{pid}/stat", os.O_RDONLY)
    except OSError:
        return ""
    try:
        return os.read(file, 4096).decode(errors="replace").rpartition(") ")[2]
    except OSError:
        return ""
    finally:
        os.close(file)


def _exit_status(pid: int) -> int | None:
    """Of a process that has ended and that its parent has not asked for yet."""
    fields = _stat(pid).split()
    return int(fields[-1]) if fields and fields[0] == "Z" else None


def doing(pid: int) -> str:
    """What the main thread of a process does: computes, or sleeps and where in the kernel."""
    letter = _stat(pid)[:1]
    if letter == "R":
        return "its main thread computes"
    if letter == "D":
        return "its main thread waits for a disk or a driver"
    channel = ""
    with suppress(OSError):
        channel = Path(f"/proc/{pid}/wchan").read_text(encoding="utf-8").strip("0\n")
    return f"its main thread sleeps{f' in {channel}' if channel else ''}"
