"""A step of reinforcement learning: phases, what is stated, how far such predictions were off.

Holds `rl_view`.
"""

from syncwall.answer.rl_step import RlPrediction
from syncwall.cause import LEAST_SHARE
from syncwall.show.blocks import Block, Lines, Verdict, View, ledger, table
from syncwall.show.numbers import duration, percent
from syncwall.show.views.prediction import assumptions_lines, chosen, memory_row
from syncwall.show.words import rl as words
from syncwall.show.words.layout import run_title, run_words
from syncwall.show.words.prediction import evidence


def rl_view(found: RlPrediction, *, assumptions: bool = False) -> View:
    """All of it; `assumptions` lists everything that is taken for granted."""
    update = found.update
    blocks: list[Block] = [
        Verdict((words.verdict(found),), f"an update: {run_words(update.run)}"),
        *_phases(found),
        *_numbers(found),
        ledger(
            "where the time of an update goes", update.ledger, least=LEAST_SHARE * update.step_s,
            total="update",
        ),
        Lines("Stated", (words.stated(found),)),
        Lines("Error", words.published()),
        Lines("Evidence", (f"of an update as such: {evidence(update)}",)),
        *chosen(update.assumed),
        *assumptions_lines(update, everything=assumptions),
    ]  # fmt: skip
    return View(f"A step of reinforcement learning: {run_title(update.run)}", tuple(blocks))


def _phases(found: RlPrediction) -> list[Block]:
    """Seconds, share and GPUs of each phase, and their sum."""
    rows = [
        (one.part.value, duration(one.seconds), percent(one.seconds / found.step_s, 1),
         f"{one.gpus:,}", _range(one.as_published_s), words.how(one.part, found))
        for one in found.phases
    ]  # fmt: skip
    beside = "generated beside the rest" if found.rl.one_step_off else "one after the other"
    rows.append(("step", duration(found.step_s), "100.0%", f"{found.gpus:,}",
                 _range(found.as_published_s), beside))  # fmt: skip
    head = ("phase", "time", "of the step", "GPUs", "as published", "how")
    last = frozenset({len(rows) - 1})
    return table(head, rows, ends_in_words=True, strong=last, spare=("how",))


def _numbers(found: RlPrediction) -> list[Block]:
    """What people ask for besides."""
    name, used, _, about = memory_row(found.update.room)
    rows = [
        ("tokens/s/GPU", f"{found.tokens_per_s_per_gpu:,.0f}", "prompts and responses, all GPUs"),
        ("idle", percent(found.idle, 1), "of all GPU time waits for another phase"),
        ("MFU of an update", percent(found.update.mfu, 1), ""),
        (f"{name} of an update", used, about),
    ]
    return table(("", "", ""), rows, ends_in_words=True)


def _range(bounds: tuple[float, float] | None) -> str:
    return "" if bounds is None else f"{duration(bounds[0])} to {duration(bounds[1])}"
