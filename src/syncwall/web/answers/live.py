"""What the Live page shows: runs that are watched on this machine.

Holds `shown`.
"""

import time
from typing import Any, Final

from syncwall.problems import InputError
from syncwall.records import plain
from syncwall.show.records.watch import LiveRun
from syncwall.show.watch import live_view
from syncwall.show.write.files import body
from syncwall.watch.summary import read_snapshot, watched_here

_FORGOTTEN_S: Final = 3600.0
"""Runs that were last heard of before are left out."""


def shown() -> dict[str, Any]:
    """Every run of the user who serves the pages, the latest first: what it does right now."""
    found, now_s = [], time.time()
    for home in watched_here():
        try:
            snapshot = read_snapshot(home)
        except InputError:  # it ended meanwhile
            continue
        if now_s - snapshot.now_s > _FORGOTTEN_S:
            continue
        view = live_view(snapshot, now_s)
        found.append({
            "id": home.name, "title": view.title, "html": body(view),
            "record": plain(LiveRun(snapshot)),
        })  # fmt: skip
    return {"runs": found}
