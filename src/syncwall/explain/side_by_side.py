"""Two ledgers side by side: predicted and measured, or before and after.

Holds `Gap`, `SideBySide` and `side_by_side`. A prediction knows what is recomputed and which
parallel axis is waited for, a trace knows kernels and process groups; both are summed up to the
causes that they share.
"""

from dataclasses import dataclass
from typing import Final

from syncwall.cause import Cause
from syncwall.timeline.ledger import Ledger

_WORK: Final = {
    Cause.GEMM: Cause.GEMM,
    Cause.OUTPUT_LAYER: Cause.GEMM,
    Cause.CONVOLUTION: Cause.GEMM,
    Cause.ATTENTION: Cause.ATTENTION,
    Cause.OPTIMIZER: Cause.OPTIMIZER,
}
"""Work that both tell apart; all else is "other computation": element-wise kernels, copies,
recomputation, contention."""
NAMED_FROM: Final = 0.8
"""Share of the gap that one cause must explain to be named."""


@dataclass(frozen=True, slots=True)
class CauseGap:
    """One cause in both."""

    cause: str
    first_s: float
    second_s: float

    @property
    def gap_s(self) -> float:
        """What the second spends more."""
        return self.second_s - self.first_s


@dataclass(frozen=True)
class SideBySide:
    """Two ledgers in the same causes."""

    gaps: tuple[CauseGap, ...]
    """The largest difference first."""

    @property
    def first_s(self) -> float:
        """Step of the first."""
        return sum(gap.first_s for gap in self.gaps)

    @property
    def second_s(self) -> float:
        """Step of the second."""
        return sum(gap.second_s for gap in self.gaps)

    @property
    def gap_s(self) -> float:
        """What the second step takes longer; shorter if negative."""
        return self.second_s - self.first_s

    @property
    def named(self) -> CauseGap | None:
        """The cause that explains most of the gap; None if no single one does."""
        same_way = [gap for gap in self.gaps if gap.gap_s * self.gap_s > 0]
        largest = max(same_way, key=lambda gap: abs(gap.gap_s), default=None)
        if largest is None or abs(largest.gap_s) < NAMED_FROM * abs(self.gap_s):
            return None
        return largest


def side_by_side(first: Ledger, second: Ledger) -> SideBySide:
    """`first` and `second` in the causes that they share; each still adds up to its step."""
    one, other = shared(first), shared(second)
    causes = dict.fromkeys([*one, *other])
    gaps = [CauseGap(cause, one.get(cause, 0.0), other.get(cause, 0.0)) for cause in causes]
    return SideBySide(tuple(sorted(gaps, key=lambda gap: -abs(gap.gap_s))))


def shared(ledger: Ledger) -> dict[str, float]:
    """Seconds by shared cause."""
    found: dict[str, float] = {}
    for cause, seconds in ledger.items():
        found[_line(cause)] = found.get(_line(cause), 0.0) + float(seconds)
    return found


def _line(cause: Cause) -> str:
    if cause.is_exposed:
        return "exposed communication"
    return "idle" if cause.is_wait else _WORK.get(cause, "other computation")
