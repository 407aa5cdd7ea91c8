"""One line for all sources that no fit has read.

Holds `Summary` and `summary`. Sources count the same however many rows they have; times that were
put together from a few others (`Part.COMPOSED`) are no measurements and do not count.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from syncwall.validate.baseline import Baselines
from syncwall.validate.evaluation import Outcome
from syncwall.validate.score import Score, score
from syncwall.validate.split import Part, part_of

FEWEST = 3
"""Rows that a source needs to count in a mean over sources."""


@dataclass(frozen=True, slots=True)
class Versus:
    """A baseline and we over the held-out sources of which both predict enough rows."""

    sources: int
    n: int
    mape: float
    mape_ours: float


@dataclass(frozen=True, slots=True)
class Summary:
    """Errors over the held-out sources."""

    sources: int
    """How many have enough rows."""
    n: int
    """Held-out rows without doubt, of all sources."""
    mape: float | None
    """Mean over the sources of their mean errors."""
    median_ape: float | None
    """Mean over the sources of their median errors."""
    coverage80_sources: float | None
    """Share of rows inside their 80 % interval, mean over the sources."""
    coverage80_rows: float | None
    """The same over all rows."""
    against: dict[str, Versus]


def summary(
    outcomes: Sequence[Outcome], doubted: set[str], baselines: Baselines | None = None
) -> Summary:
    """Errors of `outcomes` that are held out; `doubted` are ids that do not count."""
    held = [
        one
        for one in outcomes
        if part_of(one.case.row) is Part.HELD_OUT and one.case.row.id not in doubted
    ]
    groups: dict[str, list[Outcome]] = {}
    for one in held:
        groups.setdefault(one.case.row.source, []).append(one)
    scores = [score(members) for members in groups.values() if len(members) >= FEWEST]
    return Summary(
        sources=len(scores),
        n=len(held),
        mape=_mean(scores, "mape"),
        median_ape=_mean(scores, "median_ape"),
        coverage80_sources=_mean(scores, "coverage80"),
        coverage80_rows=score(held).coverage80 if held else None,
        against=_versus(list(groups.values()), baselines) if baselines else {},
    )


def _mean(scores: list[Score], name: str) -> float | None:
    return float(np.mean([getattr(one, name) for one in scores])) if scores else None


def _versus(groups: list[list[Outcome]], baselines: Baselines) -> dict[str, Versus]:
    compared = [baselines.compare(members) for members in groups]
    found = {}
    for name in baselines.step_s:
        enough = [one[name] for one in compared if name in one and one[name].n >= FEWEST]
        if enough:
            found[name] = Versus(
                sources=len(enough),
                n=sum(one.n for one in enough),
                mape=float(np.mean([one.mape for one in enough])),
                mape_ours=float(np.mean([one.mape_ours for one in enough])),
            )
    return found
