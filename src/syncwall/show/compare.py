"""Runs beside each other: a row for each, what can be concluded, and behind it all the numbers."""

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import replace
from functools import partial
from math import log
from typing import Final

from syncwall.answer.difference import Certainty, Ratio, shared_error
from syncwall.answer.priced import likely_fits
from syncwall.cause import LEAST_SHARE, Cause
from syncwall.describe import Layout, Run, Software
from syncwall.describe.choice import text_of
from syncwall.job.job_comparison import MEASURES, Beside, ComparedRun, Comparison
from syncwall.show.blocks import Block, Figure, Lines, Paragraph, Verdict, View, table
from syncwall.show.layout import columns, layout_words, run_words, setting_words
from syncwall.show.numbers import (
    duration,
    energy,
    gigabytes,
    mass,
    money,
    percent,
    plural,
    signed,
    signed_percent,
    span,
)

_COLUMNS: Final[dict[str, tuple[str, ...]]] = {
    "batch": ("global_batch",),
    "precision": ("precision",),
    "tp": ("tp", "sp"),
    "pp": ("pp",),
    "cp": ("cp",),
    "ep": ("ep",),
    "etp": ("etp",),
    "micro batch": ("micro_batch",),
    "schedule": ("schedule", "virtual_stages"),
    "sharding": ("shard",),
    "recompute": ("recompute", "recompute_layers", "recompute_modules"),
    "exchange": ("dispatcher", "overlap_ep"),
    "dp": ("dp",),
}
"""Fields of a layout that have words of their own."""
_FOLLOWS: Final = ("dp", "shard_degree")
_MOST: Final = 3
_FEW: Final = 2
"""Keys that others change, up to which the first run is named by its own values of them."""
_SUREST: Final = 0.99
_NO_MATTER: Final = 0.02
"""Choices matter that change how two runs compare by more than this."""
_EVERY_PAIR: Final = 3
"""Runs up to which each has a sentence; of more, the fastest and the cheapest."""


def names_of(runs: Sequence[ComparedRun]) -> list[str]:
    """The letter of each run and what it has otherwise than the first: "B precision fp8"."""
    if any(one.prediction.is_recorded for one in runs):
        cells = [{"machine": one.prediction.cluster.name} for one in runs]
        changed = [["machine"] * (one != cells[0]) for one in cells]
    else:
        cells = _cells(runs)
        changed = [_changed(cells, runs, number) for number in range(len(runs))]
    others = list(dict.fromkeys(key for keys in changed[1:] for key in keys))
    changed[0] = others if len(others) <= _FEW else []
    said = [", ".join(one[key] for key in keys[:_MOST]) for one, keys in zip(cells, changed, strict=True)]
    return [f"{one.name} {words}".strip() for one, words in zip(runs, said, strict=True)]


def _changed(cells: Sequence[dict[str, str]], runs: Sequence[ComparedRun], number: int) -> list[str]:
    """Keys in which a run differs from the first: those that somebody stated, if there are any."""
    first, other = (one.asked.layout for one in (runs[0], runs[number]))
    differing = [key for key in cells[0] if cells[number][key] != cells[0][key]]

    def is_stated(key: str) -> bool:
        pairs = [(getattr(first, name), getattr(other, name)) for name in _COLUMNS.get(key, ())]
        if key in differing:
            return not pairs or any(one != two for one, two in pairs)
        return any((one is None) != (two is None) for one, two in pairs[:1])

    stated = [key for key in cells[0] if key not in _FOLLOWS and is_stated(key)]
    return stated or [key for key in differing if key not in _FOLLOWS] or differing


def _cells(runs: Sequence[ComparedRun]) -> list[dict[str, str]]:
    """What each run is, in words by what they are about."""
    found = [one.prediction for one in runs]
    layouts = columns([one.run.layout for one in found])
    return [
        {
            "model": one.run.model.name,
            "machine": one.run.cluster.name,
            "GPUs": plural(one.run.gpus, "GPU"),
            "seq": f"seq {one.run.seq:,}",
            "batch": f"batch {one.run.layout.global_batch:,}",
            "precision": f"precision {one.run.layout.precision}",
            "framework": f"framework {one.run.software.framework}",
            **{key: f"{key} {layouts[key][number] or 'none'}" for key in _COLUMNS if key in layouts},
            **_further(runs[number].asked),
        }
        for number, one in enumerate(found)
    ]


