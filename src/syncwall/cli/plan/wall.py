"""`syncwall plan wall`: how many GPUs are worth it, what stops a run, what moves the wall.

Holds `wall`.
"""

from pathlib import Path
from typing import Annotated

import tyro

from syncwall.cli.output import Output, OutputFlags
from syncwall.cli.run_flags import RunFlags, Whose
from syncwall.cli.work_flags import WorkFlags, Works
from syncwall.problems import InputError


def wall(  # noqa: PLR0913, PLR0917 - the flags of the verb
    whose: Whose = RunFlags(),  # noqa: B008 - a dataclass of defaults, never changed
    least: Annotated[int | None, tyro.conf.arg(metavar="GPUS")] = None,
    most: Annotated[int, tyro.conf.arg(metavar="GPUS")] = 2**20,
    replica_batch: Annotated[int | None, tyro.conf.arg(metavar="N")] = None,
    best_layout: bool = False,
    chart: Annotated[Path | None, tyro.conf.arg(metavar="FILE")] = None,
    out: Output = OutputFlags(),  # noqa: B008
    recorded: Works = WorkFlags(),  # noqa: B008
) -> int:
    """How far a run scales: where efficiency falls, why, and what moves the wall.

    The run is as stated on its --nodes or --gpus. Where no layout is given, the best one is
    searched anew at every count; where no batch is given, it is the model's published one.

    Args:
        whose: The run.
        least: Fewest GPUs, with which efficiency is compared; the fewest on which the run fits.
        most: Most GPUs.
        replica_batch: Sequences of a replica in weak scaling; those of the run if not given.
        best_layout: Search the best layout at every count, also if one is stated.
        chart: Write the curves here (SVG).
        out: Where the answer goes.
        recorded: A program in place of the run: each rank keeps its batch.
    """
    if recorded.work is not None:
        _refuse_searches(replica_batch, best_layout, chart)
        return _program(recorded, whose, out, most, least)
    from syncwall.catalogue import searched_first
    from syncwall.cli.progress import bar
    from syncwall.documents import write_whole
    from syncwall.plan.reference import reference
    from syncwall.plan.wall.found import WallPlan, wall_of
    from syncwall.show.draw.wall import svg_chart

    out.check()
    with searched_first(whose.catalogue), bar("scaling") as progress:
        start = reference(whose.said())
        answer = wall_of(
            start, most, least=least, replica_batch=replica_batch, best_layout=best_layout,
            progress=progress,
        )  # fmt: skip
    if chart is not None:
        write_whole(chart, svg_chart(answer).file())
    out.write(WallPlan(start, answer))
    return 0


def _program(
    recorded: WorkFlags, whose: RunFlags, out: OutputFlags, most: int, least: int | None
) -> int:
    """How far a recorded program scales."""
    from syncwall.catalogue import searched_first
    from syncwall.cli.progress import bar
    from syncwall.plan.programs import ProgramCase
    from syncwall.plan.wall.program import program_wall

    out.check()
    with searched_first(whose.catalogue), bar("scaling") as progress:
        case = ProgramCase(**vars(recorded.recorded(whose)))
        found = program_wall(case, most, least=least or 1, progress=progress)
        out.write(found)
    return 0


def _refuse_searches(replica_batch: int | None, best_layout: bool, chart: Path | None) -> None:
    given = {"replica-batch": replica_batch, "best-layout": best_layout, "chart": chart}
    for name, value in given.items():
        if value:
            raise InputError.of(f"--{name} is for descriptions: a recorded program has its layout")
