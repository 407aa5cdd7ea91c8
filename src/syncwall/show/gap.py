"""A measured step beside its prediction: both numbers, what would explain the gap, how to tell."""

from typing import Final

from syncwall.answer.gap import Gap, Suspect
from syncwall.show.blocks import Block, Lines, Verdict, View, table
from syncwall.show.layout import run_title, run_words, speed_unit
from syncwall.show.numbers import duration, likelihood, percent, signed, signed_percent


def gap_verdict(gap: Gap) -> str:
    """How far apart they are, and what that means."""
    ratio = max(gap.ratio, 1.0 / gap.ratio)
    apart = f"{ratio:.2f} times as {'long' if gap.ratio >= 1 else 'short'} as predicted"
    times = f"measured {duration(gap.measured_s)}, {apart} ({duration(gap.predicted.step_s)})"
    if gap.is_wrong:
        return f"description or machine is wrong: {times}"
    if gap.is_usual:
        return f"nothing to explain: {times}, as far apart as predictions and runs usually are"
    return f"{'slower' if gap.ratio > 1 else 'faster'} than is usual: {times}"


def suspect_words(one: Suspect) -> str:
    """What it is, and how it would be described."""
    return f"{one.what} ({one.detail})" if one.detail else one.what


_SUSPECTS: Final = 5


def gap_view(gap: Gap) -> View:
    """All of it."""
    run = gap.predicted.run
    verdict = Verdict((gap_verdict(gap),), run_words(run))
    return View(run_title(run), (verdict, *gap_blocks(gap)))


def gap_blocks(gap: Gap) -> list[Block]:
    """Both numbers, and the likeliest suspects, each with what tells it apart."""
    if gap.is_usual:
        return _both(gap)
    first = gap.ranked[:_SUSPECTS]
    rows = [
        (
            f"{number}",
            suspect_words(one),
            f"{likelihood(one.probability)} likely",
            "of any size" if one.run is None else f"{duration(one.step_s)} a step",
            "" if one.run is None else f"{percent(one.explained)} of the gap",
        )
        for number, one in enumerate(first, 1)
    ]
    check = [f"{number}  {one.tell}" for number, one in enumerate(first, 1)]
    if not gap.is_explained and check:
        check.append("nothing that has a price explains it alone: it may be several at once")
    head = ("", "may explain it", "likelihood", "predicted then", "explains")
    return [
        *_both(gap),
        *table(head, rows, words=2, label="Suspects"),
        *([Lines("Check", tuple(check))] if check else []),
    ]


def _both(gap: Gap) -> list[Block]:
    """Step, speed and MFU, measured and predicted."""
    found, faster = gap.predicted, 1.0 / gap.ratio
    speed, mfu = found.tokens_per_s_per_gpu, found.mfu
    faster_by = signed_percent(faster - 1)
    rows = [
        (
            "step",
            duration(gap.measured_s),
            duration(found.step_s),
            signed(gap.gap_s),
            signed_percent(gap.ratio - 1),
        ),
        (f"{speed_unit(found.run.model)}/s/GPU", f"{speed * faster:,.0f}", f"{speed:,.0f}", "", faster_by),
        ("MFU", percent(mfu * faster, 1), percent(mfu, 1), "", faster_by),
    ]
    return table(("", "measured", "predicted", "gap", "of the prediction"), rows)
