"""Known runs for tests."""

from syncwall.answer.site import KnownStep, Traits

COMPUTING = (0.65, 0.1, 0.2, 0.04, 0.01)
"""Shares of the knobs in a step that mostly computes."""
USUAL = Traits(
    architecture="hopper",
    precision="16",
    framework="megatron-core",
    experts=False,
    frozen_weights=False,
    calibrated=True,
    used=(True, False, False, False, False),
    scale=(2.0, 10.0, 4.0),
)


def known(ratio: float, shares: tuple[float, ...] = COMPUTING) -> KnownStep:
    """A run that took `ratio` times as long as predicted."""
    return KnownStep(ratio, shares, USUAL)
