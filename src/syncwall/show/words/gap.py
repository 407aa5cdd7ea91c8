"""The sentences about a measured step beside its prediction.

Holds `gap_verdict`, `suspect_words` and `other_words`.
"""

from syncwall.answer.gap import Gap, Suspect
from syncwall.show.numbers import duration


def gap_verdict(gap: Gap) -> str:
    """How far apart they are, and what that means."""
    ratio = max(gap.ratio, 1.0 / gap.ratio)
    apart = f"{ratio:.2f} times as {'long' if gap.ratio >= 1 else 'short'} as predicted"
    times = f"measured {duration(gap.measured_s)}, {apart} ({duration(gap.predicted.step_s)})"
    if gap.is_wrong:
        return f"description or machine is wrong: {times}"
    if gap.is_usual:
        return f"nothing to explain: {times}, as far apart as predictions and runs usually are"
    return f"{'slower' if gap.ratio > 1 else 'faster'} than is usual: {times}"


def suspect_words(one: Suspect) -> str:
    """What it is, and how it would be described."""
    return f"{one.what} ({one.detail})"


def other_words(gap: Gap) -> str:
    """What else it may be: several of them, and what may cost anything, with how to tell."""
    alone = "" if gap.is_explained else "none of these explains it alone: several at once; "
    return alone + "; ".join(f"{one.what}: {one.tell}" for one in gap.unpriced)
