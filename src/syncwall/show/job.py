"""A whole job on one screen, and as plain data.

Holds `job_page` and `job_record`, and their sentences `verdict`, `stops`, `saves`, `switched_off`,
`worth` and `change_cells` (of a change) and `value_text`.
"""

from typing import Any

from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from syncwall import units
from syncwall.answer.prediction import Prediction
from syncwall.job.changes import Change
from syncwall.job.completion import Completion
from syncwall.job.settled import Input
from syncwall.show.headed import ledger_table, plain_table
from syncwall.show.numbers import duration, energy, money, span
from syncwall.show.prediction import assumed
from syncwall.units import Dimension

_BAR = 30
_WORTH = 1e-4
"""Share of the length that a change must gain to be shown."""
_OFF = ("evaluation", "data_stall", "stragglers", "spikes", "maintenance")


def job_page(
    completion: Completion, changes: list[Change], *, assumptions: bool = False
) -> RenderableType:
    """Verdict, finish and bill, goodput, checkpoints, what to change."""
    parts: list[RenderableType] = [
        Text.assemble(("Verdict   ", "bold"), verdict(completion)),
        Text(),
        _step(completion.prediction),
        _bounds(completion),
        Text(),
    ]
    if completion.finished_share:
        table = ledger_table(
            "where the time goes (mean)", completion.ledger, 1.0,
            total="all", width=_BAR, text=span,
        )  # fmt: skip
        parts += [table, Text()]
    parts += [
        Text.assemble(("Stops     ", "bold"), stops(completion)),
        Text.assemble(("Saves     ", "bold"), saves(completion)),
        _next(changes),
        Text.assemble(("Off       ", "bold"), switched_off(completion)),
    ]
    open_fields = completion.prediction.assumed
    if open_fields:
        said = ", ".join(f"{name} {value}" for name, value in open_fields.items())
        parts.append(Text.assemble(("Open      ", "bold"), said))
    if assumptions:
        of_the_step = (Text(f"  {line}") for line in assumed(completion.prediction))
        parts += [Text("Assumed", "bold"), _inputs(completion), *of_the_step]
    else:
        parts.append(Text(f"Assumed   {_assumed(completion)} (all: --explain-assumptions)", "dim"))
    return Group(*parts)


def job_record(completion: Completion, changes: list[Change]) -> dict[str, Any]:
    """The job for `json.dumps`; seconds, bytes, joules, US dollars."""
    return {
        "verdict": verdict(completion),
        **completion.to_dict(),
        "next": [
            {
                "change": change.what,
                "gained_s": change.gained_s if abs(change.gained_s) < float("inf") else None,
                "saved_usd": change.saved_usd,
                "effective_training_time": change.completion.effective,
            }
            for change in changes
        ],
    }


def verdict(completion: Completion) -> str:
    """How long and how much of it is training, in one line."""
    low, middle, high = completion.finish_s
    if middle == float("inf"):
        down = completion.settled.plan.down_s
        return (
            f"does not finish: an interruption every {span(completion.mean_between_s)} with "
            f"{span(down)} to detect it and to restart leaves too little time to train"
        )
    fits = "" if completion.prediction.fits else "does not fit in memory; if it did, "
    return (
        f"{fits}done in {span(middle)} (80 % interval {span(low)} to {span(high)}), "
        f"{completion.effective:.1%} of it useful"
    )


def _step(prediction: Prediction) -> Text:
    low, high = prediction.step_interval_s
    return Text(
        f"  step      {duration(prediction.step_s)}  (80 % interval {duration(low)} to "
        f"{duration(high)})   {prediction.tokens_per_s_per_gpu:,.0f} tokens/s/GPU   "
        f"MFU {prediction.mfu:.1%}\n            {prediction.verdict}"
    )


def _bounds(completion: Completion) -> Table:
    """P10, P50 and P90 of date, length, bill and energy."""
    table = plain_table("         ", "P10", "P50", "P90", gap=3)
    table.add_column("")
    dates, steps = completion.finish_dates, completion.job.total_steps
    if dates is not None:
        table.add_row("  date", *(f"{date:%Y-%m-%d}" if date else "never" for date in dates))
    spans = map(span, completion.finish_s)
    undisturbed = span(completion.settled.plan.work_s)
    table.add_row("  length", *spans, f"{steps:,} steps, {undisturbed} undisturbed")
    bill, cost, power = completion.bill, completion.cost_usd, completion.energy_j
    spare = bill.gpus - completion.prediction.run.gpus
    if cost is None:
        table.add_row("  cost", "–", "–", "–", "no price is known: --job.price $3/GPU-hour")
    else:
        paid = f"{bill.gpus:,} GPUs, {spare:,} spare, ${bill.usd_per_gpu_hour:.2f}/h"
        table.add_row("  cost", *map(money, cost), paid)
    if power is not None:
        table.add_row("  energy", *map(energy, power), f"{bill.watts_per_gpu:,.0f} W a GPU, all in")
    return table


def stops(completion: Completion) -> str:
    """How often the job is interrupted, and by what."""
    plan = completion.settled.plan
    if not plan.rate_per_s:
        return "nothing fails"
    low, middle, high = completion.interruptions
    largest = max(plan.causes, key=lambda cause: cause.per_s)
    said = f"one interruption every {span(completion.mean_between_s)}"
    if completion.finished_share:
        times = f"{middle:,.0f} interruption{'s' * (middle != 1)} ({low:,.0f} to {high:,.0f})"
        said = f"{times}, one every {span(completion.mean_between_s)}"
    if len(plan.causes) > 1:
        said += f"; {largest.name} {largest.per_s / plan.rate_per_s:.0%}"
    taken = completion.settled.domain_nodes
    said += f"; a failure takes {taken} node{'s' * (taken > 1)} away for {span(plan.repair_s)}"
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


def _next(changes: list[Change], count: int = 5) -> RenderableType:
    useful = [change for change in changes if worth(change)]
    if not useful:
        return Text.assemble(("Next      ", "bold"), "no single change of the job helps")
    table = plain_table()
    for number, change in enumerate(useful[:count], 1):
        head = Text("Next    " if number == 1 else "        ", "bold")
        table.add_row(head, f"{number}", change.what, *change_cells(change))
    return table


def change_cells(change: Change) -> tuple[str, str]:
    """What a change takes off the length and the cost of a job."""
    gained = f"−{span(change.gained_s)}" if change.gained_s < float("inf") else "finishes"
    usd = change.saved_usd
    return gained, "" if usd is None else f"{'−' if usd >= 0 else '+'}{money(abs(usd))}"


def worth(change: Change) -> bool:
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


def _assumed(completion: Completion) -> str:
    """The inputs that matter most and that nobody gave."""
    wanted = ("interruptions a day", "detection", "restart", "repair", "storage", "spare nodes")
    named = {i.name: i for i in completion.inputs if i.trust != "given"}
    return "; ".join(f"{name} {value_text(named[name])}" for name in wanted if name in named)


def _inputs(completion: Completion) -> Table:
    table = plain_table()
    for i in completion.inputs:
        table.add_row(f"  {i.name}", value_text(i), i.trust, i.source)
    return table


def value_text(i: Input) -> str:
    """An input with its unit."""
    if i.dimension is None:
        return f"{i.value:,.0f}" if i.value >= 1000 else f"{i.value:.3g}"
    if i.dimension is Dimension.SECONDS:
        return span(i.value)
    if i.dimension is Dimension.USD_PER_GPU_HOUR:
        return f"${i.value:.2f}/GPU-hour"
    return units.format(i.value, i.dimension, digits=3)
