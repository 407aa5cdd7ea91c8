"""`syncwall measure links`: the rate between every pair of ranks, and who is slow.

Holds `links`.
"""

from collections.abc import Callable
from typing import TYPE_CHECKING, Annotated, Any, Literal

from syncwall.ask.question import Argument
from syncwall.cli.call import Command
from syncwall.cli.output import Output
from syncwall.problems import InputError

if TYPE_CHECKING:
    from syncwall.measure.suspects import Suspect
    from syncwall.measure.team import Stop, Team
    from syncwall.report import Links as LinksResult


class Links(Command):
    """Measure every pair of ranks, both ways, and name who is slow; launch with torchrun or srun.

    Exit code 1 if somebody is named.
    """

    backend: Literal["nccl", "gloo"] | None = None
    """What moves the data; NCCL where there is a GPU, else Gloo."""
    repeats: Annotated[int, Argument("N")] = 9
    """How often the whole schedule is run; fewer than 5 name nobody surely."""
    size: Annotated[str | None, Argument("SIZE")] = None
    """Of a transfer; otherwise so that one takes about 0.1 s."""
    expect: Annotated[str | None, Argument("RATE")] = None
    """What links between hosts should reach, such as 25Gb/s; those below 80% are named."""
    timeout: Annotated[float, Argument("S")] = 30.0
    """A call that takes longer means that a rank is lost."""
    out: Annotated[Output, Argument(inline=True, group="output")] = Output()
    """Where the answer goes."""

    def run(self) -> int:
        """The exit code."""
        from syncwall.cli.measure.session import amount, in_team
        from syncwall.units import Dimension

        if self.repeats < 1:
            raise InputError.of(f"--repeats: {self.repeats} is not a number of repeats")
        size_bytes = int(amount(self.size, "--size")) if self.size else None
        expected = amount(self.expect, "--expect", Dimension.BYTES_PER_S) if self.expect else None
        part = _Part(self.repeats, size_bytes, expected)
        return in_team(part, self.out, kind="links", backend=self.backend, timeout_s=self.timeout)


class _Part:
    """One call of the verb: what was asked, and what was measured so far."""

    def __init__(self, repeats: int, size_bytes: int | None, expected: float | None) -> None:
        from syncwall.measure.links import LinkData

        self.repeats, self.size_bytes, self.expected = repeats, size_bytes, expected
        self.data = LinkData()

    def work(self, team: "Team", stop: "Stop", progress: Callable[[float], None]) -> None:
        """Measure on every rank."""
        from syncwall.cli.measure.session import refuse_alone
        from syncwall.measure.links import measure_links

        refuse_alone(team, "links")
        measure_links(
            team,
            self.data,
            repeats=self.repeats,
            size_bytes=self.size_bytes,
            stop=stop,
            progress=progress,
        )

    def found(self, team: "Team") -> "tuple[dict[str, Any], LinksResult]":
        """What was asked, the rates, and who is slow."""
        from syncwall.report import Links as LinksResult

        asked = {"repeats": self.repeats, "expected_bytes_per_s": self.expected}
        return asked, LinksResult(
            rows=tuple(self.data.rows),
            suspects=self._suspects(team),
            size_bytes=self.data.size_bytes,
            repeats=self.data.repeats,
        )

    def _suspects(self, team: "Team") -> "tuple[Suspect, ...]":
        from syncwall.measure.suspects import slow_against, suspects

        if not self.data.repeats:
            return ()
        samples = self.data.samples
        found = suspects(samples, team.hosts)
        if self.expected is not None:
            named = {rank for one in found for rank in one.ranks}
            below = slow_against(samples, team.hosts, self.expected)
            found += tuple(one for one in below if not named & set(one.ranks))
        return found
