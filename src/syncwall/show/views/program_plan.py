"""Plans for recorded programs: how far they scale, and the network that they need.

Holds `program_wall_view` and `program_network_view`.
"""

from typing import Final

from syncwall.answer.program import ProgramPrediction
from syncwall.plan.network.needed import TARGETS, ProgramNetwork
from syncwall.plan.network.targets import Target
from syncwall.plan.wall.answer import EXPLAINED, ProgramWall
from syncwall.show.blocks import Lines, Verdict, View, table
from syncwall.show.numbers import duration, gigabytes, percent
from syncwall.show.words.program import program_title, program_words
from syncwall.units import Dimension
from syncwall.units import format as in_units

_CAUSES: Final = 4
_BATCH: Final = "each rank keeps the batch that was recorded; another batch is another recording"


def program_wall_view(wall: ProgramWall) -> View:
    """Verdict, the curve, why, and what was assumed."""
    curve, efficiency = wall.curve, wall.curve.efficiency(wall.base)
    rows = [
        (f"{gpus:,}", duration(float(curve.step_s[i])), percent(float(efficiency[i])),
         percent(_waits(wall, i)), gigabytes(float(curve.memory_bytes[i])))
        for i, gpus in enumerate(curve.gpus)
    ]  # fmt: skip
    return View(
        f"How far {program_title(wall.recorded)} scales",
        (
            Verdict((_wall_verdict(wall),), program_words(wall.recorded)),
            *table(("GPUs", "step", "efficiency", "waits", "memory"), rows, words=0),
            Lines("Why", (_why(wall),)),
            Lines("Batch", (_BATCH,)),
        ),
    )


def program_network_view(network: ProgramNetwork) -> View:
    """Verdict, what is needed on each number of GPUs, and what was assumed."""
    limits = network.limits
    rows = [
        (f"{one.gpus:,}", duration(one.step_s), duration(one.ideal_s), percent(one.efficiency),
         percent(one.waits), *(_rate(one.nic_bytes_per_s[target]) for target in TARGETS))
        for one in network.counts
    ]  # fmt: skip
    needed = f"NIC for {percent(limits.efficiency)}", f"NIC for waits of {percent(limits.exposed)}"
    head = ("GPUs", "step", "ideal", "efficiency", "waits", *needed)
    return View(
        f"The network that {program_title(network.recorded)} needs",
        (
            Verdict((_network_verdict(network),), program_words(network.recorded)),
            *table(head, rows, words=0),
            Lines("NICs", (_nics(network.recorded),)),
            Lines("Batch", (_BATCH,)),
        ),
    )


def _waits(wall: ProgramWall, index: int) -> float:
    waits = sum(float(s[index]) for cause, s in wall.curve.ledger.items() if cause.is_exposed)
    return waits / float(wall.curve.step_s[index])


def _wall_verdict(wall: ProgramWall) -> str:
    found = next(one for one in wall.walls if one.level == EXPLAINED)
    last = int(wall.curve.gpus[-1])
    if found.falls_at_gpus is None:
        return f"weak scaling stays above {percent(EXPLAINED)} efficiency to its end, {last:,} GPUs"
    return (
        f"weak scaling holds {percent(EXPLAINED)} efficiency up to {found.holds_to_gpus or 0:,} "
        f"GPUs, not on {found.falls_at_gpus:,}"
    )


def _why(wall: ProgramWall) -> str:
    if not wall.losses:
        return f"at {wall.causes_at:,} GPUs a step takes no longer than on {wall.base.gpus:,}"
    parts = (f"{one.cause.title} {percent(one.share)}" for one in wall.losses[:_CAUSES])
    return f"at {wall.causes_at:,} GPUs, beside {wall.base.gpus:,}, is lost to " + ", ".join(parts)


def _network_verdict(network: ProgramNetwork) -> str:
    first = network.counts[0]
    need = first.nic_bytes_per_s[Target.EFFICIENCY]
    wanted = f"{percent(network.limits.efficiency)} efficiency on {first.gpus:,} GPUs"
    if need is None:
        return f"no NIC is fast enough for {wanted}: latency alone costs more"
    if not need:
        return f"{wanted} needs no network to speak of"
    return f"{wanted} needs NICs of {_rate(need)}; as it is {percent(first.efficiency)} is reached"


def _nics(prediction: ProgramPrediction) -> str:
    nics = prediction.cluster.node.nics
    assert nics is not None
    return (
        f"{nics.count} of {_rate(float(nics.rate_bytes_per_s))} in a node, as the cluster has them"
    )


def _rate(rate: float | None) -> str:
    if rate is None:
        return "none"
    return in_units(rate, Dimension.BYTES_PER_S, unit="Gb/s", digits=3) if rate else "any"
