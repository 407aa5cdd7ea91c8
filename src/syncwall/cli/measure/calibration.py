"""`syncwall measure calibration`: results as one file for `predict --calibration`.

Holds `calibration`.
"""

from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Annotated

import tyro

from syncwall.cli.output import Output, OutputFlags
from syncwall.problems import InputError


def calibration(
    results: Annotated[tuple[Path, ...], tyro.conf.Positional, tyro.conf.arg(metavar="RESULT")],
    /,
    out: Output = OutputFlags(),  # noqa: B008 - a dataclass of defaults, never changed
) -> int:
    """Join results of `measure collectives` and `measure matmul` into one calibration file.

    It is printed as JSON unless a file is named.

    Args:
        results: JSON files that `measure` wrote.
        out: Where the answer goes.
    """
    from syncwall.measure.calibrate import read_measured
    from syncwall.records import plain
    from syncwall.show.views.measurement import calibration_view

    out.check()
    if not results:
        raise InputError.of("write the files to join: measure calibration RESULT.json ...")
    found = read_measured(results)
    out = out if out != OutputFlags() else replace(out, json="-")
    out.write_data("measure calibration", partial(calibration_view, found), partial(plain, found))
    return 0
