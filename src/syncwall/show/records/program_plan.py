"""Plans for recorded programs as plain data.

Holds `ProgramWallRecord` with `program_wall_record`, and `ProgramNetworkRecord` with
`program_network_record`.
"""

from typing_extensions import TypedDict

from syncwall.cause import Cause
from syncwall.plan.network.program import ProgramNetwork
from syncwall.plan.network.targets import Target
from syncwall.plan.wall.answer import LostShare, Wall
from syncwall.plan.wall.program import ProgramWall
from syncwall.show.records.interface import record


@record
class ProgramPointRecord(TypedDict):
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


@record
class ProgramWallRecord(TypedDict):
    """How far a recorded program scales; each rank keeps its batch."""

    command: str
    """What was recorded."""
    cluster: str
    """The machine."""
    recorded_gpus: int
    """Ranks that were recorded."""
    recorded_step_s: float
    """Their step, as `predict --work` has it."""
    base_gpus: int
    """What efficiency is relative to."""
    walls: list[Wall]
    """Where efficiency falls under a level for good."""
    losses: list[LostShare]
    """What is lost at `causes_at_gpus`, by cause."""
    causes_at_gpus: int
    """Where efficiency falls under 80%; else the most GPUs."""
    curve: list[ProgramPointRecord]
    """Counts on which it fits."""


@record
class ProgramNeedRecord(TypedDict):
    """What is needed on so many GPUs."""

    gpus: int
    """Ranks."""
    step_s: float
    """On the machine as it is."""
    ideal_step_s: float
    """On a network that costs nothing."""
    efficiency: float
    """Ideal step over this step."""
    waits: float
    """Share of the step that waits for communication."""
    nic_bytes_per_s: dict[Target, float | None]
    """Slowest NIC for each target; null if none is enough, 0 if any is."""


@record
class ProgramNetworkRecord(TypedDict):
    """The network that a recorded program needs; each rank keeps its batch."""

    command: str
    """What was recorded."""
    cluster: str
    """The machine."""
    recorded_gpus: int
    """Ranks that were recorded."""
    efficiency: float
    """Ideal step over step that is asked for."""
    exposed: float
    """Share of the step that may wait and count as hidden."""
    counts: list[ProgramNeedRecord]
    """One for each number of GPUs."""


def program_wall_record(wall: ProgramWall) -> ProgramWallRecord:
    """All of it."""
    curve, efficiency = wall.curve, wall.curve.efficiency(wall.base)
    points: list[ProgramPointRecord] = [
        {"gpus": int(gpus), "step_s": float(curve.step_s[i]), "efficiency": float(efficiency[i]),
         "memory_bytes": float(curve.memory_bytes[i]),
         "ledger_s": {cause: float(s[i]) for cause, s in curve.ledger.items() if s[i]}}
        for i, gpus in enumerate(curve.gpus)
    ]  # fmt: skip
    return {
        "command": wall.recorded.program.command, "cluster": wall.recorded.cluster.name,
        "recorded_gpus": wall.recorded.program.world_size, "recorded_step_s": wall.recorded.step_s,
        "base_gpus": wall.base.gpus, "walls": wall.walls, "losses": wall.losses,
        "causes_at_gpus": wall.causes_at, "curve": points,
    }  # fmt: skip


def program_network_record(network: ProgramNetwork) -> ProgramNetworkRecord:
    """All of it."""
    needs: list[ProgramNeedRecord] = [
        {"gpus": one.gpus, "step_s": one.step_s, "ideal_step_s": one.ideal_s,
         "efficiency": one.efficiency, "waits": one.waits, "nic_bytes_per_s": one.nic_bytes_per_s}
        for one in network.counts
    ]  # fmt: skip
    return {
        "command": network.recorded.program.command, "cluster": network.recorded.cluster.name,
        "recorded_gpus": network.recorded.program.world_size,
        "efficiency": network.limits.efficiency, "exposed": network.limits.exposed,
        "counts": needs,
    }  # fmt: skip
