"""The folder that the ranks of a node share with their agent: found, locked, cleaned up.

Holds `folder`, `homes`, `open_plain` and `store_port`, with the names of variables; `Lock`, which
an agent and its command hold while they live, `ensure_agent` and `agent_command`; and
`remove_leftovers`, which removes folders that nobody needs any more: whoever is killed cannot clean
up after itself. A folder goes only if it is this user's, an agent has lived in it, and all its
processes are gone: the kernel lets go of their locks when they die, and ranks have left their
process ids.
"""

import fcntl
import os
import sys
import tempfile
import time
from collections.abc import Iterable, Mapping
from contextlib import ExitStack, suppress
from pathlib import Path
from typing import Final

FOLDER: Final = "SYNCWALL_WATCH_FOLDER"
"""Variable with the folder of rings; `syncwall watch` sets it."""
EXPECT: Final = "SYNCWALL_WATCH_EXPECT"
"""Variable that says what the run should be like, as `watch.expected` reads it."""
SWITCH: Final = "SYNCWALL_WATCH"
"""Variable that switches watching on."""
NO_AGENT: Final = "SYNCWALL_WATCH_AGENT"
"""Variable that is 0 where an agent is started by somebody else, such as a sidecar."""
AGENT_LOCK: Final = "agent.lock"
COMMAND_LOCK: Final = "command.lock"
"""Of `syncwall watch`, which removes the folder at its end."""
_KEPT_S: Final = 3600.0
"""For which what ranks' own agents leave behind, such as a summary, can be looked at."""
_JOB: Final = ("TORCHELASTIC_RUN_ID", "SLURM_JOB_ID")


def folder(environment: Mapping[str, str]) -> Path:
    """The folder of a job's rings on this node, in shared memory where there is some."""
    if FOLDER in environment:
        return Path(environment[FOLDER])
    job = next((environment[name] for name in _JOB if environment.get(name)), str(os.getppid()))
    safe = "".join(one if one.isalnum() else "-" for one in job)[:64]
    return homes()[0] / f"syncwall-{os.getuid()}-{safe}"


def homes() -> list[Path]:
    """Where folders of rings are: in shared memory if there is some, else among temporary files."""
    memory = Path("/dev/shm")  # noqa: S108 - folders in it are the user's alone
    return [*([memory] if os.access(memory, os.W_OK) else []), Path(tempfile.gettempdir())]


def open_plain(path: Path) -> int:
    """A descriptor to read a file of a job; OSError for a link, and no waiting for a pipe."""
    return os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)


def store_port(environment: Mapping[str, str]) -> int:
    """Of the store of agents: the same on all nodes of a job, and another one for another job."""
    stated = environment.get("SYNCWALL_WATCH_PORT", "")
    training = environment.get("MASTER_PORT", "")
    if stated.isdecimal() and int(stated):
        return int(stated)
    return 20_000 + (int(training if training.isdecimal() else "29500") * 7 + 3) % 40_000


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

    def __exit__(self, *_: object) -> None:
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
    import subprocess  # every Python that is started loads this file

    _started.append(
        subprocess.Popen(  # noqa: S603 - our own module
            agent_command(home),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            env={**os.environ, SWITCH: "0"},
            start_new_session=True,
        )
    )


_started: list[object] = []
"""Kept: an agent outlives whoever started it, and nobody waits for it."""


def remove_leftovers(above: Iterable[Path] | None = None) -> list[Path]:
    """Remove what the dead have left in these folders, by default where rings are; what it was."""
    import shutil

    found = []
    for home in (one for folder in above or homes() for one in folder.glob("syncwall-*")):
        with suppress(OSError), ExitStack() as held:
            if _is_ours(home) and _are_free(home, held) and not any(map(_lives, _pids(home))):
                shutil.rmtree(home)
                found.append(home)
    return found


def _is_ours(home: Path) -> bool:
    facts = home.lstat()
    is_old = time.time() - facts.st_mtime > _KEPT_S or (home / COMMAND_LOCK).exists()
    is_watched = (home / AGENT_LOCK).is_file() and not home.is_symlink()
    return is_watched and is_old and facts.st_uid == os.getuid()


def _are_free(home: Path, held: ExitStack) -> bool:
    """True if neither an agent nor a command lives; until the end of `held` none can begin to."""
    names = [one for one in (AGENT_LOCK, COMMAND_LOCK) if (home / one).exists()]
    return all(held.enter_context(Lock(home, one)).taken() for one in names)


def _pids(home: Path) -> list[int]:
    names = (path.stem.rpartition("-")[2] for path in home.glob("rank-*.*"))
    return [int(one) for one in names if one.isdecimal()]


def _lives(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        pass
    return True
