"""How far predictions, ours and those of others, are from measurements, by set of runs.

Which runs are known is drawn by lot, always alike.

Sources count the same however many rows they have; times that were put together from a few others
(`Part.COMPOSED`) are no measurements and do not count.
"""

import operator
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any, Final, TypeVar

import numpy as np
from numpy.typing import NDArray

from syncwall.answer.site import Covariances, KnownStep, site_distances, site_prior, weighted
from syncwall.catalogue import BUILT_IN
from syncwall.documents import read_document
from syncwall.problems import InputError, Problem
from syncwall.validate.evaluation import ValidatedRun, known_steps
from syncwall.validate.table import RowUse, RunRow, corpus_part, read_csv

Array = NDArray[Any]
FEWEST_RUNS: Final = 9
"""Runs that a source needs before several of them are taken as known."""
MOST_RUNS: Final = 150
"""Runs of a source that count, evenly spread."""
_DRAWS: Final = 60
_SEED: Final = 16


def known_choices(runs: int, known: int) -> Any:
    """Which of `runs` runs are known, one choice a row: each run alone, or `known` drawn by lot."""
    if known == 1:
        return np.arange(runs)[:, None]
    lot = np.random.default_rng(_SEED)
    return np.array([lot.permutation(runs)[:known] for _ in range(_DRAWS)])


@dataclass(frozen=True)
class KnownSet:
    """Runs of one source, any of which may be known."""

    logs: Array
    """ln(measured / predicted)."""
    shares: Array
    apart: Array
    """Distances between them."""

    @classmethod
    def of(cls, steps: Sequence[KnownStep]) -> "KnownSet":
        """From measured runs beside their predictions."""
        traits = [one.traits for one in steps]
        return cls(
            np.log([one.ratio for one in steps]),
            np.array([one.shares for one in steps]),
            np.array([site_distances(traits, one) for one in traits]),
        )

    def anchored(self, chosen: Array, model: Covariances) -> Array:
        """ln(predicted / measured) of all runs, a row for every row of `chosen` known ones."""
        common = model.between(self.shares, self.shares, self.apart)
        alone = model.alone(self.shares)
        inside = common[chosen[:, :, None], chosen[:, None, :]]
        pull = weighted(inside, alone[chosen], self.logs[chosen])
        found: Array = np.einsum("ck,ckn->cn", pull, common[chosen]) - self.logs
        return found

    def left(self, known: int, model: Covariances) -> Array:
        """ln(predicted / measured) of every other run, for every choice of `known` ones."""
        chosen = known_choices(len(self.logs), known)
        found = self.anchored(chosen, model)
        others = np.ones(found.shape, dtype=bool)
        np.put_along_axis(others, chosen, values=False, axis=1)
        left: Array = found[others]
        return left

    def mape(self, known: int) -> float:
        """Mean error of the other runs."""
        return float(np.abs(np.expm1(self.left(known, Covariances(site_prior())))).mean())


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
    """Share of all runs, which did run, that are called impossible: the P10 of their memory is too
    much."""
    tight: float = 0.0
    """Share whose memory is predicted to leave less than the usual head-room, and may fit."""


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
        tight=float(np.mean([outcome.is_tight for outcome in outcomes])),
    )


def evenly(items: Sequence[Item], most: int) -> list[Item]:
    """`items`, or `most` of them, evenly spread."""
    step = max(1.0, len(items) / most)
    return [items[int(i * step)] for i in range(min(len(items), most))]


def known_run_sample(outcomes: Sequence[ValidatedRun]) -> dict[str, KnownStep]:
    """Runs that may be taken as known: of each part of each source some, evenly spread."""
    groups: dict[tuple[str, str], list[ValidatedRun]] = {}
    for one in outcomes:
        groups.setdefault((one.case.row.source, str(corpus_part(one.case.row))), []).append(one)
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
class ErrorSummary:
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
) -> ErrorSummary:
    """Errors of `outcomes` that are held out; `doubted` are ids that do not count."""
    held = [
        one for one in outcomes if corpus_part(one.case.row).is_held_out and one.case.row.id not in doubted
    ]
    groups: dict[str, list[ValidatedRun]] = {}
    for one in held:
        groups.setdefault(one.case.row.source, []).append(one)
    scores = [score(members, steps) for members in groups.values() if len(members) >= FEWEST]
    known = [one for one in scores if one.mape_five_known_runs is not None]
    return ErrorSummary(
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


_BOUNDS: dict[str, Callable[[float, float], bool]] = {
    "<=": operator.le,
    ">=": operator.ge,
    "<": operator.lt,
    ">": operator.gt,
}
_SCALES = ((1, 8), (9, 64), (65, 512), (513, 4096), (4097, 10**7))


@dataclass(frozen=True, slots=True)
class RunSet:
    """Some runs under one name."""

    name: str
    kind: str
    """source, named, accelerator, scale, parallelism or all."""
    outcomes: list[ValidatedRun]
    held_out: bool
    """True if no fit may read any of them."""


def run_sets(outcomes: Sequence[ValidatedRun]) -> list[RunSet]:
    """Every set that has runs."""
    groups: dict[tuple[str, str], list[ValidatedRun]] = {}
    for outcome in outcomes:
        for key in _memberships(outcome):
            groups.setdefault(key, []).append(outcome)
    return [
        RunSet(name, kind, members, all(_held(one.case.row) for one in members))
        for (kind, name), members in groups.items()
    ]


def _memberships(outcome: ValidatedRun) -> Iterator[tuple[str, str]]:
    row = outcome.case.row
    part = corpus_part(row)
    yield "source", row.source + ("" if part.is_held_out else f" ({part})")
    if part is RowUse.CALIBRATION:
        yield "all", "calibration"
    else:
        yield "accelerator", outcome.case.cluster.device.name
        yield "scale", _scale(row.whole("gpus"))
        yield "parallelism", _parallelism(outcome)
        yield from (("named", name) for name in _named(row, part))


def _held(row: RunRow) -> bool:
    return corpus_part(row) is not RowUse.CALIBRATION


def _scale(gpus: int) -> str:
    low, high = next((low, high) for low, high in _SCALES if low <= gpus <= high)
    return f"{low} to {high} GPUs" if high < 10**7 else f"more than {low - 1} GPUs"


def _parallelism(outcome: ValidatedRun) -> str:
    layout = outcome.layout
    axes = [name for name in ("tp", "pp", "cp", "ep") if getattr(layout, name) > 1]
    return " + ".join([*axes, layout.shard.text])


def _named(row: RunRow, part: RowUse) -> Iterator[str]:
    for name, conditions in _conditions().items():
        if _meets(row, part, conditions):
            yield name


def _meets(row: RunRow, part: RowUse, conditions: dict[str, Any]) -> bool:
    for column, wanted in conditions.items():
        if column == "not":
            if _meets(row, part, wanted):
                return False
        elif column == "part":
            if part != wanted:
                return False
        elif not _matches(row, column, wanted):
            return False
    return True


def _matches(row: RunRow, column: str, wanted: Any) -> bool:
    if isinstance(wanted, list):
        return row.text(column) in wanted
    sign = str(wanted).split(" ")[0]
    if sign in _BOUNDS:
        return _BOUNDS[sign](row.number(column) or 0.0, float(str(wanted).split(" ")[1]))
    return row.text(column) == str(wanted)


@lru_cache(maxsize=1)
def _conditions() -> dict[str, Any]:
    value: dict[str, Any] = read_document(BUILT_IN / "validation" / "sets.yaml").value
    return value
