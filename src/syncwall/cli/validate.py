"""`syncwall validate`: predictions beside published measurements.

Holds `validate`.
"""

from pathlib import Path
from typing import Annotated

import tyro

from syncwall.cli.output import Output, OutputFlags
from syncwall.problems import InputError


def validate(
    path: Annotated[Path | None, tyro.conf.Positional, tyro.conf.arg(metavar="PATH")] = None,
    /,
    against: Annotated[Path | None, tyro.conf.arg(metavar="FILE")] = None,
    worst: Annotated[int, tyro.conf.arg(metavar="N")] = 10,
    catalogue: Annotated[Path | None, tyro.conf.arg(metavar="DIR")] = None,
    out: Output = OutputFlags(),  # noqa: B008 - a dataclass of defaults, never changed
) -> int:
    """Compare predictions with measured runs: errors by source, accelerator, scale, parallelism.

    Args:
        path: A table of runs (CSV), a run file with the key `measured`, or a directory of them; the
            built-in tables if left out.
        against: Other predictions (CSV: id and columns such as calculon_step_s), side by side.
        worst: How many of the runs that are furthest off are listed.
        catalogue: Look in this directory first (devices/NAME.yaml, ...).
        out: Where the answer goes; a page has every run in a scatter plot.
    """
    from syncwall.catalogue import directories, searched_first
    from syncwall.cli.progress import bar
    from syncwall.validate.report import validate as validated

    if worst < 0:
        raise InputError.of(f"--worst: {worst} is not a number of rows")
    out.check()
    with searched_first(catalogue), bar("predicting runs") as progress:
        directories()  # a wrong one is an error, not a reason to skip every row
        report = validated(path, against, progress)
    out.write(report, worst=worst)
    return 0
