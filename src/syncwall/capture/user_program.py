"""A user's program while it is recorded: which lines are its own, and its bounds.

Holds `shown_file`, `UserLine` and `users_line`: installed packages, Python's library and syncwall
are not the user's, and a message points at the line of the user's that called them. `confined`,
called in the process that runs the program: no network, limits on memory and on CPU time, an end
with its parent. `end_all`, called by the parent, ends that process and all that came of it, found
by a mark in their environment.
"""

import contextlib
import ctypes
import errno
import os
import resource
import signal
import sys
import sysconfig
import time
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any, Final

import syncwall
from syncwall.problems import Problem

_NOT_USERS = tuple(
    f"{Path(folder).resolve()}/"
    for folder in (
        str(Path(syncwall.__file__).parent),
        *(sysconfig.get_paths()[kind] for kind in ("stdlib", "platstdlib", "purelib", "platlib")),
    )
)


@dataclass(frozen=True, slots=True)
class UserLine:
    """A place in a file of the user's; line and column count from 1, 0 where nobody knows."""

    file: str
    line: int
    column: int = 0

    def problem(self, message: str) -> Problem:
        """A problem that points at it."""
        return Problem(self.file, self.line, self.column, message)


@cache
def shown_file(file: str) -> str:
    """What to call a file of the user's: its path from here; empty if it is somebody else's."""
    if file.startswith("<"):
        return ""
    path = Path(file).resolve()
    if str(path).startswith(_NOT_USERS) or "site-packages" in path.parts:
        return ""
    here = Path.cwd()
    return str(path.relative_to(here)) if path.is_relative_to(here) else str(path)


def users_line(frames: Iterable[tuple[str, int, int]]) -> UserLine | None:
    """The last of `frames` (file, line, column) that is the user's; None if none is."""
    found = None
    for file, line, column in frames:
        if shown := shown_file(file):
            found = UserLine(shown, line, column)
    return found


MARK: Final = "SYNCWALL_CAPTURE"
"""The variable that all processes of one recording have."""
OFFLINE: Final = {
    "HF_HUB_OFFLINE": "1",
    "HF_DATASETS_OFFLINE": "1",
    "TRANSFORMERS_OFFLINE": "1",
    "WANDB_MODE": "disabled",
}
"""Tells libraries not even to try the network."""
_GRACE_S: Final = 20
"""CPU seconds from the signal that time is up to the end by the kernel."""
_PR_SET_PDEATHSIG: Final = 1
_LOCAL: Final = ("127.", "::1", "localhost")


def confined(cpu_s: float, memory_bytes: int) -> None:
    """Bind this process: what exceeds its memory gets a MemoryError, its time SIGXCPU."""
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
        _lower(resource.RLIMIT_DATA, memory_bytes, memory_bytes)
    _lower(resource.RLIMIT_CPU, max(int(cpu_s), 1), max(int(cpu_s), 1) + _GRACE_S)
    _lower(resource.RLIMIT_CORE, 0, 0)
    sys.addaudithook(_refuse_network)


def _lower(kind: int, soft: int, hard: int) -> None:
    """Set a limit, or leave the stricter one that holds already."""
    _, most = resource.getrlimit(kind)
    if most != resource.RLIM_INFINITY:
        soft, hard = min(soft, most), min(hard, most)
    resource.setrlimit(kind, (soft, hard))


def _refuse_network(event: str, given: tuple[Any, ...]) -> None:
    if event not in ("socket.connect", "socket.getaddrinfo", "socket.sendto"):
        return
    host = given[0] if event == "socket.getaddrinfo" else given[1]
    host = host[0] if isinstance(host, tuple) else host
    if isinstance(host, str) and not host.startswith(("/", *_LOCAL)) and host:
        raise OSError(errno.ENETUNREACH, f"a program that is recorded has no network ({host})")


def end_all(pid: int, mark: str) -> None:
    """End the process group of `pid`, and every process with `mark` in its environment."""
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.killpg(pid, signal.SIGKILL)
    for _ in range(50):  # one that just forks may be missed once
        left = list(_marked(mark))
        if not left:
            return
        for one in left:
            with contextlib.suppress(ProcessLookupError, PermissionError):
                os.kill(one, signal.SIGKILL)
        time.sleep(0.01)


def _marked(mark: str) -> Iterator[int]:
    wanted = f"{MARK}={mark}".encode()
    for folder in Path("/proc").glob("[0-9]*"):
        with contextlib.suppress(OSError):
            if wanted in (folder / "environ").read_bytes().split(b"\0"):
                yield int(folder.name)
