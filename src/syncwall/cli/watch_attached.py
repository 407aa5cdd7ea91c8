"""`syncwall watch --attach`: a run that is watched already, on the terminal.

Holds `attached`.
"""

import time
from pathlib import Path
from typing import TYPE_CHECKING, Final

from syncwall.cli.output import Output
from syncwall.problems import InputError

if TYPE_CHECKING:
    from rich.console import Console

_EVERY_S: Final = 1.0


def attached(folder: Path | None, out: Output) -> int:
    """Show a run until Ctrl-C, or once if nobody looks at a terminal."""
    from rich.console import Console

    from syncwall.show.records.watch import LiveRun
    from syncwall.show.watch import live_view
    from syncwall.watch.summary import read_snapshot

    home = _home(folder)
    console = Console()
    if out.json_file is None and out.html is None and out.markdown is None and console.is_terminal:
        return _followed(home, console)
    found = read_snapshot(home)
    out.write_data("watch live", lambda: live_view(found, time.time()), lambda: LiveRun(found))
    return 0


def _home(folder: Path | None) -> Path:
    from syncwall.watch.summary import watched_here

    if folder is not None:
        return folder
    homes = watched_here()
    if not homes:
        raise InputError.of("no run of yours is watched on this machine")
    return homes[0]


def _followed(home: Path, console: "Console") -> int:
    from rich.console import Group
    from rich.live import Live

    from syncwall.show.watch import live_view
    from syncwall.show.write.terminal import rendered
    from syncwall.watch.summary import read_snapshot

    found = read_snapshot(home)
    with Live(console=console, screen=True, auto_refresh=False) as screen:
        try:
            while True:
                view = live_view(found, time.time())
                lines = list(rendered(view, console.width))[: console.height - 1]
                screen.update(Group(*lines), refresh=True)
                time.sleep(_EVERY_S)
                found = read_snapshot(home)
        except (KeyboardInterrupt, InputError):  # the run is over, and its folder gone
            pass
    console.print(Group(*rendered(live_view(found, time.time()), console.width)))
    return 0
