"""Starting the agent of a node: one for a folder of rings, whoever comes first.

Holds `ensure_agent`, `agent_command` and `Lock`, which an agent and its command hold while they
live.
"""

import fcntl
import os
import subprocess
import sys
from pathlib import Path
from types import TracebackType
from typing import Final

from syncwall.watch.place import SWITCH

NO_AGENT: Final = "SYNCWALL_WATCH_AGENT"
"""Variable that is 0 where an agent is started by somebody else, such as a sidecar."""


AGENT_LOCK: Final = "agent.lock"
COMMAND_LOCK: Final = "command.lock"
"""Of `syncwall watch`, which removes the folder at its end."""


class Lock:
    """Held by the agent of a folder, or by its command; the kernel lets go of it when they die."""

    def __init__(self, home: Path, name: str = AGENT_LOCK) -> None:
        self._file = os.open(home / name, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)

    def taken(self) -> bool:
        """True if it is ours now."""
        try:
            fcntl.flock(self._file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            return False
        return True

    def __enter__(self) -> "Lock":
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:  # fmt: skip
        os.close(self._file)


def agent_command(home: Path) -> list[str]:
    """What starts an agent."""
    return [sys.executable, "-P", "-m", "syncwall.watch.agent", str(home)]


def ensure_agent(home: Path) -> None:
    """Start an agent unless there is one; it leaves at once if another was quicker."""
    if os.environ.get(NO_AGENT) == "0":
        return
    with Lock(home) as lock:
        if not lock.taken():
            return
    _started.append(subprocess.Popen(  # noqa: S603 - our own module
        agent_command(home), stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL,
        env={**os.environ, SWITCH: "0"}, start_new_session=True,
    ))  # fmt: skip


_started: list[subprocess.Popen[bytes]] = []
"""Kept: an agent outlives whoever started it, and nobody waits for it."""
