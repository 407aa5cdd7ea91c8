"""Spikes of the loss and of the gradient norm: noticed, and decided about.

Holds `SpikeRule` with `RULE`, the one place of its thresholds, `Spike`, `Curve` (fed step by step),
`spikes` (a whole series) and `Curves` (those of a job). A value is compared by its logarithm with
the median of those before it, in units of their spread: that of the bulk or that of the tail,
whichever is larger, so that curves with heavy tails are allowed their outliers. Spikes do not teach
the rule what is usual, unless the curve stays where it jumped to.

What to do about one is decided here and done by the training loop, at a step all ranks agree on:
`Action`, `Policy` with `PRESETS`, `Decision`, `decide`, `on_decision` and `Deciding`. A loop tells
every rank the same loss, the mean over all ranks as loops log it; the rule and the policy are pure,
so that every rank decides the same for the same step, without a word between them.
"""

from collections import deque
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum
from math import exp, inf, isfinite, log
from statistics import median
from typing import Final, Literal

from syncwall.outliers import TO_DEVIATION
from syncwall.problems import refuse_unknown
from syncwall.watch.events import Finding, FindingKind, StepRecord

Measured = Literal["loss", "gradient norm"]
_KINDS: Final[dict[Measured, FindingKind]] = {
    "loss": FindingKind.LOSS_SPIKE,
    "gradient norm": FindingKind.GRADIENT_SPIKE,
}
_TAIL: Final = 0.975
_TAIL_DEVIATIONS: Final = 2.2414
"""Standard deviations that 97.5 % of normal values lie within."""
_MEASURED_EVERY: Final = 16
"""Steps after which a spread is measured anew."""
_HELD_S: Final = 60.0
_LEAST: Final = 1e-30
"""The smallest value with a logarithm that counts."""


@dataclass(frozen=True, slots=True)
class SpikeRule:
    """When a value is too high; spreads are of the logarithm."""

    trend_steps: int = 32
    """The trend is the median of so many steps."""
    spread_steps: int = 256
    """Spreads are those of so many steps around their trend."""
    first_steps: int = 64
    """Steps before anything is judged."""
    least_spread: float = 0.01
    """Smoother curves are judged as if they varied by 1 %."""
    two_over: float = 5.0
    """Two steps of three that are so many spreads above the trend are a spike ..."""
    one_over: float = 25.0
    """... and so is a single one."""
    calm_steps: int = 16
    """A spike is over after so many usual steps in a row."""
    stays_steps: int = 128
    """After so many steps above the trend, the new level is the usual one."""
    rounding: float = 1e-4
    """Values below this share of the highest usual one are taken as it: a loss that has reached
    zero jumps a hundredfold in its rounding. 1e-6 was not enough for a regression in float32."""


RULE: Final = SpikeRule()


@dataclass(frozen=True, slots=True)
class Spike:
    """A jump upwards."""

    step: int
    """Where it was noticed."""
    since_step: int
    """The first step that was too high."""
    value: float
    usual: float
    """The trend at that step."""
    spreads: float
    """How far above it; infinity for a value that is no number."""

    def finding(self, measured: Measured, time_s: float) -> Finding:
        """What there is to tell of it."""
        if not isfinite(self.value):
            evidence = f"{measured} {self.value} at step {self.step}, usual {self.usual:.4g}"
        else:
            evidence = (
                f"{measured} {self.value:.4g} at step {self.step}, usual {self.usual:.4g}: "
                f"{self.value / self.usual - 1:+.0%}, {self.spreads:.0f} times its spread"
            )
        return Finding(_KINDS[measured], None, "", time_s, evidence, since_step=self.since_step)


class LossSeries:
    """One series and what is usual in it."""

    def __init__(self, rule: SpikeRule = RULE) -> None:
        self.rule = rule
        self._recent: deque[float] = deque(maxlen=rule.trend_steps)
        """Logarithms of usual values."""
        self._around: deque[float] = deque(maxlen=rule.spread_steps)
        """Their distances from the trend."""
        self._learnt = 0
        self._least = _LEAST
        self._spread = inf
        self._above: list[float] = []
        """Logarithms of values that are too high, since the curve left its trend."""
        self._last_above: int | None = None
        self._calm_steps = 0
        self._is_told = False

    def add(self, step: int, value: float) -> Spike | None:
        """Take the value of a step; a spike when it is noticed, once."""
        if not isfinite(value):
            return self._too_high(step, value, inf)
        level = log(max(value, self._least))
        spreads = (level - self._trend()) / self._spread if self._recent else 0.0
        if spreads <= self.rule.two_over:
            self._least = max(self._least, self.rule.rounding * value)
            self._learn(level)
            return None
        self._above.append(level)
        if len(self._above) >= self.rule.stays_steps:
            self._recent.extend(self._above)
            self._forget()
            return None
        return self._too_high(step, value, spreads)

    def _too_high(self, step: int, value: float, spreads: float) -> Spike | None:
        self._calm_steps = 0
        last, self._last_above = self._last_above, step
        again = last is not None and step - 3 < last < step
        if self._is_told or not (again or spreads > self.rule.one_over):
            return None
        self._is_told = True
        usual = exp(self._trend()) if self._recent else value
        return Spike(step, last if again and last is not None else step, value, usual, spreads)

    def _learn(self, level: float) -> None:
        if self._recent:
            self._around.append(level - self._trend())
        self._recent.append(level)
        self._learnt += 1
        if self._learnt >= self.rule.first_steps and self._learnt % _MEASURED_EVERY == 0:
            self._measure()
        self._calm_steps += 1
        if self._calm_steps >= self.rule.calm_steps:
            self._forget()

    def _forget(self) -> None:
        """The spike is over."""
        self._above.clear()
        self._is_told = False

    def _trend(self) -> float:
        return median(self._recent)

    def _measure(self) -> None:
        """The spread, of the bulk or of the tail."""
        middle = median(self._around)
        away = sorted(abs(distance - middle) for distance in self._around)
        bulk = TO_DEVIATION * away[len(away) // 2]
        tail = away[int(_TAIL * len(away))] / _TAIL_DEVIATIONS
        self._spread = max(bulk, tail, self.rule.least_spread)


def spikes(values: Iterable[float], first_step: int = 0, rule: SpikeRule = RULE) -> list[Spike]:
    """All spikes of a series."""
    curve = LossSeries(rule)
    found = (curve.add(step, value) for step, value in enumerate(values, first_step))
    return [spike for spike in found if spike is not None]


class Curves:
    """Loss and gradient norm of the lowest rank of a node; a spike is a finding for a minute."""

    def __init__(self, rule: SpikeRule = RULE) -> None:
        self._curves: dict[Measured, LossSeries] = {one: LossSeries(rule) for one in _KINDS}
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
                    self._held.append(spike.finding(measured, now_s))
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
