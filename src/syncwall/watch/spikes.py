"""Spikes of the loss and of the gradient norm of a live run, and what is decided about them.

Holds `Curves` (those of a job) and `spike_finding`; the rule is that of `explain.loss_spikes`.

What to do about one is decided here and done by the training loop, at a step all ranks agree on:
`Action`, `Policy` with `PRESETS`, `Decision`, `decide`, `on_decision` and `Deciding`. A loop tells
every rank the same loss, the mean over all ranks as loops log it; the rule and the policy are pure,
so that every rank decides the same for the same step, without a word between them.
"""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum
from math import isfinite
from typing import Final, Literal

from syncwall.explain.loss_spikes import NORM_RULE, RULE, LossSeries, Spike, SpikeRule
from syncwall.problems import refuse_unknown
from syncwall.watch.events import Finding, FindingKind, StepRecord

Measured = Literal["loss", "gradient norm"]
_KINDS: Final[dict[Measured, FindingKind]] = {
    "loss": FindingKind.LOSS_SPIKE,
    "gradient norm": FindingKind.GRADIENT_SPIKE,
}
_HELD_S: Final = 60.0


def spike_finding(spike: Spike, measured: Measured, time_s: float) -> Finding:
    """What there is to tell of a spike."""
    value, usual = spike.value, spike.usual
    if not isfinite(value):
        evidence = f"{measured} {value} at step {spike.step}, usual {usual:.4g}"
    else:
        evidence = (
            f"{measured} {value:.4g} at step {spike.step}, usual {usual:.4g}: "
            f"{value / usual - 1:+.0%}, {spike.spreads:.0f} times its spread"
        )
    return Finding(_KINDS[measured], None, "", time_s, evidence, since_step=spike.since_step)


class Curves:
    """Loss and gradient norm of the lowest rank of a node; a spike is a finding for a minute."""

    def __init__(self) -> None:
        rules: dict[Measured, SpikeRule] = {"loss": RULE, "gradient norm": NORM_RULE}
        self._curves = {measured: LossSeries(rule) for measured, rule in rules.items()}
        self._rank: int | None = None
        self._held: list[Finding] = []

    def take(self, steps: Iterable[StepRecord], now_s: float) -> list[Finding]:
        """Findings that hold after these steps."""
        self._held = [one for one in self._held if now_s - one.since_s < _HELD_S]
        for step in steps:
            self._rank = step.rank if self._rank is None else min(self._rank, step.rank)
            if step.rank != self._rank or step.skipped:
                continue
            told: tuple[tuple[Measured, float | None], ...] = (
                ("loss", step.loss),
                ("gradient norm", step.gradient_norm),
            )
            for measured, value in told:
                spike = None if value is None else self._curves[measured].add(step.step, value)
                if spike is not None:
                    self._held.append(spike_finding(spike, measured, now_s))
        return list(self._held)


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
    return replace(alert, action=Action.ROLL_BACK, checkpoint_step=checkpoint, skip_batches=skipped)


Hook = Callable[[Decision], object]


class Deciding:
    """Follows the loss of a loop, and calls its hook with what is decided."""

    def __init__(self, hook: Hook, policy: Policy) -> None:
        self._hook, self._policy = hook, policy
        self._curve = LossSeries()
        self._checkpoints: list[int] = []
        self.made: list[Decision] = []
        """All decisions so far."""

    def loss(self, step: int, value: float) -> None:
        """The loss of a step, the same on all ranks; the hook is called before the next begins."""
        spike = self._curve.add(step, value)
        if spike is not None:
            made = decide(self._policy, spike, step, checkpoints=self._checkpoints, before=self.made)
            self.made.append(made)
            self._hook(made)

    def checkpoint(self, step: int) -> None:
        """A checkpoint of this step can be loaded."""
        self._checkpoints.append(step)


def on_decision(hook: Hook, policy: Policy | str = "alert") -> Deciding:
    """Have spikes of the loss decided about; `policy` is one, or the name of a preset.

    Examples:
        >>> from syncwall.watch import on_decision
        >>> deciding = on_decision(print, "palm")
        >>> deciding.loss(step=0, value=11.2)
    """
    if isinstance(policy, str):
        refuse_unknown(policy, PRESETS, f'no policy is called "{policy}"')
        policy = PRESETS[policy]
    return Deciding(hook, policy)
