"""Runs beside each other: one table of numbers, one of causes, one picture, and the sentences."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from functools import partial
from typing import Final

from syncwall.answer.difference import ALIKE, Ratio
from syncwall.cause import LEAST_SHARE, Cause
from syncwall.describe import Run
from syncwall.job.job_comparison import Beside, ComparedRun, Comparison
from syncwall.show.blocks import Block, Figure, Lines, Paragraph, Verdict, View, table
from syncwall.show.layout import columns, run_words
from syncwall.show.numbers import (
    duration,
    energy,
    gigabytes,
    mass,
    money,
    percent,
    signed,
    signed_percent,
    span,
)
from syncwall.show.prediction import left_open

_LARGE: Final = ("", " ", "GPUs")
"""Model, machine and its size, beside which nothing else is named."""
_FOLLOWS: Final = ("dp",)
"""Columns of layouts that follow from the others."""
_MOST: Final = 3
_SUREST: Final = 0.99


def names_of(runs: Sequence[ComparedRun]) -> list[str]:
    """The letter of each run and what the others have otherwise: "A dgx-b200"."""
    described = [one.prediction.run for one in runs if not one.prediction.is_recorded]
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
    if found.is_recorded:
        what = found.program.command or "recorded program"
        words = f"{what} on {one.gpus:,} × {found.cluster.name}"
    else:
        words = run_words(found.run)
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
        return f"{quick} trains {more:.2f} times as fast as {slow}, more than the doubt ({sure} sure)"
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
    if any(run.site.known for run in both):
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


_APART, _TIED = "told apart", "cannot be told apart"
_ROWS: Final[dict[str, tuple[str, Callable[[float], str]]]] = {
    "step_s": ("step", duration),
    "tokens_per_s_per_gpu": ("tokens/s/GPU", "{:,.0f}".format),
    "tokens_per_s": ("tokens/s in all", "{:,.0f}".format),
    "mfu": ("MFU", lambda share: percent(share, 1)),
    "memory_bytes": ("memory", gigabytes),
    "usd_per_1m_tokens": ("cost of 1M tokens", "${:.3g}".format),
    "finish_s": ("length of the job", span),
    "cost_usd": ("cost of the job", money),
    "owned_cost_usd": ("cost if bought", money),
    "energy_j": ("energy of the job", energy),
    "carbon_kg": ("CO2 of the job", mass),
}
"""What a quantity is called, and how it is written."""


def comparison_view(found: Comparison) -> View:
    """All of it."""
    names = names_of(found.runs)
    return View(" beside ".join(names), (comparison_verdict(found), *comparison_blocks(found)))


def comparison_verdict(found: Comparison) -> Verdict:
    """What can be said of every run beside the first."""
    return Verdict(tuple(line for one in found.beside for line in verdict(one)))


def comparison_blocks(found: Comparison) -> list[Block]:
    """What there is to say beside the verdict."""
    names = names_of(found.runs)
    return [
        *(Lines(one.name, (what_runs(one),)) for one in found.runs),
        *_numbers(found, names),
        _picture(found, names),
        *_causes(found),
        *_other_steps(found),
        Lines("Doubt", tuple(doubt(one) for one in found.beside)),
        *_prices(found),
        *_chosen(found),
    ]


def _numbers(found: Comparison, names: list[str]) -> list[Block]:
    """A row for each quantity; under a heading for each pair if there are several."""
    many = len(found.beside) > 1
    rows: list[tuple[str, ...]] = []
    for number, one in enumerate(found.beside, 1):
        rows += [(f"{names[number]} beside {names[0]}",)] if many else []
        rows += [*_rows(one), *_of_jobs(one)]
    pair = ("first", "other") if many else (names[0], names[1])
    head = ("", *pair, "difference", "80% interval", "")
    return table(head, rows, ends_in_words=True, spare=("80% interval",))


def _rows(one: Beside) -> Iterator[tuple[str, ...]]:
    for key, (name, text) in _ROWS.items():
        if key in one.ratios:
            ratio = one.ratios[key]
            low, high = (signed_percent(bound - 1, 0) for bound in ratio.interval)
            told = _APART if ratio.is_told_apart else _TIED
            yield (
                name,
                text(ratio.before),
                text(ratio.after),
                _change(ratio),
                f"{low} to {high}",
                told,
            )
        elif key in ("usd_per_1m_tokens", "cost_usd") and (cells := _one_price(one, key, text)):
            yield name, *cells, "", "", "no price is known of the other: job.price=$3/GPU-hour"


def _of_jobs(one: Beside) -> Iterator[tuple[str, ...]]:
    """What jobs are stated or planned to have: no doubt is known of it."""
    jobs = [run.completion for run in (one.before, one.after) if run.completion is not None]
    if len(jobs) < 2:
        return
    first, other = (job.bill.gpus for job in jobs)
    paid = (f"{first:,}", f"{other:,}", signed_percent(other / first - 1) if other != first else "")
    yield "GPUs paid for", *paid, "", "with spare nodes"
    dates = [job.finish_dates[1] for job in jobs if job.finish_dates is not None]
    if len(dates) == 2:
        yield "done on (P50)", *(f"{d:%Y-%m-%d}" if d else "never" for d in dates), "", "", ""


def _one_price(one: Beside, key: str, text: Callable[[float], str]) -> tuple[str, str] | None:
    """What is paid for one of two runs, where nobody knows it of the other."""
    pair = one.before, one.after
    values = [run.usd_per_1m_tokens if key == "usd_per_1m_tokens" else run.job_value(key) for run in pair]
    if all(value is None for value in values):
        return None
    first, other = ("–" if value is None else text(value) for value in values)
    return first, other


def _change(ratio: Ratio) -> str:
    return "0.0%" if ratio.difference == 0 else signed_percent(ratio.value - 1)


def _listed(found: Comparison) -> list[Cause]:
    """Causes that have a line in one of the steps, the largest first."""
    least = {
        cause: max(float(one.prediction.ledger[cause]) / one.prediction.step_s for one in found.runs)
        for one in found.runs
        for cause in one.prediction.ledger
    }
    return sorted((c for c in least if least[c] >= LEAST_SHARE), key=lambda c: -least[c])


def _picture(found: Comparison, names: list[str]) -> Figure:
    from syncwall.show.draw.bars import BarGroup, group_chart, group_lines

    groups = [
        BarGroup(str(cause), tuple(float(one.prediction.ledger[cause]) for one in found.runs))
        for cause in _listed(found)
    ]
    letters = [one.name for one in found.runs]
    return Figure(
        partial(group_chart, groups, names, "time of a step", duration),
        f"where the time of a step goes: {', '.join(names)}",
        partial(group_lines, groups, letters, duration),
    )


def _causes(found: Comparison) -> list[Block]:
    """Seconds of the step by cause, and what each run has more of them than the first."""
    rows = []
    for cause in _listed(found):
        cells = [duration(float(one.prediction.ledger[cause])) for one in found.runs]
        rows.append((str(cause), *cells, *(_seconds(one.ledger_s.get(cause, 0.0)) for one in found.beside)))
    totals = [duration(one.prediction.step_s) for one in found.runs]
    steps = [_seconds(one.ratios["step_s"].difference) for one in found.beside]
    rows.append(("step", *totals, *steps))
    letters = [one.name for one in found.runs]
    differences = [f"{letter} − {letters[0]}" for letter in letters[1:]]
    head = ("where the time goes", *letters, *differences)
    return table(head, rows, strong=frozenset({len(rows) - 1}))


def _seconds(difference_s: float) -> str:
    return "0 s" if difference_s == 0 else signed(difference_s)


def _other_steps(found: Comparison) -> list[Block]:
    """That steps do not train the same number of tokens, if so."""
    if len({float(one.prediction.work.tokens) for one in found.runs}) == 1:
        return []
    return [
        Paragraph(
            "Steps of these runs train different numbers of tokens: compare tokens/s, not steps.",
            is_quiet=True,
        )
    ]


def _prices(found: Comparison) -> list[Block]:
    priced = [(one, one.price) for one in found.runs if one.price is not None]
    if not priced:
        return []
    said = "; ".join(f"{one.name} ${each:.2f}/GPU-hour ({source})" for one, (each, source) in priced)
    return [Lines("Prices", (f"{said}; taken as they are, without doubt",), is_quiet=True)]


def _chosen(found: Comparison) -> list[Block]:
    said = tuple(_opened(one) for one in found.runs if _opened(one))
    return [Lines("Chosen", said, is_quiet=True)] if said else []


def _opened(one: ComparedRun) -> str:
    fields = one.prediction.assumed
    return f"{one.name}: {left_open(fields)}" if fields else ""
