"""A measurement from joining to the last line printed, the same for every part of `measure`.

Holds `in_team` and `Part`, what it runs; `refuse_alone` and `amount`.
"""

import os
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from typing import TYPE_CHECKING, Any, Protocol

from syncwall import units
from syncwall.cli.output import Output
from syncwall.problems import InputError, visible
from syncwall.units import Dimension

if TYPE_CHECKING:
    from syncwall.measure.result import MachineLoad, ResultKind, Told
    from syncwall.measure.team import Stop, Team
    from syncwall.report import Data

    Found = tuple[dict[str, Any], Data]
    Progress = Callable[[float], None]


class Part(Protocol):
    """One call of a part of `measure`."""

    def work(self, team: "Team", stop: "Stop", progress: "Progress") -> None:
        """Measure; called on every rank."""

    def found(self, team: "Team") -> "Found | None":
        """What was asked, and what was measured until now; None if that is nothing."""


def in_team(
    part: Part, out: Output, *, kind: "ResultKind", backend: str | None, timeout_s: float
) -> int:
    """Run `part` on every rank, then show and write what it found on rank 0; the exit code.

    That is 1 if somebody is named as slow. Rank 0 also shows what there is after Ctrl-C (code 130),
    SIGTERM (code 143) and after a rank was lost (code 1); only rank 0 tells of wrong input. With
    several ranks the process ends here: what a broken process group leaves behind can hang or abort
    the end of the interpreter.
    """
    from syncwall.hosts import required_place

    here = required_place(os.environ)
    try:
        code = _run(part, out, kind, backend, timeout_s)
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


def _run(part: Part, out: Output, kind: "ResultKind", backend: str | None, timeout_s: float) -> int:
    from syncwall.cli.progress import bar
    from syncwall.measure.lost_ranks import LostRankError
    from syncwall.measure.result import MachineLoad
    from syncwall.measure.team import joined, stoppable

    team, lost = None, None
    told: list[Told] = []
    with stoppable() as stop:
        try:
            with joined(backend, timeout_s) as team, bar(kind, hidden=not team.leads) as progress:
                stop.joined = True
                _check(out, team)
                with _watching(team, told):
                    part.work(team, stop, progress)
        except LostRankError as error:
            lost = error
        stop.writing = True
        if lost is not None:
            print(visible(str(lost)), file=sys.stderr)
        code = 0
        if team is not None and team.leads:
            load = MachineLoad.of(*told) if told else None
            code = _shown(part, out, team, kind, load, complete=lost is None and not stop.agreed)
            code = stop.code if stop.agreed else code
    return code if lost is None else 1


def _check(out: Output, team: "Team") -> None:
    """All ranks end together if rank 0 could not write what it is asked to."""
    said = ""
    if team.leads:
        try:
            out.check()
        except InputError as error:
            said = str(error)
    if wrong := team.gathered(said)[0]:
        raise InputError.of(wrong)


@contextmanager
def _watching(team: "Team", told: "list[Told]") -> Iterator[None]:
    """Adds what else the hosts did before and meanwhile; a lab, whose hosts are one, does it."""
    from syncwall.hosts import HOST_NAME
    from syncwall.measure.result import Meter, watched

    if HOST_NAME in os.environ:
        yield
        return
    host = team.hosts[team.rank]
    team.barrier()  # nobody is still starting
    told.append(team.gathered(watched(host)))
    meter = Meter(host)
    yield
    told.append(team.gathered(meter.spent()))


def _shown(
    part: Part,
    out: Output,
    team: "Team",
    kind: "ResultKind",
    load: "MachineLoad | None",
    *,
    complete: bool,
) -> int:
    from syncwall.measure.result import Result
    from syncwall.records import plain
    from syncwall.show.measurement import measurement_view

    found = part.found(team)
    if found is None:
        return 1
    settings, data = found
    result = Result(
        kind=kind,
        complete=complete,
        job=team.job,
        hosts=team.facts,
        settings=settings,
        data=data.model_dump(mode="json"),
        load=load,
    )
    out.write_data(f"measure {kind}", partial(measurement_view, result), partial(plain, result))
    return 1 if result.data.get("suspects") else 0


def refuse_alone(team: "Team", part: str) -> None:
    """InputError if a part of `measure` that needs several ranks has only one."""
    if team.world == 1:
        launch = f"torchrun --nproc-per-node 2 -m syncwall measure {part}"
        raise InputError.of(f"one rank has nobody to talk to: {launch}")


def amount(text: str, flag: str, dimension: Dimension = Dimension.BYTES) -> float:
    """The value of a flag with a unit."""
    try:
        value = units.parse(text, dimension)
    except ValueError as error:
        raise InputError.of(f"{flag}: {error}") from None
    if value <= 0:
        raise InputError.of(f"{flag}: {text} is not more than nothing")
    return value
