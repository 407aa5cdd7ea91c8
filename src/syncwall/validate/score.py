"""How far predictions, ours and those of others, are from measurements.

Holds `Score`, `score`, `with_known` and `evenly`; the error of a run is |predicted / measured - 1|.
`Summary` and `summary`: one line for all sources that no fit has read. Sources count the same
however many rows they have; times that were put together from a few others (`Part.COMPOSED`) are no
measurements and do not count. `Baselines`: other predictors, from a CSV with a column `id` and one
column `<name>_step_s` each, and `BaselineComparison`, the errors of one of them beside ours.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TypeVar

import numpy as np

from syncwall.answer.site import KnownStep
from syncwall.problems import InputError, Problem
from syncwall.validate.evaluation import ValidatedRun, known_steps
from syncwall.validate.known import FEWEST_RUNS, MOST_RUNS, KnownSet
from syncwall.validate.split import part_of
from syncwall.validate.table import read_csv

_ENDING = "_step_s"
_NO_PREDICTOR = "measured_step_s"


@dataclass(frozen=True, slots=True)
class BaselineComparison:
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

    def compare(self, outcomes: Sequence[ValidatedRun]) -> dict[str, BaselineComparison]:
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
                message = f'"{cells[column]}" in column {column} is not a number of seconds'
                problems.append(Problem(str(path), line, 1, message))
            else:
                known = step_s.setdefault(column.removesuffix(_ENDING), {})
                known[cells.get("id", "").strip()] = seconds
    if problems:
        raise InputError(problems)
    if not step_s:
        message = f"has no predictions: a column such as calculon{_ENDING} holds seconds by id"
        raise InputError.of(message, file=str(path))
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


def _compared(common: Sequence[ValidatedRun], seconds: dict[str, float]) -> BaselineComparison:
    measured = np.array([one.case.measured_s for one in common])
    theirs = np.abs(np.array([seconds[one.case.row.id] for one in common]) / measured - 1.0)
    ours = np.abs(np.array([one.step_s for one in common]) / measured - 1.0)
    return BaselineComparison(
        n=len(common),
        mape=float(theirs.mean()),
        mape_ours=float(ours.mean()),
        median_ape=float(np.median(theirs)),
        median_ape_ours=float(np.median(ours)),
    )


Item = TypeVar("Item")
Steps = Mapping[str, KnownStep]
"""Runs that may be taken as known, by the id of their row."""


@dataclass(frozen=True, slots=True)
class Score:
    """Errors over some runs."""

    n: int
    mape: float
    """Mean of |predicted / measured − 1|."""
    median_ape: float
    """Median of it."""
    ratio_median: float
    """Predicted over measured."""
    ratio_p10: float
    ratio_p90: float
    coverage80: float
    """Share of the runs inside their 80% interval."""
    mape_one_known_run: float | None
    """Mean error of the others after one run of the set was given as known, over all choices; None
    if they are few, or of several sources, which are not one site."""
    mape_three_known_runs: float | None
    """The same after three, drawn by lot; None also with fewer than nine runs."""
    mape_five_known_runs: float | None
    """After five."""
    mape_without_bias: float
    """Mean error after dividing by the median ratio, as if all runs of the set were known."""
    n_memory: int = 0
    """Runs whose memory the source gives."""
    memory_mape: float | None = None
    """Mean error of their memory."""
    memory_median_ape: float | None = None
    """Median error of it."""
    not_fitting: float = 0.0
    """Share of all runs, which did run, that are predicted not to fit."""


def score(outcomes: Sequence[ValidatedRun], steps: Steps | None = None) -> Score:
    """Errors of `outcomes`, of which there is at least one; `steps` may be known runs."""
    ratios = np.array([outcome.ratio for outcome in outcomes])
    errors = np.abs(ratios - 1.0)
    covered = [low <= o.case.measured_s <= high for o in outcomes for low, high in [o.interval_s]]
    memory = [abs(found - 1.0) for o in outcomes if (found := o.memory_ratio) is not None]
    low, middle, high = np.quantile(ratios, (0.1, 0.5, 0.9))
    one, three, five = with_known(outcomes, steps or {})
    return Score(
        n=len(ratios),
        mape=float(errors.mean()),
        median_ape=float(np.median(errors)),
        ratio_median=float(middle),
        ratio_p10=float(low),
        ratio_p90=float(high),
        coverage80=float(np.mean(covered)),
        mape_one_known_run=one,
        mape_three_known_runs=three,
        mape_five_known_runs=five,
        mape_without_bias=float(np.abs(ratios / middle - 1.0).mean()),
        n_memory=len(memory),
        memory_mape=float(np.mean(memory)) if memory else None,
        memory_median_ape=float(np.median(memory)) if memory else None,
        not_fitting=float(np.mean([not outcome.fits for outcome in outcomes])),
    )


def evenly(items: Sequence[Item], most: int) -> list[Item]:
    """`items`, or `most` of them, evenly spread."""
    step = max(1.0, len(items) / most)
    return [items[int(i * step)] for i in range(min(len(items), most))]


def steps_of(outcomes: Sequence[ValidatedRun]) -> dict[str, KnownStep]:
    """Runs that may be taken as known: of each part of each source some, evenly spread."""
    groups: dict[tuple[str, str], list[ValidatedRun]] = {}
    for one in outcomes:
        groups.setdefault((one.case.row.source, str(part_of(one.case.row))), []).append(one)
    some = [one for members in groups.values() for one in evenly(members, MOST_RUNS)]
    return {one.case.row.id: step for one, step in zip(some, known_steps(some), strict=True)}


def with_known(
    outcomes: Sequence[ValidatedRun], steps: Steps
) -> tuple[float | None, float | None, float | None]:
    """Mean error of the other runs when one, three and five of `outcomes` are known."""
    some = [steps[one.case.row.id] for one in outcomes if one.case.row.id in steps]
    if len(some) < FEWEST or len({one.case.row.source for one in outcomes}) > 1:
        return None, None, None
    known = KnownSet.of(some)
    if len(some) < FEWEST_RUNS:
        return known.mape(1), None, None
    return known.mape(1), known.mape(3), known.mape(5)


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
    """Held-out rows of all sources, doubtful ones left out."""
    mape: float | None
    """Mean over the sources of their mean errors."""
    median_ape: float | None
    """Mean over the sources of their median errors."""
    coverage80_sources: float | None
    """Share of rows inside their 80% interval, mean over the sources."""
    coverage80_rows: float | None
    """The same over all rows."""
    sources_known: int
    """Sources with enough runs to take five of them as known; the next four are means over them."""
    mape_no_known_run: float | None
    mape_one_known_run: float | None
    mape_three_known_runs: float | None
    mape_five_known_runs: float | None
    against: dict[str, Versus]


def summary(
    outcomes: Sequence[ValidatedRun],
    doubted: set[str],
    baselines: Baselines | None = None,
    steps: Steps | None = None,
) -> Summary:
    """Errors of `outcomes` that are held out; `doubted` are ids that do not count."""
    held = [
        one
        for one in outcomes
        if part_of(one.case.row).is_held_out and one.case.row.id not in doubted
    ]
    groups: dict[str, list[ValidatedRun]] = {}
    for one in held:
        groups.setdefault(one.case.row.source, []).append(one)
    scores = [score(members, steps) for members in groups.values() if len(members) >= FEWEST]
    known = [one for one in scores if one.mape_five_known_runs is not None]
    return Summary(
        sources=len(scores),
        n=len(held),
        mape=_mean(scores, "mape"),
        median_ape=_mean(scores, "median_ape"),
        coverage80_sources=_mean(scores, "coverage80"),
        coverage80_rows=score(held).coverage80 if held else None,
        sources_known=len(known),
        mape_no_known_run=_mean(known, "mape"),
        mape_one_known_run=_mean(known, "mape_one_known_run"),
        mape_three_known_runs=_mean(known, "mape_three_known_runs"),
        mape_five_known_runs=_mean(known, "mape_five_known_runs"),
        against=_versus(list(groups.values()), baselines) if baselines else {},
    )


def _mean(scores: list[Score], name: str) -> float | None:
    return float(np.mean([getattr(one, name) for one in scores])) if scores else None


def _versus(groups: list[list[ValidatedRun]], baselines: Baselines) -> dict[str, Versus]:
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