def _further(asked: Run) -> dict[str, str]:
    """Fields that have no column, as they were stated."""
    named = {name for fields in _COLUMNS.values() for name in fields}
    layout = {name: getattr(asked.layout, name) for name in Layout.model_fields if name not in named}
    software = {name: getattr(asked.software, name) for name in Software.model_fields if name != "framework"}
    return {
        name: f"{name} as usual" if value is None else setting_words(name, value)
        for name, value in (layout | software).items()
    }


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
    if not found.fits:
        return f"{words}; {found.verdict.text}"
    sure = likely_fits(found.memory_bytes, found.cluster.device)
    return words if sure else f"{words}; {found.room.probability:.0%} likely to fit"


def verdict(one: Beside) -> list[str]:
    """Whether one is faster, and of jobs when they end and what they cost."""
    return [_speed(one), *_job(one)]


def _speed(one: Beside) -> str:
    if not one.rests_on_choices:
        return _said(one, one.speed) + _alike(one)
    if one.alike is not None and abs(log(one.alike.value / one.speed.value)) < _NO_MATTER:
        return _said(one, one.alike) + f", with or without choices that nobody stated: {_apart(one)}"
    times = _more(one.speed)
    quick, slow = _ordered(one, one.speed)
    alike = (
        "nothing that fits both is alike" if one.alike is None else f"chosen alike, {_said(one, one.alike)}"
    )
    return (
        f"{quick} is predicted to train {times:.2f} times as fast as {slow} with choices that nobody stated: "
        f"{_apart(one)}; {alike}"
    )


def _ordered(one: Beside, speed: Ratio) -> tuple[str, str]:
    """The faster one, and the other."""
    pair = one.after.name, one.before.name
    return pair if speed.difference > 0 else pair[::-1]


def _said(one: Beside, speed: Ratio) -> str:
    """What can be concluded of both speeds."""
    before, after = one.before.name, one.after.name
    if speed.certainty is Certainty.SAME:
        return f"{before} and {after} are the same: nothing in their steps differs"
    if speed.difference == 0:
        return f"{before} and {after} cannot be told apart: both are predicted to be as fast"
    quick, slow = _ordered(one, speed)
    times, sure = _times(speed), _sure(speed)
    if speed.certainty is Certainty.APART:
        return f"{quick} trains {times} as fast as {slow}, {sure} sure"
    if speed.certainty is Certainty.LIKELY:
        return f"{quick} is faster than {slow}, size uncertain: {times} as fast, {sure} sure"
    return (
        f"{before} and {after} cannot be told apart: {quick} is predicted "
        f"{percent(_more(speed) - 1, 1)} faster, {sure} likely"
    )


def _more(speed: Ratio) -> float:
    return max(speed.value, 1 / speed.value)


def _times(speed: Ratio) -> str:
    """How many times as fast the faster one is, from P10 to P90."""
    low, high = speed.interval if speed.difference > 0 else (1 / bound for bound in reversed(speed.interval))
    return f"{_more(speed):.2f} times ({low:.2f} to {high:.2f})"


def _sure(speed: Ratio) -> str:
    return percent(min(max(speed.probability, 1 - speed.probability), _SUREST))


def _apart(one: Beside) -> str:
    """What was chosen otherwise for both."""
    names = one.before.name, one.after.name
    return "; ".join(
        ", ".join(f"{key} {value} ({name})" for value, name in zip(values, names, strict=True))
        for key, values in one.chosen_apart.items()
    )


def _alike(one: Beside) -> str:
    """What was chosen alike, though one of them alone would have it otherwise, and what was not."""
    said = dict.fromkeys(words for run in (one.before, one.after) for words in _given_up(run).values())
    apart = f"; tuned: {_apart(one)}" if one.chosen_apart else ""
    return (f", with {' and '.join(said)} in both" if said else "") + apart


def _given_up(run: ComparedRun) -> dict[str, str]:
    """Choices that `predict` would not make for a run, in words."""
    if run.alone is None:
        return {}
    own, now = run.alone.assumed, run.prediction.run.layout
    fields = {key: getattr(now, key) for key in own if key in Layout.model_fields}
    return {key: setting_words(key, value) for key, value in fields.items() if text_of(value) != own[key]}


