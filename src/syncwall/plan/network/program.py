"""The network that a recorded program needs.

Holds `ProgramRequirement`, `ProgramNetwork` and `program_network`: the slowest NICs with which the
targets of `plan.network.targets` hold, by search on the player.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from math import exp, log
from typing import Final

from syncwall.answer.program import ProgramPrediction
from syncwall.plan.network.targets import Ideal, NetworkLever, Target, TargetLimits, met, range_of
from syncwall.plan.programs import ProgramCase
from syncwall.plan.wires import Wires
from syncwall.problems import InputError
from syncwall.public import Answer, published

TARGETS: Final = (Target.EFFICIENCY, Target.HIDDEN)
_ROUNDS: Final = 14
"""Halvings of the range of rates on a logarithmic scale: 0.15% are left of ten decades."""


@published("gpus step_s ideal_step_s=ideal_s efficiency waits nic_bytes_per_s")
@dataclass(frozen=True)
class ProgramRequirement:
    """What is needed on so many GPUs, and how the machine as it is compares."""

    gpus: int
    """Ranks."""
    step_s: float
    """On the machine as it is."""
    ideal_s: float
    """On a network with endless rate and no latency between scale-up domains."""
    waits: float
    """Share of the step that waits for communication, as it is."""
    nic_bytes_per_s: dict[Target, float | None]
    """Slowest NIC, with as many in a node as there are; None if none is enough, 0 if any is."""

    @property
    def efficiency(self) -> float:
        """Ideal step over this step."""
        return self.ideal_s / self.step_s


@published(
    "command=recorded.program.command cluster=recorded.cluster.name",
    "recorded_gpus=recorded.program.world_size efficiency=limits.efficiency",
    "exposed=limits.exposed counts",
)
@dataclass(frozen=True)
class ProgramNetwork(Answer):
    """The network that a recorded program needs; each rank keeps its batch."""

    verb = "plan network work"
    recorded: ProgramPrediction
    """On as many ranks as it was recorded with."""
    limits: TargetLimits
    counts: list[ProgramRequirement]
    """One for each number of GPUs."""

    @property
    def exit_code(self) -> int:
        """1 if no rate of the NICs is enough."""
        return int(None in (one.nic_bytes_per_s[Target.EFFICIENCY] for one in self.counts))

    def __repr__(self) -> str:
        gpus = ", ".join(f"{one.gpus:,}" for one in self.counts)
        return f"<ProgramNetwork {self.recorded.program.command} on {gpus} GPUs>"


def program_network(
    case: ProgramCase, counts: Sequence[int], limits: TargetLimits, *,
    progress: Callable[[float], None] = lambda share: None,
) -> ProgramNetwork:  # fmt: skip
    """One requirement for each of `counts`; for the recorded number of ranks if there are none."""
    if case.cluster.node.nics is None:
        raise InputError.of(f"{case.cluster.name} has no NICs whose rate could be varied")
    asked = list(counts) or [case.program.world_size]
    found = []
    for done, ranks in enumerate(asked):
        progress(done / len(asked))
        found.append(_requirement(case, ranks, limits))
    return ProgramNetwork(case.predicted(case.program.world_size), limits, found)


def _requirement(case: ProgramCase, ranks: int, limits: TargetLimits) -> ProgramRequirement:
    now = case.predicted(ranks).timed
    nics = case.cluster.node.nics
    assert nics is not None
    low, high = (log(factor) for factor in range_of(NetworkLever.NIC, case.cluster))
    best = case.timed(ranks, Wires(nic=exp(high), latency=0.0))
    ideal = Ideal(float(best.step_s), float(best.waits_s))

    def holds(target: Target, logarithm: float) -> bool:
        timed = case.timed(ranks, Wires(nic=exp(logarithm)))
        return bool(met(target, timed, ideal, limits))

    rates: dict[Target, float | None] = {}
    for target in TARGETS:
        factor = _least(lambda x, target=target: holds(target, x), low, high)  # type: ignore[misc]
        rates[target] = None if factor is None else factor * float(nics.rate_bytes_per_s)
    waits = float(now.waits_s) / float(now.step_s)
    return ProgramRequirement(ranks, float(now.step_s), ideal.step_s, waits, rates)


def _least(holds: Callable[[float], bool], low: float, high: float) -> float | None:
    """The least factor from which on it holds; 0 if always, None if never."""
    if holds(low):
        return 0.0
    if not holds(high):
        return None
    for _ in range(_ROUNDS):
        middle = (low + high) / 2.0
        low, high = (low, middle) if holds(middle) else (middle, high)
    return exp(high)
