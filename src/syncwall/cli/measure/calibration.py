"""`syncwall measure calibration`: results as one file for `predict --calibration`.

Holds `calibration`.
"""

from functools import partial
from typing import Annotated

from syncwall.ask.question import Argument, LocalFile
from syncwall.cli.call import Command
from syncwall.cli.output import Output
from syncwall.problems import InputError


class Calibration(Command):
    """Join results of `measure collectives` and `measure matmul` into one calibration file.

    It is printed as JSON unless a file is named.
    """

    results: Annotated[tuple[LocalFile, ...], Argument("RESULT", positional=True)] = ()
    """JSON files that `measure` wrote."""
    out: Annotated[Output, Argument(inline=True, group="output")] = Output()
    """Where the answer goes."""

    def run(self) -> int:
        """The exit code."""
        from syncwall.measure.calibrate import read_measured
        from syncwall.records import plain
        from syncwall.show.measurement import calibration_view

        self.out.check()
        if not self.results:
            raise InputError.of("write the files to join: measure calibration RESULT.json ...")
        found = read_measured(self.results)
        out = self.out if self.out != Output() else Output(json_file="-")
        out.write_data(
            "measure calibration", partial(calibration_view, found), partial(plain, found)
        )
        return 0
