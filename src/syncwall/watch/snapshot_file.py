"""A snapshot of a job beside its rings, for terminals and pages of the same machine.

Holds `SnapshotFile`, a listener, `read_snapshot` and `watched_here`, which finds all of a user.
"""

import os
from pathlib import Path
from typing import Final

from syncwall.documents import write_whole
from syncwall.problems import InputError
from syncwall.watch.events import from_json, to_json
from syncwall.watch.live import Live
from syncwall.watch.place import homes
from syncwall.watch.recent import Recent, Snapshot

SNAPSHOT: Final = "live.json"
_EVERY_S: Final = 0.9
_SEEN: Final = 64
"""Folders that are looked at."""


class SnapshotFile:
    """Written about once a second, whole: a reader never sees half of it."""

    def __init__(self, recent: Recent, home: Path) -> None:
        self._recent, self._path = recent, home / SNAPSHOT
        self._written_s = 0.0

    def round(self, live: Live) -> None:
        """Write if it is time."""
        if live.now_s - self._written_s < _EVERY_S and not live.new:
            return
        self._written_s = live.now_s
        write_whole(self._path, to_json(self._recent.snapshot()))


def read_snapshot(home: Path) -> Snapshot:
    """The latest of a folder; InputError if there is none."""
    try:
        return from_json(Snapshot, (home / SNAPSHOT).read_bytes())
    except (OSError, ValueError):
        raise InputError.of(f"{home}: no job is watched there") from None


def watched_here() -> list[Path]:
    """Folders of jobs that this user has watched on this machine, the latest first."""
    found = []
    for above in homes():
        for path in above.glob(f"syncwall-*/{SNAPSHOT}"):
            try:
                facts = path.stat()
            except OSError:
                continue
            if facts.st_uid == os.getuid():
                found.append((facts.st_mtime, path.parent))
    return [home for _, home in sorted(found, reverse=True)[:_SEEN]]
