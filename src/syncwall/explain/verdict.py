"""What can be concluded from files: one of four states, and what was compared with what for it.

Holds `VerdictState`, `EXIT_CODES`, `COSTLY`, `FEW_STEPS`, `PROVEN`, `Judged`, `NotJudged` and `Verdict`.
"""

from dataclasses import dataclass
from enum import StrEnum
from typing import Any, Final

from syncwall.public import published


class VerdictState(StrEnum):
    """What is known of the health of what was measured."""

    WRONG = "wrong"
    SUSPECT = "suspect"
    """Something that may cost speed, or a fault that is not proven."""
    NOT_JUDGED = "not judged"
    """Nothing was compared with anything: no good news."""
    HEALTHY = "healthy"


EXIT_CODES: Final = {
    VerdictState.WRONG: 1,
    VerdictState.SUSPECT: 3,
    VerdictState.NOT_JUDGED: 3,
    VerdictState.HEALTHY: 0,
}
"""2 is for wrong input."""
COSTLY: Final = 0.25
"""Share of a step from which an idle device is wrong, whatever was expected; below it is usual."""
FEW_STEPS: Final = 5
"""Fewer steps show that ranks differ, not that they always do."""
PROVEN: Final = 0.8
"""Share of the lost time that a cause explains at least, if it is named without a doubt."""


@published()
@dataclass(frozen=True, slots=True)
class Judged:
    """One comparison that a verdict rests on."""

    what: str
    """What was compared, with its sizes, steps or ranks."""
    against: str


@published()
@dataclass(frozen=True, slots=True)
class NotJudged:
    """What nothing was compared with."""

    what: str
    why: str
    give: str
    """What to give, or to measure, so that it can be judged."""
    file: str = ""


@dataclass(frozen=True, slots=True)
class Verdict:
    """A conclusion about one thing."""

    state: VerdictState
    about: Any
    """The hang, finding, comparison or ledger that it is about; `Judged` alone of what is healthy."""
    judged: tuple[Judged, ...] = ()
    """Empty if nothing was."""
    cause: str | None = None
    """What is to blame: a line of the ledger, a setting, a fault of the machine."""
    explained: float | None = None
    """Share of the lost time that the cause accounts for."""
    certainty: float | None = None
    """Probability that another sample of the same steps gives the same verdict."""
