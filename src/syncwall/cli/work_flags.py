"""The flags with which verbs take a recorded program in place of a run.

Holds `WorkFlags` and `RecordedWork`, what they amount to.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import tyro

from syncwall.cli.run_flags import RunFlags, stated
from syncwall.problems import InputError

if TYPE_CHECKING:
    from syncwall.cost.measured import MachineMeasurements
    from syncwall.describe import Cluster, Software
    from syncwall.work.program import Program


@dataclass(frozen=True)
class RecordedWork:
    """A recorded program and where it runs."""

    program: "Program"
    cluster: "Cluster"
    software: "Software"
    compiled: bool | None
    measured: "MachineMeasurements | None"


@dataclass(frozen=True)
class WorkFlags:
    """A recorded program."""

    work: Annotated[Path | None, tyro.conf.arg(metavar="FILE")] = None
    """A program that `syncwall capture` recorded, in place of model and layout."""
    compiled: bool = False
    """Join memory-bound kernels of a recorded program, as torch.compile does."""
    eager: bool = False
    """Do not, even if the program asks for torch.compile."""

    def recorded(self, whose: RunFlags, *, free: Sequence[str] = ()) -> RecordedWork:
        """The program, on the cluster that is named; flags beside `free` ones are refused."""
        from syncwall.describe import Software, lookup
        from syncwall.read.program import read_program

        assert self.work is not None
        if self.compiled and self.eager:
            raise InputError.of("--compiled and --eager contradict each other")
        if whose.cluster is None:
            raise InputError.of(
                "write --cluster NAME: the machine that the recorded program runs on"
            )
        _refuse_fixed(whose, free)
        software = Software.model_validate(stated(whose.software, ""))
        joined = None if self.compiled == self.eager else self.compiled
        cluster = lookup.cluster(whose.cluster)
        return RecordedWork(read_program(self.work), cluster, software, joined, whose.measured())


def _refuse_fixed(whose: RunFlags, free: Sequence[str]) -> None:
    """Refuse flags that a recorded program has fixed."""
    taken = ("cluster", "software.", *free)
    if "software.kernels" in whose.stated:
        raise InputError.of("--kernels is for descriptions: write --compiled or --eager")
    fixed = [name for name in whose.stated if not name.startswith(taken)]
    if fixed:
        message = (
            f"--{fixed[0].replace('_', '-')} cannot be changed in a recorded program: "
            "record it again with other arguments"
        )
        raise InputError.of(message)


Works = Annotated[WorkFlags, tyro.conf.arg(name="")]
"""Flags without a prefix."""
