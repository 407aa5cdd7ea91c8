"""A whole job: when it is done, where its time goes, what it costs, what to change."""

from functools import partial
from typing import Final

from syncwall import units
from syncwall.cause import CauseKind
from syncwall.job.bill import NOT_COUNTED, Bill
from syncwall.job.completion import Completion, JobChange
from syncwall.job.settled_job import Input, PredictedPhase
from syncwall.show.blocks import (
    Block,
    Breakdown,
    Cell,
    Figure,
    Lines,
    Share,
    Table,
    Verdict,
    View,
    table,
)
from syncwall.show.numbers import energy, mass, money, percent, plural, span
from syncwall.show.prediction import assumed, chosen, numbers, prediction_title, prediction_words
from syncwall.units import Dimension

_WORTH: Final = 1e-4
"""Share of the length that a change must gain to be shown."""
_OFF: Final = ("evaluation", "data_stall", "stragglers", "spikes", "maintenance")


def verdict(completion: Completion) -> str:
    """How long and how much of it is training, in one line."""
    low, middle, high = completion.finish_s
    if middle == float("inf"):
        down = completion.settled.plan.down_s
        return (
            f"does not finish: an interruption every {span(completion.mean_between_s)} with "
            f"{span(down)} to detect it and to restart leaves too little time to train"
        )
    fits = "" if completion.fits else "does not fit in memory; if it did, "
    return (
        f"{fits}done in {span(middle)} (80% interval {span(low)} to {span(high)}), "
        f"{completion.effective:.1%} of it useful"
    )


def step_limit(completion: Completion) -> str:
    """What limits a step; of a job with phases, one of the phase that takes most of the time."""
    said = completion.prediction.verdict.text
    if completion.phases.is_one:
        return said
    return f"phase {completion.phases.longest.stretch.phase}: {said}"


def phase_cells(one: PredictedPhase) -> tuple[str, ...]:
    """A phase as a row: what is trained, and how long it takes."""
    run, found = one.stretch.run, one.prediction
    tokens = units.format(one.stretch.tokens, Dimension.TOKENS, digits=3)
    reached = percent(found.mfu, 1) if found.fits else "does not fit"
    name = Cell(one.stretch.phase, row={"phase": one.stretch.phase, "value": found.step_s})
    return (
        name,
        f"{run.layout.global_batch:,}",
        f"{run.seq:,}",
        f"{one.stretch.steps:,}",
        tokens,
        span(found.step_s),
        reached,
        span(one.work_s),
        f"{one.gpu_hours:,.0f}",
    )


def stops(completion: Completion) -> str:
    """How often the job is interrupted, and by what."""
    plan = completion.settled.plan
    if not plan.rate_per_s:
        return "nothing fails"
    low, middle, high = completion.interruptions
    largest = max(plan.causes, key=lambda cause: cause.per_s)
    said = f"one interruption every {span(completion.mean_between_s)}"
    if completion.finished_share:
        times = f"{plural(middle, 'interruption')} ({low:,.0f} to {high:,.0f})"
        said = f"{times}, one every {span(completion.mean_between_s)}"
    if len(plan.causes) > 1:
        said += f"; {largest.name} {largest.per_s / plan.rate_per_s:.0%}"
    taken = completion.settled.domain_nodes
    said += f"; a failure takes {plural(taken, 'node')} away for {span(plan.repair_s)}"
    lost = 1.0 - completion.finished_share
    return said + f"; {lost:.0%} of the jobs never finish" * (lost > 0)


def saves(completion: Completion) -> str:
    """How large checkpoints are, how often they are written, and the best interval."""
    plan = completion.settled.plan
    size = units.format(completion.settled.checkpoint_bytes, Dimension.BYTES, digits=3)
    later = f", written {span(plan.written_s)} later" * (plan.written_s > 0)
    when = f"every {span(plan.every_s)}" if plan.every_s < plan.run_s else "at the end"
    said = f"{size} {when}, training stops for {span(plan.blocking_s)}{later}; "
    best = completion.settled.best_interval_s
    chosen = "best" if best == plan.interval_s else f"best is {span(best)}"
    if not plan.rate_per_s:
        return f"{size} at the end"
    return said + f"{chosen} (Young {span(completion.young_s)}, Daly {span(completion.daly_s)})"


def spares(completion: Completion) -> str:
    """How many nodes stand by, and why so many."""
    plan = completion.settled.plan
    source = next((i.stated_source for i in completion.inputs if i.name == "spare nodes"), None)
    share = percent(plan.spares / (plan.nodes + plan.spares), 1)
    why = f"with repairs of {span(plan.repair_s)}, {source}" if source else "as stated"
    return f"{plural(plan.spares, 'node')} ({share}): {why}"


