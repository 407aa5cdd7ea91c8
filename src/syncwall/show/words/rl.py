"""The sentences of a step of reinforcement learning.

Holds `verdict`, `how`, `stated` and `published`.
"""

from typing import Final

from syncwall.answer.rl_step import (
    PUBLISHED_ERRORS,
    PUBLISHED_REFITS_S,
    PUBLISHED_STEPS,
    RlPart,
    RlPrediction,
)
from syncwall.show.numbers import duration, percent, plural

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


def published() -> tuple[str, str]:
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
