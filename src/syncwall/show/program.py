"""A recorded program, predicted: verdict, numbers, ledger, memory, timeline; and plans for it."""

from typing import Final

from syncwall.answer.priced import MFU_CONVENTION
from syncwall.answer.program import (
    ProgramChange,
    ProgramChangeKind,
    ProgramPrediction,
    largest_batch,
)
from syncwall.cause import LEAST_SHARE
from syncwall.plan.network.needed import TARGETS, ProgramNetwork
from syncwall.plan.network.targets import Target
from syncwall.plan.wall.answer import EXPLAINED, ProgramWall
from syncwall.show.blocks import Block, Lines, Verdict, View, ledger, table
from syncwall.show.capture import notes_table
from syncwall.show.numbers import duration, gigabytes, percent, plural, signed, signed_percent
from syncwall.show.prediction import memory_figure, memory_row, timeline_figures
from syncwall.units import Dimension
from syncwall.units import format as in_units

_MOST: Final = 3
"""Lines or parameters that a sentence names."""
_CHANGES: Final = {
    ProgramChangeKind.COMPILE: "join memory-bound kernels: torch.compile",
    ProgramChangeKind.HOST_WAITS: "do not wait for the device within a step",
    ProgramChangeKind.PADDING: "shard along a dimension that the ranks divide",
    ProgramChangeKind.RECOMPUTE: "compute nothing again, if memory allows",
    ProgramChangeKind.PREFETCH: "ask for sharded weights earlier, at best",
    ProgramChangeKind.BUCKETS: "reduce gradients in larger buckets",
}


def program_title(prediction: ProgramPrediction) -> str:
    """What was recorded."""
    return prediction.program.command or "a recorded program"


def program_words(prediction: ProgramPrediction) -> str:
    """What runs where."""
    program, cluster = prediction.program, prediction.cluster
    how = "compiled" if prediction.compiled else "eager"
    size = f"{program.parameters / 1e9:.3g}B parameters, " if program.parameters else ""
    where = f"{plural(program.world_size, 'rank')} on {cluster.title or cluster.name}"
    return f"{size}{where}, {how}, recorded with torch {program.torch}"


def changed_words(change: ProgramChange) -> str:
    """The change in words, with where it is to be made."""
    named = ", ".join(change.where[:_MOST])
    more = f" and {len(change.where) - _MOST} more" if len(change.where) > _MOST else ""
    return _CHANGES[change.kind] + (f" ({named}{more})" if named else "")


def batch_words(times: float | None) -> str | None:
    """How much larger the batch could be."""
    if times is None or times == 1.0:
        return None
    if times < 1.0:
        return f"a batch of {percent(times)} of this one would fit"
    return f"the batch of a rank could be {times:.2g} times as large and still fit"


def program_evidence(prediction: ProgramPrediction) -> str:
    """Why the interval is as wide as it is."""
    words = "few published runs can be recorded, so the interval is that of unlike programs"
    if prediction.unknown < LEAST_SHARE:
        return words
    return f"{words}; {percent(prediction.unknown, 1)} of its work is not known"


_MODULES: Final = 12


def program_view(prediction: ProgramPrediction) -> View:
    """All there is to say of a recorded program."""
    least_s = LEAST_SHARE * prediction.step_s
    return View(
        program_title(prediction),
        (
            Verdict((prediction.verdict.text,), program_words(prediction)),
            *_numbers(prediction),
            ledger("where the time goes", prediction.ledger, least=least_s),
            memory_figure(prediction.memory_by_kind, prediction.cluster.device),
            *timeline_figures(prediction.timeline(), "one step"),
            *_modules(prediction),
            *_next(prediction, prediction.changes),
            Lines("Evidence", (program_evidence(prediction),)),
            *notes_table(prediction.program.noted),
        ),
    )


def _numbers(prediction: ProgramPrediction) -> list[Block]:
    step_s, (low_s, high_s) = prediction.step_s, prediction.step_interval_s
    slow, fast = step_s / high_s, step_s / low_s
    mfu, gpus = prediction.mfu, prediction.program.world_size
    rows = [("step", duration(step_s), f"{duration(low_s)} to {duration(high_s)}", "")]
    for name, amount in (
        ("tokens", prediction.program.tokens),
        ("samples", prediction.program.samples),
    ):
        if amount:
            speed = amount / step_s / gpus
            digits = ",.0f" if speed >= 100 else ".3g"
            rows.append(
                (
                    f"{name}/s/GPU",
                    f"{speed:{digits}}",
                    f"{speed * slow:{digits}} to {speed * fast:{digits}}",
                    f"{speed * gpus:{digits}} {name}/s in all",
                )
            )
    rows += [
        ("MFU", percent(mfu, 1), f"{percent(mfu * slow, 1)} to {percent(mfu * fast, 1)}", MFU_CONVENTION),
        ("HFU", percent(prediction.hfu, 1), "", "with what is computed twice"),
        memory_row(prediction.room),
    ]
    return table(("", "predicted", "80% interval", ""), rows, ends_in_words=True)


def _modules(prediction: ProgramPrediction) -> list[Block]:
    """Where computation goes, by module."""
    shares = prediction.by_module()[:_MODULES]
    rows = [
        (share.name, duration(share.seconds), percent(share.seconds / prediction.step_s), f"{share.calls:,}")
        for share in shares
        if share.seconds >= LEAST_SHARE * prediction.step_s
    ]
    head = ("module", "time alone", "of the step", "kernels")
    return table(head, rows, label="Where") if rows else []


def _next(prediction: ProgramPrediction, changes: list[ProgramChange]) -> list[Block]:
    rows = [
        (
            f"{number}",
            changed_words(one),
            signed(-one.gained_s),
            signed_percent(-one.gained_s / prediction.step_s),
        )
        for number, one in enumerate(changes, 1)
    ]
    head = ("", "change", "step", "of the step")
    found = (
        table(head, rows, words=2, label="Next", spare=("of the step",))
        if rows
        else [Lines("Next", ("no single change of the program that was tried helps",))]
    )
    larger = batch_words(largest_batch(prediction))
    return [*found, *([Lines("Batch", (larger,))] if larger else [])]


_CAUSES: Final = 4
_BATCH: Final = "each rank keeps the batch that was recorded; another batch is another recording"


def program_wall_view(wall: ProgramWall) -> View:
    """Verdict, the curve, why, and what was assumed."""
    curve, efficiency = wall.curve, wall.curve.efficiency(wall.base)
    rows = [
        (
            f"{gpus:,}",
            duration(float(curve.step_s[i])),
            percent(float(efficiency[i])),
            percent(_waits(wall, i)),
            gigabytes(float(curve.memory_bytes[i])),
        )
        for i, gpus in enumerate(curve.gpus)
    ]
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
        (
            f"{one.gpus:,}",
            duration(one.step_s),
            duration(one.ideal_s),
            percent(one.efficiency),
            percent(one.waits),
            *(_rate(one.nic_bytes_per_s[target]) for target in TARGETS),
        )
        for one in network.counts
    ]
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
    return f"{nics.count} of {_rate(float(nics.rate_bytes_per_s))} in a node, as the cluster has them"


def _rate(rate: float | None) -> str:
    if rate is None:
        return "none"
    return in_units(rate, Dimension.BYTES_PER_S, unit="Gb/s", digits=3) if rate else "any"
