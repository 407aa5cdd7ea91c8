"""A measurement from joining to the last line printed, the same for every part of `measure`.

Holds `in_team`, `refuse_alone`, `written` and `amount`.
"""

import os
import signal
import sys
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

from syncwall import units
from syncwall.problems import InputError
from syncwall.units import Dimension

if TYPE_CHECKING:
    from rich.console import RenderableType

    from syncwall.measure.result import Result
    from syncwall.measure.team import Stop, Team

    Progress = Callable[[float], None]
    Work = Callable[[Team, Stop, Progress], None]
    Show = Callable[[Team, bool], int]


def in_team(work: "Work", show: "Show", *, what: str, backend: str | None, timeout_s: float) -> int:
    """Run `work` on every rank, then `show(team, complete)` on rank 0; its exit code.

    Rank 0 also shows what there is after Ctrl-C (code 130) and after a rank was lost (code 1);
    only rank 0 tells of wrong input. With several ranks the process ends here: what a broken
    process group leaves behind can hang or abort the end of the interpreter.
    """
    from syncwall.measure.roster import place

    here = place(os.environ)
    try:
        code = _run(work, show, what, backend, timeout_s)
    except InputError as error:
        if here.world == 1:
            raise
        if here.rank == 0:
            print(error, file=sys.stderr)
        code = 2
    if here.world > 1:
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(code)
    return code


def _run(work: "Work", show: "Show", what: str, backend: str | None, timeout_s: float) -> int:
    from syncwall.cli.progress import bar
    from syncwall.measure.lost import LostRankError
    from syncwall.measure.team import INTERRUPTED, joined, stoppable

    team, lost = None, None
    with stoppable() as stop:
        try:
            with joined(backend, timeout_s) as team, bar(what, hidden=not team.leads) as progress:
                work(team, stop, progress)
        except LostRankError as error:
            lost = error
    complete = lost is None and not stop.agreed
    code = 0
    if team is not None and team.leads:
        signal.signal(signal.SIGTERM, signal.SIG_IGN)  # torchrun ends all when the first has ended
        code = show(team, complete)
        signal.signal(signal.SIGTERM, signal.SIG_DFL)
        code = INTERRUPTED if stop.agreed else code
    if lost is not None:
        print(lost, file=sys.stderr)
        return 1
    return code


def refuse_alone(team: "Team", part: str) -> None:
    """InputError if a part of `measure` that needs several ranks has only one."""
    if team.world == 1:
        launch = f"torchrun --nproc-per-node 2 -m syncwall measure {part}"
        raise InputError.of(f"one rank has nobody to talk to: {launch}")


def written(result: "Result", path: str | None, page: "Callable[[], RenderableType]") -> None:
    """Print `page` and write `result` to the file at `path`; for "-" print only that."""
    from syncwall.show.headed import print_json, print_page

    if path == "-":
        print_json(result.model_dump(mode="json"))
        return
    print_page(page())
    if path is not None:
        result.write(Path(path))


def amount(text: str, flag: str, dimension: Dimension = Dimension.BYTES) -> float:
    """The value of a flag with a unit."""
    try:
        value = units.parse(text, dimension)
    except ValueError as error:
        raise InputError.of(f"{flag}: {error}") from None
    if value <= 0:
        raise InputError.of(f"{flag}: {text} is not more than nothing")
    return value
