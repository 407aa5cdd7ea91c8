"""The article of a job: when it is done, where its time goes, what it costs, and its step.

Holds `job_blocks`.
"""

from syncwall.cause import CauseKind
from syncwall.job.changes import Change
from syncwall.job.completion import Completion
from syncwall.show.job import change_cells, saves, stops, switched_off, value_text, verdict, worth
from syncwall.show.numbers import energy, money, span
from syncwall.show.report.answered import Answered
from syncwall.show.report.bars import Bar, Names, bar_chart
from syncwall.show.report.blocks import Block, Bullets, Figure, Heading, Paragraph, sentence, table
from syncwall.show.report.curves import span_histogram, span_unit
from syncwall.show.report.frame import Entry
from syncwall.show.report.run import run_blocks
from syncwall.show.report.svg import Drawing
from syncwall.units import Dimension


def job_blocks(answered: Answered, completion: Completion, level: int) -> list[Block]:
    """What there is to say of the job, then of its step."""
    return [
        Paragraph(sentence(verdict(completion)), is_lead=True),
        *_bounds(completion),
        *_pictures(completion),
        Heading(level, "Interruptions and checkpoints"),
        Bullets((sentence(stops(completion)), sentence(saves(completion)))),
        *_intervals(completion),
        Heading(level, "What to change about the job"),
        *_changes(answered.changes),
        Heading(level, "What the job rests on"),
        Paragraph(f"Left out: {switched_off(completion)}.", is_quiet=True),
        *_inputs(completion),
        Heading(level, "The step"),
        *run_blocks(answered, level + 1),
    ]


def _bounds(completion: Completion) -> list[Block]:
    """P10, P50 and P90 of date, length, bill and energy."""
    dates, cost, power = completion.finish_dates, completion.cost_usd, completion.energy_j
    bill = completion.bill
    rows = []
    if dates is not None:
        texts = (f"{date:%Y-%m-%d}" if date else "never" for date in dates)
        rows.append(("date", f"starts {completion.job.start:%Y-%m-%d}", *texts))
    undisturbed = span(completion.settled.plan.work_s)
    steps = f"{completion.job.total_steps:,} steps, {undisturbed} undisturbed"
    rows.append(("length", steps, *map(span, completion.finish_s)))
    if cost is None:
        rows.append(("cost", "no price is known", "–", "–", "–"))
    else:
        paid = f"{bill.gpus:,} GPUs, ${bill.usd_per_gpu_hour:.2f} an hour each"
        rows.append(("cost", paid, *map(money, cost)))
    if power is not None:
        watts = f"{bill.watts_per_gpu:,.0f} W a GPU, all in"
        rows.append(("energy", watts, *map(energy, power)))
    interruptions = (f"{count:,.0f}" for count in completion.interruptions)
    rows.append(("interruptions", "not planned", *interruptions))
    return table(("number", "", "P10", "P50", "P90"), rows, words=2)


def _pictures(completion: Completion) -> list[Block]:
    if not completion.finished_share:
        return []
    marks = list(zip(("P10", "P50", "P90"), completion.finish_s, strict=True))
    lengths = completion.outcome.finish_s
    found = span_histogram([float(one) for one in lengths], marks, "from start to end")
    share = completion.finished_share
    said = f"{completion.job.simulations:,} simulated jobs, {share:.0%} of which come to their end."
    figures: list[Block] = [Figure(found, said)] if found is not None else []
    return [*figures, Figure(_ledger(completion), _effective(completion))]


def _effective(completion: Completion) -> str:
    return (
        f"Where the time goes, as a mean over the jobs that end: {completion.effective:.1%} of "
        f"{span(completion.mean_s)} is useful."
    )


def _ledger(completion: Completion) -> Drawing:
    whole = completion.mean_s
    causes = sorted(completion.ledger.items(), key=lambda pair: -float(pair[1]))
    bars = [
        Bar(cause, float(s), kind="f1" if cause.kind is CauseKind.LOST else "f0")
        for cause, s in causes
        if float(s) >= 1.0
    ]
    kinds = (Entry("useful", "f0"), Entry("lost", "f1"))
    names = Names("time of the job", kinds=kinds, unit=span_unit(max(bar.value for bar in bars)))
    return bar_chart(bars, Dimension.SECONDS, names, lambda s: f"{span(s)}, {s / whole:.1%}")


def _intervals(completion: Completion) -> list[Block]:
    """Ways to choose the time between two checkpoints."""
    plan = completion.settled.plan
    if not plan.rate_per_s:
        return []
    row = (plan.every_s, completion.settled.best_interval_s, completion.young_s, completion.daly_s)
    head = ("time between checkpoints", "as planned", "best", "Young", "Daly")
    return table(head, [("", *map(span, row))])


def _changes(changes: list[Change]) -> list[Block]:
    useful = [change for change in changes if worth(change)]
    if not useful:
        return [Paragraph("No single change of the job helps.")]
    rows = [(c.what, *change_cells(c), f"{c.completion.effective:.1%}") for c in useful]
    said = "Single changes, each played through with the same failures:"
    return [Paragraph(said), *table(("change", "length", "cost", "useful"), rows)]


def _inputs(completion: Completion) -> list[Block]:
    rows = [(i.name, i.trust, i.source or "", value_text(i)) for i in completion.inputs]
    return table(("input", "trust", "source", "value"), rows, words=3)
