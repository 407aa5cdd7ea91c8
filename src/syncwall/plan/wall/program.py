"""How far a recorded program scales.

Holds `ProgramWall` and `program_wall`. Each rank keeps the batch that it was recorded with, so this
is weak scaling; another batch has other kernels, and is another recording.
"""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from syncwall.answer.program import ProgramPrediction
from syncwall.cause import Cause
from syncwall.plan.programs import ProgramCase
from syncwall.plan.wall.answer import EXPLAINED, LostShare, Wall, losses, walls
from syncwall.plan.wall.curve import Base, SpeedCurve
from syncwall.problems import InputError
from syncwall.public import Answer, published


@published()
@dataclass(frozen=True, slots=True)
class ProgramPoint:
    """A recorded program on so many GPUs."""

    gpus: int
    """Ranks."""
    step_s: float
    """Seconds of a step."""
    efficiency: float
    """Speed of a GPU over that on the fewest GPUs."""
    memory_bytes: float
    """On the fullest GPU."""
    ledger_s: dict[Cause, float]
    """Seconds by cause."""


@published(
    "command=recorded.program.command cluster=recorded.cluster.name",
    "recorded_gpus=recorded.program.world_size recorded_step_s=recorded.step_s",
    "base_gpus=base.gpus walls losses causes_at_gpus=causes_at curve=points",
)
@dataclass(frozen=True)
class ProgramWall(Answer):
    """How far a recorded program scales; each rank keeps its batch."""

    verb = "plan wall work"
    recorded: ProgramPrediction
    """On as many ranks as it was recorded with."""
    curve: SpeedCurve
    base: Base
    """The fewest GPUs on which it fits."""
    walls: list[Wall]
    """Where efficiency falls under a level for good."""
    losses: list[LostShare]
    """What the GPU time of a sample is lost to at `causes_at` GPUs."""
    causes_at: int
    """Where efficiency falls under 80%; else the most GPUs."""

    @property
    def points(self) -> list[ProgramPoint]:
        """Counts on which it fits."""
        curve, efficiency = self.curve, self.curve.efficiency(self.base)
        return [
            ProgramPoint(
                gpus,
                curve.step_s[i],
                efficiency[i],
                curve.memory_bytes[i],
                {cause: float(seconds[i]) for cause, seconds in curve.ledger.items() if seconds[i]},
            )
            for i, gpus in enumerate(curve.gpus)
        ]

    def __repr__(self) -> str:
        holds = next(wall.holds_to_gpus for wall in self.walls if wall.level == EXPLAINED)
        return f"<ProgramWall {self.recorded.program.command}: 80% up to {holds or 0:,} GPUs>"


def program_wall(
    case: ProgramCase, most: int, *, least: int = 1,
    progress: Callable[[float], None] = lambda share: None,
) -> ProgramWall:  # fmt: skip
    """The wall of a program on `least` to `most` GPUs on which it fits."""
    counts = [count for count in case.counts_up_to(most) if count >= least]
    found: list[ProgramPrediction] = []
    for done, count in enumerate(counts):
        progress(done / len(counts))
        one = case.predicted(count)
        if one.fits:
            found.append(one)
    if not found:
        raise InputError.of(f"the program fits on no number of GPUs up to {most:,}")
    curve = _curve(found)
    all_walls = walls(curve, curve.base)
    falls = next(wall.falls_at_gpus for wall in all_walls if wall.level == EXPLAINED)
    index = int(np.searchsorted(curve.gpus, falls)) if falls else len(found) - 1
    at = int(curve.gpus[index])
    recorded = case.predicted(case.program.world_size)
    return ProgramWall(recorded, curve, curve.base, all_walls, losses(curve, index), at)


def _curve(found: list[ProgramPrediction]) -> SpeedCurve:
    """Tokens, samples if there are none, else what all ranks do."""
    amounts = [
        one.program.tokens or one.program.samples or float(one.program.world_size) for one in found
    ]
    causes = {cause for one in found for cause in one.ledger}
    ledger: dict[Cause, np.ndarray] = {
        cause: np.array([float(one.ledger.get(cause, 0.0)) for one in found]) for cause in causes
    }
    return SpeedCurve(
        np.array([one.program.world_size for one in found]),
        np.array([one.step_s for one in found]), np.array(amounts),
        np.array([one.memory_bytes for one in found]), ledger,
    )  # fmt: skip
