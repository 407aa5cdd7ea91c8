"""What a step of a run can be part of: reinforcement learning by phase, and islands (DiLoCo)."""

from typing import Final

from syncwall.answer.islands import IslandsPrediction
from syncwall.answer.rl_step import (
    PUBLISHED_ERRORS,
    PUBLISHED_REFITS_S,
    PUBLISHED_STEPS,
    RlPart,
    RlPrediction,
)
from syncwall.cause import LEAST_SHARE
from syncwall.show.blocks import Block, Lines, Verdict, View, ledger, table
from syncwall.show.layout import run_title, run_words
from syncwall.show.numbers import byte_size, duration, percent, plural, rate
from syncwall.show.prediction import assumptions_lines, chosen, evidence, memory_row

_HOW: Final = {
    RlPart.GENERATION: "stated, not predicted",
    RlPart.SYNC: "the bytes alone: a lower bound",
}


def verdict(found: RlPrediction) -> str:
    """Which phase the step waits for most."""
    if not found.fits:
        return found.update.verdict.text
    longest = max(found.phases, key=lambda one: one.seconds)
    share = percent(min(longest.seconds / found.step_s, 1.0))
    words = f"{longest.part} takes {share} of the step"
    idle = percent(found.idle)
    return words if idle == "0%" else f"{words}; {idle} of all GPU time waits for another phase"


def how(part: RlPart, found: RlPrediction) -> str:
    """Where the seconds of a phase come from."""
    rl = found.rl
    if part is RlPart.TRAINING:
        return f"{plural(rl.mini_batches, 'update')} of {duration(found.update.step_s)}"
    if part is RlPart.LOGPROBS:
        return f"{plural(rl.logprob_passes, 'forward pass', 'forward passes')} over all samples"
    return _HOW[part]


def stated(found: RlPrediction) -> str:
    """What is taken from the user."""
    rl = found.rl
    return (
        f"a GPU generates {rl.tokens_per_s_per_gpu:,.0f} response tokens a second, because the "
        f"description says so: inference is not predicted; {rl.samples:,} samples "
        f"({rl.prompts:,} prompts x {rl.generations:,}) of {rl.sample_tokens:,} tokens"
    )


def published_errors() -> tuple[str, str]:
    """How far such predictions were off."""
    trained, read = PUBLISHED_ERRORS[RlPart.TRAINING], PUBLISHED_ERRORS[RlPart.LOGPROBS]
    refit_s = PUBLISHED_REFITS_S
    return (
        f"training of reinforcement learning is predicted too fast: of {PUBLISHED_STEPS} published "
        f"steps (NeMo-RL 0.3, H100) by {percent(-trained[1])} to {percent(-trained[0])}, "
        f"log-probabilities by {percent(-read[1])} to {percent(-read[0])}; the column "
        "`as published` has the seconds if yours is as far off",
        f"weight sync took {refit_s[0]} to {refit_s[1]} s there; engines that sleep and wake, "
        "rewards and packing are not counted, nor is the generator's memory",
    )


def rl_view(found: RlPrediction, *, assumptions: bool = False) -> View:
    """All of it; `assumptions` lists everything that is taken for granted."""
    update = found.update
    blocks: list[Block] = [
        Verdict((verdict(found),), f"an update: {run_words(update.run)}"),
        *_phases(found),
        *_rl_numbers(found),
        ledger(
            "where the time of an update goes",
            update.ledger,
            least=LEAST_SHARE * update.step_s,
            total="update",
        ),
        Lines("Stated", (stated(found),)),
        Lines("Error", published_errors()),
        Lines("Evidence", (f"of an update as such: {evidence(update)}",)),
        *chosen(update.assumed),
        *assumptions_lines(update, everything=assumptions),
    ]
    return View(f"A step of reinforcement learning: {run_title(update.run)}", tuple(blocks))


def _phases(found: RlPrediction) -> list[Block]:
    """Seconds, share and GPUs of each phase, and their sum."""
    rows = [
        (
            one.part.value,
            duration(one.seconds),
            percent(one.seconds / found.step_s, 1),
            f"{one.gpus:,}",
            _range(one.as_published_s),
            how(one.part, found),
        )
        for one in found.phases
    ]
    beside = "generated beside the rest" if found.rl.one_step_off else "one after the other"
    rows.append(
        ("step", duration(found.step_s), "100.0%", f"{found.gpus:,}", _range(found.as_published_s), beside)
    )
    head = ("phase", "time", "of the step", "GPUs", "as published", "how")
    last = frozenset({len(rows) - 1})
    return table(head, rows, ends_in_words=True, strong=last, spare=("how",))


def _rl_numbers(found: RlPrediction) -> list[Block]:
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


_NOT_COUNTED = (
    "the outer optimizer and its memory, packing into few bits, islands of different speed or that "
    "come and go, and what seldom meetings cost in loss"
)


def islands_view(found: IslandsPrediction, *, assumptions: bool = False) -> View:
    """All of it; `assumptions` lists everything that is taken for granted."""
    inner, count = found.inner, found.islands.count
    blocks: list[Block] = [
        Verdict((_verdict(found),), f"each of {plural(count, 'island')}: {run_words(inner.run)}"),
        *_islands_numbers(found),
        ledger(
            "where the time of an inner step goes",
            inner.ledger,
            least=LEAST_SHARE * inner.step_s,
            total="inner step",
        ),
        Lines("Evidence", (f"of the inner step: {evidence(inner)}",)),
        Lines("Left out", (_NOT_COUNTED,)),
        *chosen(inner.assumed),
        *assumptions_lines(inner, everything=assumptions),
    ]
    return View(f"{plural(count, 'island')} of {run_title(inner.run)}", tuple(blocks))


def _verdict(found: IslandsPrediction) -> str:
    if not found.fits:
        return found.inner.verdict.text
    waits = percent(1.0 - found.utilisation, 1)
    return f"{waits} of the time an island waits for the others; inside: {found.inner.verdict.text}"


def _islands_numbers(found: IslandsPrediction) -> list[Block]:
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
    ]
    return table(("", "predicted", ""), rows, ends_in_words=True)
