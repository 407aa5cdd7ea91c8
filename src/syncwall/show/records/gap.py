"""A measured step beside its prediction, as plain data: seconds.

Holds `GapRecord` with `gap_record`.
"""

from collections.abc import Sequence

from typing_extensions import TypedDict

from syncwall.answer.gap import Gap, Suspect
from syncwall.show.records.interface import record


@record
class SuspectRecord(TypedDict):
    """One thing that may be otherwise than described."""

    key: str
    """tcp, power, kernels, recompute, data, ..."""
    what: str
    detail: str
    """What it is then, in the words of a run file; empty if no description can say it."""
    step_s: float
    """Predicted step with it; that measured if it has no price."""
    explained: float
    """Share of the gap that it explains."""
    probability: float
    """Among all that was tried, and nothing at all."""
    seen: str
    """Where it was met."""
    tell: str
    """The cheapest experiment that tells."""


@record
class GapRecord(TypedDict):
    """A measured step beside the predicted one."""

    measured_s: float
    gap_s: float
    """What it takes longer than predicted; negative if less."""
    ratio: float
    """Measured over predicted."""
    usual: bool
    """True if the measured step lies in the 80% interval of the prediction."""
    wrong: bool
    """True if it is so far off that the description or the machine is wrong."""
    suspects: list[SuspectRecord]
    """What would explain it, each the run predicted with one thing changed, the likeliest first."""
    unpriced: list[SuspectRecord]
    """What no description can say, and may cost anything."""


def gap_record(gap: Gap) -> GapRecord:
    """All of it."""
    return {
        "measured_s": gap.measured_s,
        "gap_s": gap.gap_s,
        "ratio": gap.ratio,
        "usual": gap.is_usual,
        "wrong": gap.is_wrong,
        "suspects": _records(gap, gap.suspects),
        "unpriced": _records(gap, gap.unpriced),
    }


def _records(gap: Gap, suspects: Sequence[Suspect]) -> list[SuspectRecord]:
    return [
        {"key": one.key, "what": one.what, "detail": one.detail, "step_s": one.step_s,
         "explained": gap.explained(one), "probability": one.probability, "seen": one.seen,
         "tell": one.tell}
        for one in suspects
    ]  # fmt: skip
