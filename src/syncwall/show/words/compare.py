"""The sentences of a comparison.

Holds `names_of` (what tells the runs apart, in a few words), `what_runs`, `verdict` and `doubt`.
"""

from collections.abc import Sequence
from dataclasses import replace
from typing import Final

from syncwall.answer.difference import ALIKE, Ratio
from syncwall.answer.prediction import Prediction
from syncwall.describe import Run
from syncwall.job.compare import Beside, ComparedRun, Comparison
from syncwall.show.numbers import money, percent, span
from syncwall.show.words.layout import columns, run_words

_LARGE: Final = ("", " ", "GPUs")
"""Model, machine and its size, beside which nothing else is named."""
_FOLLOWS: Final = ("dp",)
"""Columns of layouts that follow from the others."""
_MOST: Final = 3
_SUREST: Final = 0.99


def names_of(runs: Sequence[ComparedRun]) -> list[str]:
    """The letter of each run and what the others have otherwise: "A dgx-b200"."""
    described = [one.prediction.run for one in runs if isinstance(one.prediction, Prediction)]
    if len(described) == len(runs):
        cells = _cells(described)
    else:
        cells = [{"": f"{one.prediction.cluster.name}"} for one in runs]
    differing = [key for key in cells[0] if len({one[key] for one in cells}) > 1]
    large = [key for key in differing if key in _LARGE]
    if len({tuple(one[key] for key in large) for one in cells}) == len(cells):
        differing = large
    elif len(differing) > 1:
        differing = [key for key in differing if key not in _FOLLOWS][:_MOST]
    said = [", ".join(f"{key} {one[key]}".strip() for key in differing) for one in cells]
    return [f"{one.name} {words}".strip() for one, words in zip(runs, said, strict=True)]


def _cells(runs: Sequence[Run]) -> list[dict[str, str]]:
    """What each run is, by the words for it."""
    layouts = columns([run.layout for run in runs])
    return [
        {
            "": run.model.name,
            " ": run.cluster.name,
            "GPUs": f"{run.gpus:,}",
            "seq": f"{run.seq:,}",
            "batch": f"{run.layout.global_batch:,}",
            "precision": str(run.layout.precision),
            "framework": run.software.framework or "",
            **{key: cells[number] for key, cells in layouts.items()},
        }
        for number, run in enumerate(runs)
    ]


def titled_runs(found: Comparison) -> list[ComparedRun]:
    """The runs, each with a title that tells it from the others."""
    titles = zip(found.runs, names_of(found.runs), strict=True)
    return [replace(one, title=title) for one, title in titles]


def what_runs(one: ComparedRun) -> str:
    """The run of a letter; that it does not fit, if so."""
    found = one.prediction
    if isinstance(found, Prediction):
        words = run_words(found.run)
    else:
        words = (
            f"{found.program.command or 'recorded program'} on {one.gpus:,} × {found.cluster.name}"
        )
    return words if found.fits else f"{words}; {found.verdict.text}"


def verdict(one: Beside) -> list[str]:
    """Whether one is faster, and of jobs when they end and what they cost."""
    ratios = one.ratios
    key = "tokens_per_s" if "tokens_per_s" in ratios else "step_s"
    speed = ratios[key]
    if key == "step_s":
        speed = Ratio(speed.after, speed.before, speed.deviation)
    return [_speed(one, speed), *_job(one)]


def _speed(one: Beside, speed: Ratio) -> str:
    before, after = one.before.name, one.after.name
    if speed.difference == 0:
        return f"{before} and {after} cannot be told apart: both are predicted to be as fast"
    quick, slow = (after, before) if speed.difference > 0 else (before, after)
    more = max(speed.value, 1 / speed.value)
    sure = percent(min(max(speed.probability, 1 - speed.probability), _SUREST))
    if speed.is_told_apart:
        return (
            f"{quick} trains {more:.2f} times as fast as {slow}, more than the doubt ({sure} sure)"
        )
    return (
        f"{before} and {after} cannot be told apart: {quick} is predicted {percent(more - 1, 1)} "
        f"faster, and really is with {sure}"
    )


def _job(one: Beside) -> list[str]:
    """Length and bill of both jobs."""
    found = []
    for key, what, text in (("finish_s", "done in", span), ("cost_usd", "costs", money)):
        if key in one.ratios:
            ratio = one.ratios[key]
            apart = "more than the doubt" if ratio.is_told_apart else "cannot be told apart"
            found.append(
                f"{what} {text(ratio.after)} ({one.after.name}), {text(ratio.before)} "
                f"({one.before.name}): {apart}"
            )
    return found


def doubt(one: Beside) -> str:
    """What the doubt about a difference rests on."""
    pair = f"{one.before.name} and {one.after.name}"
    both = (one.before.prediction, one.after.prediction)
    if any(isinstance(run, Prediction) and run.site.known for run in both):
        return f"{pair}: errors are taken to be independent beside known runs"
    if one.is_same_setup:
        return (
            f"{pair} share model, machine and software: of published pairs like them four of five "
            f"differ by less than {ALIKE:g} times what independent errors would give"
        )
    return (
        f"{pair} do not share model, machine and software: errors are taken to be independent; of "
        "published pairs like them nine of ten lie within the interval that this gives"
    )
