"""How far predictions, ours and those of others, are from measurements.

Holds `Score`, `score`, `anchored_mape` and `evenly`; the error of a run is |predicted / measured -
1|. `Summary` and `summary`: one line for all sources that no fit has read. Sources count the same
however many rows they have; times that were put together from a few others (`Part.COMPOSED`) are no
measurements and do not count. `Baselines`: other predictors, from a CSV with a column `id` and one
column `<name>_step_s` each, and `Comparison`, the errors of one of them beside ours.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TypeVar

import numpy as np

from syncwall.answer.site import BETWEEN_SITES, PER_DISTANCE, WITHIN_SITE
from syncwall.answer.traits import site_distances
from syncwall.problems import InputError, Problem
from syncwall.validate.evaluation import Outcome
from syncwall.validate.sets import Part, part_of
from syncwall.validate.table import read_csv

_ENDING = "_step_s"
_NO_PREDICTOR = "measured_step_s"


@dataclass(frozen=True, slots=True)
class Comparison:
    """Errors of a baseline and ours over the runs that both can predict."""

    n: int
    mape: float
    mape_ours: float
    median_ape: float
    median_ape_ours: float


@dataclass(frozen=True, slots=True)
class Baselines:
    """Step times of other predictors."""

    step_s: dict[str, dict[str, float]]
    """Seconds by the name of the predictor and the id of the run."""

    def compare(self, outcomes: Sequence[Outcome]) -> dict[str, Comparison]:
        """Every predictor that has some of `outcomes`."""
        found = {}
        for name, seconds in self.step_s.items():
            common = [one for one in outcomes if one.case.row.id in seconds]
            if common:
                found[name] = _compared(common, seconds)
        return found


def read_baselines(path: Path) -> Baselines:
    """The predictors in the table `path`."""
    step_s: dict[str, dict[str, float]] = {}
    problems: list[Problem] = []
    for cells, line in read_csv(path, ["id"]):
        for column in _predictors(cells):
            seconds = _seconds(cells[column])
            if seconds is None:
                said = f'"{cells[column]}" in column {column} is no number of seconds'
                problems.append(Problem(str(path), line, 1, said))
            else:
                known = step_s.setdefault(column.removesuffix(_ENDING), {})
                known[cells.get("id", "").strip()] = seconds
    if problems:
        raise InputError(problems)
    if not step_s:
        said = f"has no predictions: a column such as calculon{_ENDING} holds seconds by id"
        raise InputError.of(said, file=str(path))
    return Baselines(step_s)


def _predictors(cells: dict[str, str]) -> list[str]:
    """Filled columns of predictors."""
    return [
        name
        for name, cell in cells.items()
        if name.endswith(_ENDING) and name != _NO_PREDICTOR and cell.strip()
    ]


def _seconds(text: str) -> float | None:
    try:
        seconds = float(text)
    except ValueError:
        return None
    return seconds if 0 < seconds < 1e12 else None


def _compared(common: Sequence[Outcome], seconds: dict[str, float]) -> Comparison:
    measured = np.array([one.case.measured_s for one in common])
    theirs = np.abs(np.array([seconds[one.case.row.id] for one in common]) / measured - 1.0)
    ours = np.abs(np.array([one.step_s for one in common]) / measured - 1.0)
    return Comparison(
        n=len(common),
        mape=float(theirs.mean()),
        mape_ours=float(ours.mean()),
        median_ape=float(np.median(theirs)),
        median_ape_ours=float(np.median(ours)),
    )


Item = TypeVar("Item")
MOST_ANCHORS = 400
"""Runs of a set that are tried as known runs."""


@dataclass(frozen=True, slots=True)
class Score:
    """Errors over some runs."""

    n: int
    mape: float
    """Mean of the errors."""
    median_ape: float
    ratio_median: float
    """Predicted over measured."""
    ratio_p10: float
    ratio_p90: float
    coverage80: float
    """Share of the runs inside their 80 % interval."""
    mape_one_known_run: float | None
    """Mean error of the others after one run of the set was given as known, over all choices."""
    mape_without_bias: float
    """Mean error after dividing by the median ratio, as if all runs of the set were known."""
    n_memory: int = 0
    """Runs whose memory the source gives."""
    memory_mape: float | None = None
    """Mean error of their memory."""


def score(outcomes: Sequence[Outcome]) -> Score:
    """Errors of `outcomes`, of which there is at least one."""
    ratios = np.array([outcome.ratio for outcome in outcomes])
    errors = np.abs(ratios - 1.0)
    covered = [low <= o.case.measured_s <= high for o in outcomes for low, high in [o.interval_s]]
    memory = [found for o in outcomes if (found := o.memory_ratio) is not None]
    low, middle, high = np.quantile(ratios, (0.1, 0.5, 0.9))
    return Score(
        n=len(ratios),
        mape=float(errors.mean()),
        median_ape=float(np.median(errors)),
        ratio_median=float(middle),
        ratio_p10=float(low),
        ratio_p90=float(high),
        coverage80=float(np.mean(covered)),
        mape_one_known_run=anchored_mape(outcomes) if len(ratios) > 2 else None,
        mape_without_bias=float(np.abs(ratios / middle - 1.0).mean()),
        n_memory=len(memory),
        memory_mape=float(np.mean(np.abs(np.array(memory) - 1.0))) if memory else None,
    )


def evenly(items: Sequence[Item], most: int) -> list[Item]:
    """`items`, or `most` of them, evenly spread."""
    step = max(1.0, len(items) / most)
    return [items[int(i * step)] for i in range(min(len(items), most))]


def anchored_mape(outcomes: Sequence[Outcome]) -> float:
    """Mean error of the other runs when one run of the set is known, averaged over that one.

    Of long sets an even sample counts.
    """
    some = evenly(outcomes, MOST_ANCHORS)
    logs = np.log([outcome.ratio for outcome in some])
    traits = [outcome.traits for outcome in some]
    far = np.array([site_distances(traits, one) for one in traits])
    trusted = BETWEEN_SITES**2 / (BETWEEN_SITES**2 + WITHIN_SITE**2 + (PER_DISTANCE * far) ** 2)
    errors = np.abs(np.expm1(logs[None, :] - trusted * logs[:, None]))
    count = len(some)
    return float((errors.sum() - np.trace(errors)) / (count * (count - 1)))


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
