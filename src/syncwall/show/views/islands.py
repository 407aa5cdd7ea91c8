"""Islands that meet seldom: a step inside, a meeting, and what is left of the speed.

Holds `islands_view`.
"""

from syncwall.answer.islands import IslandsPrediction
from syncwall.cause import LEAST_SHARE
from syncwall.show.blocks import Block, Lines, Verdict, View, ledger, table
from syncwall.show.numbers import byte_size, duration, percent, plural, rate
from syncwall.show.views.prediction import assumptions_lines, chosen, memory_row
from syncwall.show.words.layout import run_title, run_words
from syncwall.show.words.prediction import evidence

_NOT_COUNTED = (
    "the outer optimizer and its memory, packing into few bits, islands of different speed or that "
    "come and go, and what seldom meetings cost in loss"
)


def islands_view(found: IslandsPrediction, *, assumptions: bool = False) -> View:
    """All of it; `assumptions` lists everything that is taken for granted."""
    inner, count = found.inner, found.islands.count
    blocks: list[Block] = [
        Verdict((_verdict(found),), f"each of {plural(count, 'island')}: {run_words(inner.run)}"),
        *_numbers(found),
        ledger(
            "where the time of an inner step goes", inner.ledger,
            least=LEAST_SHARE * inner.step_s, total="inner step",
        ),
        Lines("Evidence", (f"of the inner step: {evidence(inner)}",)),
        Lines("Left out", (_NOT_COUNTED,)),
        *chosen(inner.assumed),
        *assumptions_lines(inner, everything=assumptions),
    ]  # fmt: skip
    return View(f"{plural(count, 'island')} of {run_title(inner.run)}", tuple(blocks))


def _verdict(found: IslandsPrediction) -> str:
    if not found.fits:
        return found.inner.verdict.text
    waits = percent(1.0 - found.utilisation, 1)
    return f"{waits} of the time an island waits for the others; inside: {found.inner.verdict.text}"


def _numbers(found: IslandsPrediction) -> list[Block]:
    """The inner step, a meeting, and both together."""
    islands, inner = found.islands, found.inner
    low_s, high_s = inner.step_interval_s
    size, link = byte_size(found.outer_bytes), rate(islands.link_bytes_per_s)
    sent = f"{size} as {islands.outer_dtype} at {link}"
    stops = "of a meeting for which training stops"
    if islands.overlap:
        stops += f"; {percent(islands.overlap)} of the steps may hide it"
    inside = f"80% interval {duration(low_s)} to {duration(high_s)}"
    name, used, _, about = memory_row(inner.room)
    rows = [
        ("inner step", duration(inner.step_s), inside),
        ("meeting", duration(found.outer_s), f"every {plural(islands.every, 'step')}: {sent}"),
        ("exposed", duration(found.exposed_s), stops),
        ("step", duration(found.step_s), "with its share of the meetings"),
        ("utilisation", percent(found.utilisation, 1), "of the time an island trains"),
        ("MFU", percent(found.mfu, 1), f"{percent(inner.mfu, 1)} inside of an island"),
        ("tokens/s", f"{found.tokens_per_s:,.0f}", f"of all {found.gpus:,} GPUs"),
        (name, used, about),
    ]  # fmt: skip
    return table(("", "predicted", ""), rows, ends_in_words=True)
