"""Folders of rings that nobody needs any more: removed by the next agent that starts.

Holds `sweep`. Whoever is killed cannot clean up after itself. A folder goes only if it is this
user's, an agent has lived in it, and all its processes are gone: the command and the agent hold
locks, which the kernel lets go of when they die, and ranks have left their process ids.
"""

import os
import shutil
import time
from collections.abc import Iterable
from contextlib import ExitStack, suppress
from pathlib import Path
from typing import Final

from syncwall.watch.agent_start import AGENT_LOCK, COMMAND_LOCK, Lock
from syncwall.watch.place import homes

_KEPT_S: Final = 3600.0
"""For which what ranks' own agents leave behind, such as a summary, can be looked at."""


def sweep(above: Iterable[Path] | None = None) -> list[Path]:
    """Remove what the dead have left in these folders, by default where rings are; what it was."""
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