def _job(one: Beside) -> list[str]:
    """Length and bill of both jobs."""
    found = []
    for key, what, text in (("finish_s", "done in", span), ("cost_usd", "costs", money)):
        if key in one.ratios:
            ratio = one.ratios[key]
            found.append(
                f"{what} {text(ratio.after)} ({one.after.name}), {text(ratio.before)} "
                f"({one.before.name}): {_certain(ratio)}"
            )
    return found


def _certain(ratio: Ratio) -> str:
    sized = ratio.certainty in (Certainty.APART, Certainty.LIKELY)
    return f"{_sure(ratio)} sure" if sized else str(ratio.certainty)


def doubt(one: Beside) -> str:
    """What the doubt about a difference rests on."""
    pair = f"{one.before.name} and {one.after.name}"
    both = (one.before.prediction, one.after.prediction)
    if one.speed.certainty is Certainty.SAME:
        return f"{pair}: nothing in their steps differs"
    if len({run.cluster.device.name for run in both}) > 1:
        return f"{pair} run on different devices: their errors are taken to be independent"
    known = ", or what known runs of the site leave" * any(run.site.known for run in both)
    return (
        f"{pair} have {percent(1 - one.changed_share)} of their steps in common: of the doubt of independent "
        f"errors {percent(shared_error(one.changed_share))} is left, as in pairs of published runs{known}"
    )


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


def comparison_view(found: Comparison, *, details: bool = False) -> View:
    """A row for each run; with `details` on the screen, too, all that pages have."""
    title = " beside ".join(names_of(found.runs))
    short, more = (comparison_verdict(found), *_short(found)), _details(found)
    return View(title, (*short, *more)) if details else View(title, short, tuple(more))


def comparison_verdict(found: Comparison) -> Verdict:
    """What can be said of every run beside the first; of many, of the fastest and the cheapest."""
    about = f"{found.runs[0].name}: {what_runs(found.runs[0])}"
    if len(found.runs) <= _EVERY_PAIR:
        jobs = len(found.beside) == 1
        said = (line for one in found.beside for line in (verdict(one) if jobs else [_speed(one)]))
        return Verdict(tuple(said), about)
    return Verdict(tuple(_winners(found)), about)


def _winners(found: Comparison) -> Iterator[str]:
    first, fastest = found.runs[0], max(found.runs, key=_speed_of)
    if fastest is first:
        yield f"none is predicted to be faster than {first.name}"
    else:
        beside = next(one for one in found.beside if one.after is fastest)
        yield f"fastest: {_speed(beside)}"
    priced = {one.name: one.usd_per_1m_tokens for one in found.runs if one.usd_per_1m_tokens}
    if len(set(priced.values())) > 1 and len(priced) == len(found.runs):
        cheapest = min(priced, key=lambda name: priced[name] or 0.0)
        least, now = priced[cheapest], priced[first.name]
        yield f"cheapest: {cheapest}, ${least:.3g} for 1M tokens; {first.name} ${now:.3g}"


def _speed_of(one: ComparedRun) -> float:
    return one.tokens_per_s or 1.0 / one.prediction.step_s


def comparison_blocks(found: Comparison) -> list[Block]:
    """What there is to say beside the verdict."""
    return [*_short(found), *_details(found)]


def _short(found: Comparison) -> list[Block]:
    return [
        *_runs(found),
        *_layouts(found),
        *_other_steps(found),
        *_unfit(found),
        *_extrapolating(found),
        *_chosen(found),
        *_prices(found),
    ]


def _details(found: Comparison) -> list[Block]:
    names = names_of(found.runs)
    return [
        *(Lines(one.name, (what_runs(one),)) for one in found.runs),
        *_numbers(found, names),
        _picture(found, names),
        *_causes(found),
        Lines("Doubt", tuple(doubt(one) for one in found.beside)),
    ]


_IN_ROWS: Final = {
    "step_s": "step",
    "tokens_per_s_per_gpu": "tokens/s/GPU",
    "mfu": "MFU",
    "memory_bytes": "memory",
    "usd_per_1m_tokens": "1M tokens",
    "finish_s": "job",
    "cost_usd": "bill",
}
_SPARE: Final = ("1M tokens", "MFU", "step", "memory")


def _runs(found: Comparison) -> list[Block]:
    """A row for each run: what it has otherwise, its numbers, and what follows."""
    head = ("run", *_IN_ROWS.values(), f"beside {found.runs[0].name}")
    beside = ["", *map(_beside, found.beside)]
    rows = [
        (name, *_numbers_of(one), said)
        for name, one, said in zip(names_of(found.runs), found.runs, beside, strict=True)
    ]
    return table(head, rows, ends_in_words=True, spare=_SPARE)


