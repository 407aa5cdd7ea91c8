"""`syncwall measure collectives`: times of collectives over sizes.

Holds `collectives`.
"""

from collections.abc import Callable
from typing import TYPE_CHECKING, Annotated, Any, Final, Literal

from pydantic import Field

from syncwall.ask.question import Argument
from syncwall.cli.call import Command
from syncwall.cli.output import Output
from syncwall.problems import InputError, refuse_unknown

if TYPE_CHECKING:
    from syncwall.measure.collectives import BenchmarkKind, CollectiveRow, Effort, SkippedKind
    from syncwall.measure.team import Stop, Team
    from syncwall.report import Collectives as CollectivesResult

_MOST_BYTES: Final = {"cpu": 64 * 2**20, "cuda": 8 * 10**9}


class Collectives(Command):
    """Time collectives over sizes, as nccl-tests does; launch with torchrun or srun."""

    backend: Literal["nccl", "gloo"] | None = None
    """What moves the data; NCCL where there is a GPU, else Gloo."""
    kinds: Annotated[str | None, Argument("NAMES")] = None
    """Which ones, such as all-reduce,all-gather; all six if left out."""
    least: Annotated[str, Argument("SIZE"), Field(alias="min-size")] = "8B"
    """The smallest size; each next one is 4 times as large."""
    most: Annotated[str | None, Argument("SIZE"), Field(alias="max-size")] = None
    """The largest size; 64 MiB on CPUs, 8 GB on GPUs, never more than memory allows."""
    dtype: Literal["float32", "bfloat16", "float16"] = "float32"
    """What the vectors hold."""
    trials: Annotated[int | None, Argument("N")] = None
    """Trials of each point; otherwise as many as fit into --seconds, 5 to 100."""
    seconds: Annotated[float, Argument("S")] = 1.0
    """Time for each point."""
    timeout: Annotated[float, Argument("S")] = 30.0
    """A call that takes longer means that a rank is lost."""
    out: Annotated[Output, Argument(inline=True, group="output")] = Output()
    """Where the answer goes."""

    def run(self) -> int:
        """The exit code."""
        from syncwall.cli.measure.session import in_team
        from syncwall.measure.collectives import Effort

        if self.trials is not None and self.trials < 1:
            raise InputError.of(f"--trials: {self.trials} is not a number of trials")
        effort = Effort(self.seconds, self.trials, longest_s=self.timeout / 4.0)
        part = _Part(_kinds(self.kinds), self.least, self.most, self.dtype, effort)
        return in_team(
            part, self.out, kind="collectives", backend=self.backend, timeout_s=self.timeout
        )


class _Part:
    """One call of the verb: what was asked, and the rows so far."""

    def __init__(
        self,
        kinds: "tuple[BenchmarkKind, ...]",
        least: str,
        most: str | None,
        dtype: str,
        effort: "Effort",
    ) -> None:
        self.kinds, self.least, self.most = kinds, least, most
        self.dtype, self.effort = dtype, effort
        self.rows: list[CollectiveRow] = []
        self.skipped: list[SkippedKind] = []

    def work(self, team: "Team", stop: "Stop", progress: "Callable[[float], None]") -> None:
        """Measure on every rank."""
        from syncwall.cli.measure.session import refuse_alone
        from syncwall.measure.collectives import CollectiveRow, measure_collectives

        refuse_alone(team, "collectives")
        found = measure_collectives(
            team,
            self.kinds,
            self._sizes(team),
            dtype=self.dtype,
            effort=self.effort,
            stop=stop,
            progress=progress,
        )
        for row in found:
            if isinstance(row, CollectiveRow):
                self.rows.append(row)
            else:
                self.skipped.append(row)

    def found(self, team: "Team") -> "tuple[dict[str, Any], CollectivesResult]":
        """What was asked, and the rows."""
        from syncwall.report import Collectives as CollectivesResult

        asked = {
            "kinds": self.kinds,
            "min_size": self.least,
            "max_size": self.most,
            "dtype": self.dtype,
            "trials": self.effort.trials,
            "seconds": self.effort.seconds,
        }
        return asked, CollectivesResult(rows=tuple(self.rows), skipped=tuple(self.skipped))

    def _sizes(self, team: "Team") -> tuple[int, ...]:
        from syncwall.cli.measure.session import amount
        from syncwall.measure.collectives import most_bytes, sizes_between

        least = amount(self.least, "--min-size")
        asked = amount(self.most, "--max-size") if self.most else _MOST_BYTES[team.device.type]
        sizes = sizes_between(least, min(asked, most_bytes(team)))
        if not sizes:
            raise InputError.of(
                f"--min-size {self.least} is more than --max-size, or than memory allows"
            )
        return sizes


def _kinds(text: str | None) -> "tuple[BenchmarkKind, ...]":
    from syncwall.measure.collectives import KINDS

    if text is None:
        return KINDS
    asked = [word.strip() for word in text.split(",") if word.strip()]
    for word in asked:
        refuse_unknown(word, KINDS, f'--kinds: unknown "{word}"')
    return tuple(kind for kind in KINDS if kind in asked)
