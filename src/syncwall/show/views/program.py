"""A recorded program, predicted: verdict, numbers, ledger, memory, timeline, where, what to change.

Holds `program_view`.
"""

from typing import Final

from syncwall.answer.priced import MFU_CONVENTION
from syncwall.answer.program import ProgramChange, ProgramPrediction, largest_batch
from syncwall.cause import LEAST_SHARE
from syncwall.show.blocks import Block, Lines, Verdict, View, ledger, table
from syncwall.show.numbers import duration, percent, signed, signed_percent
from syncwall.show.views.capture import notes_table
from syncwall.show.views.prediction import memory_figure, memory_row, timeline_figures
from syncwall.show.words.program import (
    batch_words,
    changed_words,
    program_evidence,
    program_title,
    program_words,
)

_MODULES: Final = 12


def program_view(prediction: ProgramPrediction) -> View:
    """All there is to say of a recorded program."""
    least_s = LEAST_SHARE * prediction.step_s
    return View(
        program_title(prediction),
        (
            Verdict((prediction.verdict.text,), program_words(prediction)),
            *_numbers(prediction),
            ledger("where the time goes", prediction.ledger, least=least_s),
            memory_figure(prediction.memory_by_kind, prediction.cluster.device),
            *timeline_figures(prediction.timeline(), "one step"),
            *_modules(prediction),
            *_next(prediction, prediction.changes),
            Lines("Evidence", (program_evidence(prediction),)),
            *notes_table(prediction.program.noted),
        ),
    )


def _numbers(prediction: ProgramPrediction) -> list[Block]:
    step_s, (low_s, high_s) = prediction.step_s, prediction.step_interval_s
    slow, fast = step_s / high_s, step_s / low_s
    mfu, gpus = prediction.mfu, prediction.program.world_size
    rows = [("step", duration(step_s), f"{duration(low_s)} to {duration(high_s)}", "")]
    for name, amount in (
        ("tokens", prediction.program.tokens),
        ("samples", prediction.program.samples),
    ):
        if amount:
            speed = amount / step_s / gpus
            digits = ",.0f" if speed >= 100 else ".3g"
            rows.append((f"{name}/s/GPU", f"{speed:{digits}}",
                         f"{speed * slow:{digits}} to {speed * fast:{digits}}",
                         f"{speed * gpus:{digits}} {name}/s in all"))  # fmt: skip
    rows += [
        ("MFU", percent(mfu, 1), f"{percent(mfu * slow, 1)} to {percent(mfu * fast, 1)}",
         MFU_CONVENTION),
        ("HFU", percent(prediction.hfu, 1), "", "with what is computed twice"),
        memory_row(prediction.room),
    ]  # fmt: skip
    return table(("", "predicted", "80% interval", ""), rows, ends_in_words=True)


def _modules(prediction: ProgramPrediction) -> list[Block]:
    """Where computation goes, by module."""
    shares = prediction.by_module()[:_MODULES]
    rows = [
        (share.name, duration(share.seconds), percent(share.seconds / prediction.step_s),
         f"{share.calls:,}")
        for share in shares
        if share.seconds >= LEAST_SHARE * prediction.step_s
    ]  # fmt: skip
    head = ("module", "time alone", "of the step", "kernels")
    return table(head, rows, label="Where") if rows else []


def _next(prediction: ProgramPrediction, changes: list[ProgramChange]) -> list[Block]:
    rows = [
        (f"{number}", changed_words(one), signed(-one.gained_s),
         signed_percent(-one.gained_s / prediction.step_s))
        for number, one in enumerate(changes, 1)
    ]  # fmt: skip
    head = ("", "change", "step", "of the step")
    found = table(head, rows, words=2, label="Next", spare=("of the step",)) if rows else [
        Lines("Next", ("no single change of the program that was tried helps",))
    ]  # fmt: skip
    larger = batch_words(largest_batch(prediction))
    return [*found, *([Lines("Batch", (larger,))] if larger else [])]
