"""A whole job: when it is done, where its time goes, what it costs, what to change.

Holds `job_view` and `job_blocks`.
"""

from functools import partial
from typing import Final

from syncwall.cause import CauseKind
from syncwall.job.completion import Completion, JobChange
from syncwall.show.blocks import Block, Figure, Ledger, Lines, Share, Verdict, View, table
from syncwall.show.numbers import energy, mass, money, percent, span
from syncwall.show.views.prediction import chosen, numbers
from syncwall.show.words import job as words
from syncwall.show.words.layout import run_title, run_words
from syncwall.show.words.prediction import assumed

_LISTED: Final = 5
"""Changes that are shown."""
_LEAST_S: Final = 1.0


def job_view(completion: Completion, *, assumptions: bool = False) -> View:
    """The job and its step."""
    prediction = completion.prediction
    step = Lines("Step", (words.step(completion),))
    blocks = job_blocks(completion, completion.changes, assumptions=assumptions)
    title = f"{run_title(prediction.run)}, until it is done"
    return View(title, (*blocks, step, *numbers(prediction), *chosen(prediction.assumed)))


def job_blocks(
    completion: Completion, changes: list[JobChange], *, assumptions: bool = False
) -> list[Block]:
    """What there is to say of the job, without its step."""
    return [
        Verdict((words.verdict(completion),), run_words(completion.prediction.run)),
        *_bounds(completion),
        *_phases(completion),
        *_pictures(completion),
        Lines("Stops", (words.stops(completion),)),
        Lines("Saves", (words.saves(completion),)),
        *([Lines("Measured", (known,))] if (known := words.measured(completion)) else []),
        *_next(changes),
        Lines("Left out", (words.switched_off(completion),)),
        *_assumed(completion, everything=assumptions),
    ]


def _bounds(completion: Completion) -> list[Block]:
    """P10, P50 and P90 of date, length, bill and energy."""
    bill, cost, power = completion.bill, completion.cost_usd, completion.energy_j
    steps, plan = completion.phases.steps, completion.settled.plan
    rows = []
    if completion.finish_dates is not None:
        dates = (f"{date:%Y-%m-%d}" if date else "never" for date in completion.finish_dates)
        rows.append(("date", *dates, f"starts {completion.job.start:%Y-%m-%d}"))
    undisturbed = f"{steps:,} steps, {span(plan.work_s)} undisturbed"
    rows.append(("length", *map(span, completion.finish_s), undisturbed))
    if cost is None:
        rows.append(("cost", "–", "–", "–", "no price is known: --job.price $3/GPU-hour"))
    else:
        spare = bill.gpus - completion.prediction.run.gpus
        paid = f"{bill.gpus:,} GPUs, {spare:,} spare, ${bill.usd_per_gpu_hour:.2f} an hour each"
        rows.append(("cost", *map(money, cost), paid))
    if completion.owned_cost_usd is not None:
        bought = f"bought: ${bill.owned_usd_per_gpu_hour:.2f} a GPU-hour with electricity"
        rows.append(("cost if bought", *map(money, completion.owned_cost_usd), bought))
    if power is not None:
        watts = f"{bill.watts_per_gpu:,.0f} W a GPU, all in"
        rows.append(("energy", *map(energy, power), watts))
    if completion.carbon_kg is not None:
        grams = f"{bill.carbon_g_per_kwh:,.0f} g of CO2 for a kWh"
        rows.append(("carbon", *map(mass, completion.carbon_kg), grams))
    counts = (f"{count:,.0f}" for count in completion.interruptions)
    rows.append(("interruptions", *counts, "not planned"))
    return table(("", "P10", "P50", "P90", ""), rows, ends_in_words=True)


def _phases(completion: Completion) -> list[Block]:
    """What the job consists of, if it has phases."""
    if not completion.job.phases:
        return []
    rows = [words.phase_cells(one) for one in completion.phases.parts]
    head = (
        "phase",
        "sequences",
        "of",
        "steps",
        "tokens",
        "step",
        "MFU",
        "undisturbed",
        "GPU-hours",
    )
    return table(head, rows, spare=("MFU", "of"))


def _pictures(completion: Completion) -> list[Block]:
    """When simulated jobs end, and where their time goes."""
    from syncwall.show.draw.curves import has_spread, span_histogram

    if not completion.finished_share:
        return []
    lengths_s = [float(one) for one in completion.outcome.finish_s]
    marks = list(zip(("P10", "P50", "P90"), completion.finish_s, strict=True))
    share = percent(completion.finished_share)
    caption = f"{completion.job.simulations:,} simulated jobs, {share} of which come to their end"
    drawn = partial(span_histogram, lengths_s, marks, "from start to end")
    return [*([Figure(drawn, caption)] if has_spread(lengths_s) else []), _ledger(completion)]


def _ledger(completion: Completion) -> Ledger:
    ordered = sorted(completion.ledger.items(), key=lambda pair: -float(pair[1]))
    parts = (
        Share(str(cause), float(s), cause.kind is CauseKind.LOST)
        for cause, s in ordered
        if float(s) >= _LEAST_S
    )
    title = "where the time goes (mean)"
    kinds = ("useful", "lost")
    return Ledger(title, tuple(parts), completion.mean_s, "job", span, kinds)


def _next(changes: list[JobChange]) -> list[Block]:
    """Single changes, each played through with the same failures."""
    useful = [change for change in changes if words.worth(change)][:_LISTED]
    if not useful:
        return [Lines("Next", ("no single change of the job helps",))]
    rows = [
        (f"{number}", one.what, *words.change_cells(one), percent(one.completion.effective, 1))
        for number, one in enumerate(useful, 1)
    ]
    head = ("", "change", "length", "cost", "useful")
    return table(head, rows, words=2, label="Next", spare=("useful",))


def _assumed(completion: Completion, *, everything: bool) -> list[Block]:
    """What the job rests on."""
    if not everything:
        inputs = f"{words.assumed_inputs(completion)} (all: --explain-assumptions)"
        return [Lines("Assumed", (inputs,), is_quiet=True)]
    rows = [(i.name, words.value_text(i), i.trust, i.source or "") for i in completion.inputs]
    head = ("input", "value", "trust", "source")
    step = tuple(assumed(completion.prediction))
    return [*table(head, rows, words=4), Lines("Assumed", step)]
