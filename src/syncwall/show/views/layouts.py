"""The best layouts: one table, why the others lost, and what less memory costs.

Holds `layouts_view`.
"""

from typing import Final

from syncwall.answer.prediction import Prediction
from syncwall.plan.answer import Plan
from syncwall.show.blocks import Block, Code, Heading, Lines, Verdict, View, table
from syncwall.show.numbers import duration, percent, plural, signed_percent
from syncwall.show.words import layouts as words
from syncwall.show.words.layout import columns, counted, layout_words
from syncwall.work.memory import usable_bytes

_TEXTS: Final = ("exchange", "schedule", "recompute", "sharding")
_SPARE: Final = ("waits", "tokens/s/GPU", "samples/s/GPU", *_TEXTS, "etp", "cp", "ep")
"""What narrow screens leave out, first what follows from other columns."""


def layouts_view(plan: Plan) -> View:
    """All of it."""
    model, cluster = plan.run.model, plan.run.cluster
    title = f"Layouts of {model.title or model.name} on {cluster.title or cluster.name}"
    head = Verdict((words.verdict(plan),), words.searched(plan))
    batch = plan.better_batch
    other = [Lines("Batch", (words.better_batch(plan, batch),))] if batch else []
    if not plan.best:
        return View(title, (head, *other))
    code: list[Block] = []
    if plan.settings:
        code = [Heading(2, "Settings of layout 1"), Code(plan.settings)]
    blocks = [
        head,
        *_table(plan),
        *_lines("Why", words.why_slower(plan)),
        *_trade_offs(plan),
        *other,
        *(_lines("Tuned", words.tuned(plan)) if plan.best else ()),
        *_lines("Options", [words.options(plan)]),
        Lines("Evidence", (words.evidence(plan),), is_quiet=True),
        *code,
    ]
    return View(title, tuple(blocks))


def _lines(label: str, lines: list[str]) -> list[Block]:
    return [Lines(label, tuple(lines))] if any(lines) else []


def _table(plan: Plan) -> list[Block]:
    """A row for each layout, and for that of the user."""
    found = {f"{n}": one.prediction for n, one in enumerate(plan.best, 1)}
    found |= {"yours": plan.now} if plan.now is not None else {}
    several = len({one.run.gpus for one in found.values()}) > 1
    shown = columns([one.run.layout for one in found.values()])
    has_price = plan.price_usd_per_gpu_hour is not None
    cost = f"{'USD' if has_price else 'GPU-h'}/G{counted(plan.run.model)[:-1]}"
    speed = f"{counted(plan.run.model)}/s/GPU"
    head = ("#", "GPUs", *shown, "step", speed, "MFU", "memory", "waits", cost)
    rows = [
        (
            name,
            f"{one.run.gpus:,}" * several,
            *(cells[index] for cells in shown.values()),
            duration(one.step_s),
            f"{one.tokens_per_s_per_gpu:,.0f}",
            percent(one.mfu, 1),
            _memory(one),
            percent(one.exposed_s / one.step_s),
            f"{plan.cost(one):,.0f}",
        )
        for index, (name, one) in enumerate(found.items())
    ]
    spare = (*_SPARE, cost) if has_price else (cost, *_SPARE)
    return table(head, rows, words=0, texts=_TEXTS, spare=spare)


def _memory(one: Prediction) -> str:
    have = "" if one.fits else f"of {usable_bytes(one.run.cluster.device) / 1e9:.0f} "
    return f"{one.memory_bytes / 1e9:.0f} {have}GB"


def _trade_offs(plan: Plan) -> list[Block]:
    """Layouts that need less memory, or fewer GPUs, and what they cost in time."""
    several = len({point.gpus for point in plan.found.front}) > 1
    rows = [
        (
            duration(point.step_s),
            signed_percent(point.step_s / plan.best[0].step_s - 1, 0),
            f"{point.memory_bytes / 1e9:.0f} GB",
            plural(point.gpus, "GPU") if several else "",
            layout_words(point.layout()),
        )
        for point in plan.trade_offs
    ]
    head = ("step", "longer", "memory", "GPUs", "layout")
    return table(head, rows, words=0, ends_in_words=True, label="Trade-off")