def _numbers_of(one: ComparedRun) -> Iterator[str]:
    for key in _IN_ROWS:
        value = MEASURES[key](one)
        yield _ROWS[key][1](value) if value else ""


def _beside(one: Beside) -> str:
    """The verdict in a few words."""
    speed = one.speed
    if speed.certainty is Certainty.SAME:
        return str(speed.certainty)
    if one.rests_on_choices:
        alike = "" if one.alike is None else f", {one.alike.value:.2f} chosen alike"
        return f"{speed.value:.2f} times with other choices{alike}"
    if speed.certainty is Certainty.TIED:
        return f"{speed.certainty}, {_sure(speed)}"
    low, high = speed.interval
    word = "sure" if speed.certainty is Certainty.APART else "likely"
    return f"{speed.value:.2f} times ({low:.2f} to {high:.2f}), {_sure(speed)} {word}"


def _grouped(found: Iterable[tuple[str, str]], count: int) -> tuple[str, ...]:
    """Sentences, each once, with the letters of the runs that they are about."""
    letters: dict[str, list[str]] = {}
    for letter, words in found:
        letters.setdefault(words, []).append(letter)
    return tuple(
        f"{'all' if len(which) == count else ', '.join(which)}: {words}" for words, which in letters.items()
    )


def _layouts(found: Comparison) -> list[Block]:
    """Those that were searched."""
    said = [(one.name, layout_words(one.prediction.run.layout)) for one in found.runs if one.searched]
    return [Lines("Layout", _grouped(said, len(found.runs)))] if said else []


def _unfit(found: Comparison) -> list[Block]:
    said = [(one.name, one.prediction.verdict.text) for one in found.runs if not one.prediction.fits]
    return [Lines("Memory", _grouped(said, len(found.runs)))] if said else []


def _extrapolating(found: Comparison) -> list[Block]:
    """Runs like which none was validated, and why."""
    far = [one for one in found.runs if one.prediction.interval.extrapolating]
    said = [(one.name, ", ".join(("extrapolating", *one.prediction.interval.reasons))) for one in far]
    return [Lines("Evidence", _grouped(said, len(found.runs)))] if said else []


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
            told = str(ratio.certainty)
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
    priced = [(one.name, one.price) for one in found.runs if one.price is not None]
    if not priced:
        return []
    said = [(name, f"${each:.2f}/GPU-hour ({source})") for name, (each, source) in priced]
    unknown = "no price is known, state one: job.price=$3/GPU-hour"
    said += [(one.name, unknown) for one in found.runs if one.price is None]
    return [Lines("Prices", ("; ".join(_grouped(said, len(found.runs))),), is_quiet=True)]


def _chosen(found: Comparison) -> list[Block]:
    """What was left open, and what alone would have been chosen otherwise."""
    values: dict[str, list[tuple[str, str]]] = {}
    for one in found.runs:
        for key, value in one.prediction.assumed.items():
            values.setdefault(key, []).append((one.name, value))
    said = [f"{key} {_by_letters(pairs)}" for key, pairs in values.items()]
    alike = tuple(_alone(one) for one in found.runs if _given_up(one))
    lines = ((", ".join(said),) if said else ()) + alike
    return [Lines("Chosen", lines, is_quiet=True)] if lines else []


def _by_letters(pairs: Sequence[tuple[str, str]]) -> str:
    """Values, each with the runs that have it if there are several."""
    letters: dict[str, list[str]] = {}
    for name, value in pairs:
        letters.setdefault(value, []).append(name)
    if len(letters) == 1:
        return next(iter(letters))
    return " or ".join(f"{value} ({', '.join(which)})" for value, which in letters.items())


def _alone(one: ComparedRun) -> str:
    """What a run gives up so that all have the same."""
    assert one.alone is not None
    given, faster = _given_up(one), one.prediction.step_s / one.alone.step_s
    own = " and ".join(f"{key} {one.alone.assumed[key]}" for key in given)
    return (
        f"{one.name} has {' and '.join(given.values())} as the others; alone, with {own}, it would train "
        f"{faster:.2f} times as fast (or each in its own: --best-layout)"
    )
