"""One thing found in a user's files: what it is, why it matters, what to try next.

Holds `Finding`, shared by every check in `explain` that points at a setting, a link or a file.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Literal

Severity = Literal["wrong", "suspect", "note"]
"""`wrong` costs speed for sure, `suspect` may cost speed, `note` is worth knowing."""

_ORDER: dict[Severity, int] = {"wrong": 0, "suspect": 1, "note": 2}


@dataclass(frozen=True, slots=True)
class Finding:
    """One finding; `slowdown` is step time now over step time once mended, None where unknown."""

    severity: Severity
    what: str
    """The fact, as read: "NCCL uses sockets between nodes"."""
    why: str
    """Why that matters."""
    next: str
    """What to change or to collect."""
    where: str
    """`file:line` of the evidence; a file alone where there is no line."""
    slowdown: float | None = None


def worst_first(findings: Iterable[Finding]) -> tuple[Finding, ...]:
    """Sorted by severity, then by slowdown (the largest first), then by text."""
    return tuple(
        sorted(findings, key=lambda f: (_ORDER[f.severity], -(f.slowdown or 0.0), f.what, f.where))
    )
