"""Decisions about spikes inside a training loop.

Holds `on_decision` and `Deciding`. A loop tells every rank the same loss, the mean over all ranks
as loops log it; the rule and the policy are pure, so that every rank decides the same for the same
step, without a word between them.
"""

from collections.abc import Callable

from syncwall.problems import refuse_unknown
from syncwall.watch.curve import Curve
from syncwall.watch.policy import PRESETS, Decision, Policy, decide

Hook = Callable[[Decision], object]


class Deciding:
    """Follows the loss of a loop, and calls its hook with what is decided."""

    def __init__(self, hook: Hook, policy: Policy) -> None:
        self._hook, self._policy = hook, policy
        self._curve = Curve()
        self._checkpoints: list[int] = []
        self.made: list[Decision] = []
        """All decisions so far."""

    def loss(self, step: int, value: float) -> None:
        """The loss of a step, the same on all ranks; the hook is called before the next begins."""
        spike = self._curve.add(step, value)
        if spike is not None:
            made = decide(
                self._policy, spike, step, checkpoints=self._checkpoints, before=self.made
            )
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