def money_words(completion: Completion) -> list[str]:
    """The same as `money_lines`, each with its label."""
    return [f"{label}: {text}" for label, text in money_lines(completion).items()]


def money_lines(completion: Completion) -> dict[str, str]:
    """Why there are spares; what sellers ask; what buying takes, and from what use on it pays."""
    bill, paid = completion.bill, completion.cost_range_usd
    asked = [
        f"{terms} ${low:.2f} to ${high:.2f} ({money(paid[terms][0])} to {money(paid[terms][1])})"
        if high > low
        else f"{terms} ${low:.2f} ({money(paid[terms][0])}; one seller)"
        for terms, (low, high) in bill.prices_usd_per_gpu_hour.items()
    ]
    rent = {"Rent": f"a GPU-hour {', '.join(asked)}"} if asked else {}
    return {"Spares": spares(completion), **rent, "Buy": buys(bill, completion.finish_s[1])}


def buys(bill: Bill, seconds: float) -> str:
    """Capex, what of it a job of `seconds` uses, and the use from which on it costs less than rent."""
    bought, capex = bill.purchase, bill.capex_usd
    if bought is None or capex is None:
        return "no price is known to buy these GPUs: --job.owned.price $40k"
    said, used = f"capex {money(capex)} for {bill.gpus:,} GPUs", seconds / 3600.0 / bought.hours
    even, years = bill.break_even_utilisation, f"{bought.years:g} years"
    if bill.usd_per_gpu_hour is not None:
        pays = even is not None and even <= 1
        said += (
            f"; cheaper than rent if used more than {percent(even or 0.0)}" if pays else "; rent is cheaper"
        )
        said += f" of {years}"
    if 1 < used < float("inf"):
        return f"{said}; this job outlives them: bought {bought.times(seconds):,.0f} times"
    return said + f" (this job: {percent(used, 1)})" * (0.0005 <= used <= 1)


def measured(completion: Completion) -> str:
    """What was measured of the job itself; nothing if it has not begun."""
    known, predicted_s = completion.job.measured, completion.prediction.step_s
    said = []
    if known.step_s is not None:
        said.append(f"step {span(known.step_s)}, predicted {span(predicted_s)}")
    if known.checkpoint_s is not None:
        said.append(f"a checkpoint {span(known.checkpoint_s)}")
    if known.restart_s is not None:
        said.append(f"{span(known.restart_s)} from a failure until work goes on")
    return "; ".join(said)


def change_cells(change: JobChange) -> tuple[str, str]:
    """What a change takes off the length and the cost of a job."""
    gained = f"−{span(change.gained_s)}" if change.gained_s < float("inf") else "finishes"
    usd = change.saved_usd
    return gained, "" if usd is None else f"{'−' if usd >= 0 else '+'}{money(abs(usd))}"


def worth(change: JobChange) -> bool:
    """True if a change gains time, or money without costing time."""
    cost = change.completion.cost_usd
    if change.gained_s > _WORTH * change.completion.mean_s:
        return True
    saved = change.saved_usd or 0.0
    return change.gained_s >= 0 and cost is not None and saved > _WORTH * cost[1]


def switched_off(completion: Completion) -> str:
    """What the job leaves out because nobody stated it."""
    job = completion.job
    off = [key for key in _OFF if not getattr(job, key)]
    early = ["failures.early_factor"] if job.failures.early_factor == 1 else []
    return ", ".join((*off, *early)) if off or early else "nothing"


def assumed_inputs(completion: Completion) -> str:
    """The inputs that matter most and that nobody gave."""
    wanted = ("detection", "restart", "storage")
    named = {i.name: i for i in completion.inputs if i.trust != "given"}
    said = [f"{name} {value_text(named[name])}" for name in wanted if name in named]
    if completion.job.checkpoints.blocking is None:
        is_async = completion.settled.plan.written_s > 0
        said.append(f"{'asynchronous' if is_async else 'blocking'} checkpoints")
    return "; ".join(said)


def value_text(i: Input) -> str:
    """An input with its unit."""
    if i.dimension is None:
        return f"{i.value:,.0f}" if i.value >= 1000 else f"{i.value:.3g}"
    if i.dimension is Dimension.SECONDS:
        return span(i.value)
    if i.dimension is Dimension.USD_PER_GPU_HOUR:
        return f"${i.value:.2f}/GPU-hour"
    return units.format(i.value, i.dimension, digits=3)


_LISTED: Final = 5
"""Changes that are shown."""
_LEAST: Final = 5e-4
"""Share of the time below which a cause is not listed: it would print as 0.0%."""


