"""`syncwall measure calibration`: results as one file for `predict --calibration`.

Holds `calibration`.
"""

from pathlib import Path
from typing import Annotated

import tyro

from syncwall.problems import InputError


def calibration(
    results: Annotated[tuple[Path, ...], tyro.conf.Positional, tyro.conf.arg(metavar="RESULT")],
    /,
    json: Annotated[str, tyro.conf.arg(metavar="FILE")] = "-",
) -> int:
    """Join results of `measure collectives` and `measure matmul` into one calibration file.

    Args:
        results: JSON files that `measure` wrote.
        json: Write the calibration here; - for standard output.
    """
    from syncwall.documents import write_whole
    from syncwall.measure.calibrate import read_measured
    from syncwall.show.headed import print_json

    if not results:
        raise InputError.of("write the files to join: measure calibration RESULT.json ...")
    found = read_measured(results)
    if json == "-":
        print_json(found.model_dump(mode="json"))
        return 0
    write_whole(Path(json), found.model_dump_json(indent=1) + "\n")
    return 0
