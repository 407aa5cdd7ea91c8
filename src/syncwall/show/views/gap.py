"""A measured step beside its prediction: both numbers, what would explain the gap, how to tell.

Holds `gap_view` and `gap_blocks`.
"""

from typing import Final

from syncwall.answer.gap import Gap
from syncwall.show.blocks import Block, Lines, Verdict, View, table
from syncwall.show.numbers import duration, percent, signed, signed_percent
from syncwall.show.words.gap import gap_verdict, other_words, suspect_words
from syncwall.show.words.layout import counted, run_title, run_words

_SUSPECTS: Final = 3


def gap_view(gap: Gap) -> View:
    """All of it."""
    run = gap.predicted.run
    verdict = Verdict((gap_verdict(gap),), run_words(run))
    return View(run_title(run), (verdict, *gap_blocks(gap)))


def gap_blocks(gap: Gap) -> list[Block]:
    """Both numbers, and the likeliest suspects, each with what tells it apart."""
    first = gap.suspects[:_SUSPECTS]
    rows = [
        (f"{number}", suspect_words(one), duration(one.step_s), percent(one.explained))
        for number, one in enumerate(first, 1)
    ]
    tell = tuple(f"{number}  {one.tell}" for number, one in enumerate(first, 1))
    beside = [Lines("Or", (other_words(gap),))] if gap.unpriced else []
    return [
        *_both(gap),
        *table(("", "would explain it", "step", "of the gap"), rows, words=2, label="Suspects"),
        *([Lines("Tell", tell)] if tell else []),
        *beside,
    ]


def _both(gap: Gap) -> list[Block]:
    """Step, speed and MFU, measured and predicted."""
    found, faster = gap.predicted, 1.0 / gap.ratio
    speed, mfu = found.tokens_per_s_per_gpu, found.mfu
    faster_by = signed_percent(faster - 1)
    rows = [
        ("step", duration(gap.measured_s), duration(found.step_s), signed(gap.gap_s),
         signed_percent(gap.ratio - 1)),
        (f"{counted(found.run.model)}/s/GPU", f"{speed * faster:,.0f}", f"{speed:,.0f}", "",
         faster_by),
        ("MFU", percent(mfu * faster, 1), percent(mfu, 1), "", faster_by),
    ]  # fmt: skip
    return table(("", "measured", "predicted", "gap", "of the prediction"), rows)