def job_view(completion: Completion, *, assumptions: bool = False) -> View:
    """The job and its step."""
    prediction = completion.prediction
    step = Lines("Step", (step_limit(completion),))
    blocks = job_blocks(completion, completion.changes, assumptions=assumptions)
    title = f"{prediction_title(prediction)}, until it is done"
    return View(title, (*blocks, step, *numbers(prediction), *chosen(prediction.assumed)))


def job_blocks(completion: Completion, changes: list[JobChange], *, assumptions: bool = False) -> list[Block]:
    """What there is to say of the job, without its step."""
    return [
        Verdict((verdict(completion),), prediction_words(completion.prediction)),
        *bounds(completion),
        *phases(completion),
        *_pictures(completion),
        Lines("Stops", (stops(completion),)),
        Lines("Saves", (saves(completion),)),
        *(Lines(label, (text,)) for label, text in money_lines(completion).items()),
        *([Lines("Measured", (known,))] if (known := measured(completion)) else []),
        *_next(changes),
        Lines("Left out", (switched_off(completion),)),
        *_assumed(completion, everything=assumptions),
    ]


def bounds(completion: Completion) -> list[Block]:
    """P10, P50 and P90 of date, length, bill and energy."""
    bill, cost, power = completion.bill, completion.cost_usd, completion.energy_j
    steps, plan = completion.phases.steps, completion.settled.plan
    rows = []
    if completion.finish_dates is not None:
        dates = (f"{date:%Y-%m-%d}" if date else "never" for date in completion.finish_dates)
        rows.append(("date", *dates, f"starts {completion.job.start:%Y-%m-%d}"))
    undisturbed = f"{plural(steps, 'step')}, {span(plan.work_s)} undisturbed"
    rows.append(("length", *map(span, completion.finish_s), undisturbed))
    if cost is None:
        rows.append(("cost", "–", "–", "–", "no price is known to rent these GPUs: --job.price $3/GPU-hour"))
    else:
        spare = bill.gpus - int(completion.prediction.work.gpus)
        paid = f"{bill.gpus:,} GPUs, {spare:,} spare, ${bill.usd_per_gpu_hour:.2f} an hour each"
        rows.append(("cost", *map(money, cost), paid))
    if completion.owned_cost_usd is not None:
        years = bill.purchase.years if bill.purchase else 0.0
        bought = f"share of {years:g} years; no {NOT_COUNTED}"
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


def phases(completion: Completion) -> list[Block]:
    """What the job consists of, if it has phases."""
    if not completion.job.phases:
        return []
    rows = [phase_cells(one) for one in completion.phases.parts]
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
    return [
        *([Figure(drawn, caption)] if has_spread(lengths_s) else []),
        time_ledger(completion),
    ]


def time_ledger(completion: Completion, *, is_lost_only: bool = False) -> Breakdown:
    """Where the time of a job goes; or, of what is lost, by what."""
    ordered = sorted(completion.ledger.items(), key=lambda pair: -float(pair[1]))
    parts = tuple(
        Share(str(cause), float(s), cause.kind is CauseKind.LOST)
        for cause, s in ordered
        if float(s) >= _LEAST * completion.mean_s and (cause.kind is CauseKind.LOST or not is_lost_only)
    )
    if is_lost_only:
        return Breakdown("not training", parts, sum(one.value for one in parts), "not training", span)
    title, kinds = "where the time goes (mean)", ("useful", "lost")
    return Breakdown(title, parts, completion.mean_s, "job", span, kinds)


def _next(changes: list[JobChange]) -> list[Block]:
    """Single changes, each played through with the same failures."""
    useful = [change for change in changes if worth(change)][:_LISTED]
    if not useful:
        return [Lines("Next", ("no single change of the job helps",))]
    rows = [
        (f"{number}", one.what, *change_cells(one), percent(one.completion.effective, 1))
        for number, one in enumerate(useful, 1)
    ]
    head = ("", "change", "length", "cost", "useful")
    return table(head, rows, words=2, label="Next", spare=("useful",))


def _assumed(completion: Completion, *, everything: bool) -> list[Block]:
    """What the job rests on."""
    if not everything:
        some = f"{assumed_inputs(completion)} (all: --explain-assumptions)"
        return [Lines("Assumed", (some,), is_quiet=True)]
    step = () if completion.prediction.is_recorded else tuple(assumed(completion.prediction))
    return [inputs(completion), *([Lines("Assumed", step)] if step else [])]


def inputs(completion: Completion) -> Table:
    """Every number that the job rests on, with its trust and source."""
    rows = (
        (
            Cell(i.name, row={"input": i.name, "value": i.value}),
            value_text(i),
            i.trust,
            i.source or "",
        )
        for i in completion.inputs
    )
    return Table(("input", "value", "trust", "source"), tuple(rows), words=4)
