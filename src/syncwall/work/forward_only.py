"""The forward part of a training step alone: log-probabilities, rewards, evaluation.

Holds `forward_only`. Nothing is kept for a backward pass, no gradient is reduced, nothing is
updated; sharded weights are still gathered and stages still wait for each other.
"""

from dataclasses import replace

from syncwall.describe.layout import Schedule
from syncwall.work.block import Work

FORWARD_SHARE = 1.0 / 3.0
"""FLOP of a forward pass over those of both: each product has two gradients."""


def forward_only(work: Work) -> Work:
    """`work` without its backward passes and without its end."""
    return replace(
        work,
        stages=tuple(
            replace(
                stage,
                backward=(),
                last_backward=(),
                finish=(),
                parameters=0.0,
                crossings=0.5 * stage.crossings,
            )
            for stage in work.stages
        ),
        model_flops=work.model_flops * FORWARD_SHARE,
        recompute_flops=0.0 * work.recompute_flops,
        pipeline=replace(work.pipeline, schedule=Schedule.ONE_F_ONE_B),
    )
