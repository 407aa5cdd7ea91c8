"""What to do about a spike: decided here, done by the training loop, at a step all ranks agree on.

Holds `Action`, `Policy` with `PRESETS`, `Decision` and `decide`.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from enum import StrEnum
from typing import Final

from syncwall.watch.curve import Spike


class Action(StrEnum):
    """What a loop is asked to do."""

    ALERT = "alert"
    """Nothing: somebody is told."""
    SKIP = "skip batches"
    """Leave out the next batches."""
    ROLL_BACK = "roll back"
    """Load an earlier checkpoint and leave out batches."""


@dataclass(frozen=True, slots=True)
class Policy:
    """What is done about spikes; by default somebody is told, and nothing else."""

    action: Action = Action.ALERT
    back_steps: int = 0
    """Steps before the spike that a checkpoint must be from."""
    least_skipped: int = 0
    """Batches to leave out ..."""
    most_skipped: int = 0
    """... up to so many, if those since the checkpoint are more."""
    at_most: int = 3
    """Actions within `within_steps`; after that, spikes are only told: data are not the cause."""
    within_steps: int = 5_000


PRESETS: Final = {
    "alert": Policy(),
    "skip": Policy(Action.SKIP, least_skipped=100, most_skipped=100),
    "palm": Policy(Action.ROLL_BACK, back_steps=100, least_skipped=200, most_skipped=500),
}
"""By name. PaLM went back about 100 steps before a spike and skipped 200 to 500 batches
(arXiv:2204.02311, section 5.1)."""


@dataclass(frozen=True, slots=True)
class Decision:
    """What all ranks do before they begin the step `at_step`."""

    number: int
    """Counts up from 1, over the whole job."""
    action: Action
    spike_step: int
    """Where the spike began."""
    at_step: int
    """The same on all ranks."""
    checkpoint_step: int | None = None
    """The latest checkpoint that is early enough, or nothing later than this if none is known."""
    skip_batches: int = 0
    reason: str = ""


def decide(
    policy: Policy,
    spike: Spike,
    now_step: int,
    *,
    checkpoints: Sequence[int] = (),
    before: Sequence[Decision] = (),
) -> Decision:
    """What `policy` says of a spike after step `now_step`.

    `checkpoints` are steps at which one was written, `before` are decisions that were made.
    """
    number = len(before) + 1
    alert = Decision(number, Action.ALERT, spike.since_step, now_step + 1)
    if policy.action is Action.ALERT:
        return alert
    recent = [
        one
        for one in before
        if one.action is not Action.ALERT and now_step - one.at_step < policy.within_steps
    ]
    if len(recent) >= policy.at_most:
        reason = f"{len(recent)} times in {policy.within_steps:,} steps did not help"
        return replace(alert, reason=reason)
    if policy.action is Action.SKIP:
        skipped = policy.least_skipped
        return replace(alert, action=Action.SKIP, skip_batches=skipped)
    back_to = max(spike.since_step - policy.back_steps, 0)
    written = max((step for step in checkpoints if step <= back_to), default=None)
    if checkpoints and written is None:
        return replace(alert, reason=f"no checkpoint at or before step {back_to:,}")
    checkpoint = back_to if written is None else written
    skipped = min(max(spike.step - checkpoint, policy.least_skipped), policy.most_skipped)
    return replace(
        alert, action=Action.ROLL_BACK, checkpoint_step=checkpoint, skip_batches=skipped
    )  # fmt: skip
