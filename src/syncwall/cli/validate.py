"""`syncwall validate`: predictions beside published measurements.

Holds `validate`.
"""

from pathlib import Path
from typing import Annotated

import tyro

from syncwall.problems import InputError


def validate(
    path: Annotated[Path | None, tyro.conf.Positional, tyro.conf.arg(metavar="PATH")] = None,
    /,
    against: Annotated[Path | None, tyro.conf.arg(metavar="FILE")] = None,
    json: bool = False,
    html: Annotated[Path | None, tyro.conf.arg(metavar="FILE")] = None,
    worst: Annotated[int, tyro.conf.arg(metavar="N")] = 10,
    catalogue: Annotated[Path | None, tyro.conf.arg(metavar="DIR")] = None,
) -> int:
    """Compare predictions with measured runs: errors by source, accelerator, scale, parallelism.

    Args:
        path: A table of runs (CSV) or a directory of them; the built-in tables if left out.
        against: Other predictions (CSV: id and columns such as calculon_step_s), side by side.
        json: Print JSON, errors as fractions.
        html: Write a page with a scatter plot here.
        worst: How many of the runs that are furthest off are listed.
        catalogue: Look in this directory first (devices/NAME.yaml, ...).
    """
    from syncwall.catalogue import directories, searched_first
    from syncwall.cli.progress import bar
    from syncwall.documents import write_whole
    from syncwall.show.headed import print_json, print_page
    from syncwall.show.validation import scatter_page, validation_page
    from syncwall.validate.report import validate as validated

    if worst < 0:
        raise InputError.of(f"--worst: {worst} is no number of rows")
    with searched_first(catalogue), bar("predicting runs") as progress:
        directories()  # a wrong one is an error, not a reason to skip every row
        report = validated(path, against, progress)
    if html is not None:
        write_whole(html, scatter_page(report))
    if json:
        print_json(report.to_dict())
    else:
        print_page(validation_page(report, worst=worst))
    return 0
