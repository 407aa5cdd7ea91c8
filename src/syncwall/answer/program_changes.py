"""What a recorded program could do otherwise, each priced as the program itself is.

Holds `ProgramChangeKind`, `ProgramChange`, `program_changes` and `largest_batch`. Only what a
recording can say: descriptions know nothing of padding, of lines that make the host wait, or of
kernels that a compiler would join.
"""

from collections.abc import Callable
from dataclasses import dataclass, replace
from enum import StrEnum

from syncwall.answer.program import ProgramPrediction, priced_program
from syncwall.catalogue import searched_first
from syncwall.work.block import Phase
from syncwall.work.memory import usable_bytes
from syncwall.work.operations import Collective
from syncwall.work.program import Call, HeldKind, NoteKind, Program, RankProgram

LEAST_GAIN = 0.005
"""Share of a step from which a change is worth its line."""


class ProgramChangeKind(StrEnum):
    """What could be changed."""

    COMPILE = "compile"
    """`torch.compile`: memory-bound kernels are joined."""
    HOST_WAITS = "host waits"
    """The host reads no number from the device within the step."""
    PADDING = "padding"
    """Parameters are sharded along a dimension that the ranks divide."""
    RECOMPUTE = "recompute"
    """Nothing is computed again."""
    PREFETCH = "prefetch"
    """Sharded weights are asked for as early as wires allow."""
    BUCKETS = "buckets"
    """Gradients of DDP are reduced in buckets of twice the size."""


@dataclass(frozen=True, slots=True)
class ProgramChange:
    """One change and what it brings."""

    kind: ProgramChangeKind
    gained_s: float
    """Seconds that it takes off the step."""
    where: tuple[str, ...] = ()
    """Lines or parameters that it is about, the most important first."""


def program_changes(prediction: ProgramPrediction) -> list[ProgramChange]:
    """Single changes that help, the best first."""
    with searched_first(prediction.pricing.catalogue):
        return _program_changes(prediction)


def _program_changes(prediction: ProgramPrediction) -> list[ProgramChange]:
    tried = (
        _compiled(prediction),
        _changed(prediction, ProgramChangeKind.HOST_WAITS, _without_host_waits, _lines(prediction)),
        _changed(prediction, ProgramChangeKind.PADDING, _without_padding, _padded(prediction)),
        _changed(prediction, ProgramChangeKind.RECOMPUTE, _without_recompute),
        _changed(prediction, ProgramChangeKind.PREFETCH, _early_weights),
        _changed(prediction, ProgramChangeKind.BUCKETS, _larger_buckets, _buckets(prediction)),
    )
    least_s = LEAST_GAIN * prediction.step_s
    found = [one for one in tried if one is not None and one.gained_s >= least_s]
    return sorted(found, key=lambda one: -one.gained_s)


def largest_batch(prediction: ProgramPrediction) -> float | None:
    """Times the recorded batch of a rank that fits; None if nothing grows with it."""
    kinds = prediction.memory_by_kind
    growing = kinds.get(HeldKind.ACTIVATIONS, 0.0) + kinds.get(HeldKind.OTHER, 0.0)
    if not growing:
        return None
    free = usable_bytes(prediction.cluster.device) - (prediction.memory_bytes - growing)
    return max(free / growing, 0.0)


def _compiled(prediction: ProgramPrediction) -> ProgramChange | None:
    if prediction.compiled:
        return None
    other = priced_program(prediction.program, prediction.pricing, compiled=True)
    return ProgramChange(ProgramChangeKind.COMPILE, prediction.step_s - other.step_s)


def _changed(
    prediction: ProgramPrediction,
    kind: ProgramChangeKind,
    change: Callable[[Program], Program | None],
    where: tuple[str, ...] = (),
) -> ProgramChange | None:
    changed = change(prediction.program)
    if changed is None:
        return None
    other = priced_program(changed, prediction.pricing, compiled=prediction.compiled)
    return ProgramChange(kind, prediction.step_s - other.step_s, where)


def _lines(prediction: ProgramPrediction) -> tuple[str, ...]:
    waits = sorted(prediction.host_waits().items(), key=lambda pair: -pair[1])
    return tuple(place.source or place.module for place, _ in waits)


def _padded(prediction: ProgramPrediction) -> tuple[str, ...]:
    return tuple(note.what for note in prediction.notes(NoteKind.PADDED))


def _without_host_waits(program: Program) -> Program | None:
    if not any(call.host_waits for rank in program.ranks for call in rank):
        return None
    return _kept(
        program, lambda call: call.what is not None, lambda c: replace(c, host_waits=False)
    )


def _without_recompute(program: Program) -> Program | None:
    if not program.recompute_flops:
        return None
    return _kept(
        program, lambda c: c.phase is not Phase.RECOMPUTE or isinstance(c.what, Collective)
    )


def _without_padding(program: Program) -> Program | None:
    notes = [note for note in program.notes if note.kind is NoteKind.PADDED]
    wasted = sum(note.bytes - note.useful_bytes for note in notes)
    sent = sum(note.bytes for note in notes)
    if wasted <= 0:
        return None
    calls = [call.what for rank in program.ranks for call in rank if _is_shard(call)]
    gathered = max((float(w.bytes) for w in calls if isinstance(w, Collective)), default=sent)
    share = 1.0 - wasted / max(sent, gathered)

    def smaller(call: Call) -> Call:
        if not _is_shard(call) or not isinstance(call.what, Collective):
            return call
        return replace(call, what=replace(call.what, bytes=call.what.bytes * share))

    return _kept(program, lambda call: True, smaller)


def _early_weights(program: Program) -> Program | None:
    def early(call: Call) -> Call:
        first = isinstance(call.what, Collective) and call.what.kind == "all-gather"
        return replace(call, after=()) if first and _is_shard(call) else call

    if not any(_is_shard(call) for rank in program.ranks for call in rank):
        return None
    return _kept(program, lambda call: True, early)


def _buckets(prediction: ProgramPrediction) -> tuple[str, ...]:
    """The size to ask for."""
    sizes = [
        float(getattr(call.what, "bytes", 0.0)) for call in prediction.rank if _is_bucket(call)
    ]
    return (f"bucket_cap_mb={2.0 * max(sizes) / 2**20:.3g}",) if sizes else ()


def _larger_buckets(program: Program) -> Program | None:
    """Two and two buckets in one, which is reduced when both are there."""
    ranks = tuple(_paired(rank) for rank in program.ranks)
    changed = any(len(a.calls) < len(b.calls) for a, b in zip(ranks, program.ranks, strict=True))
    return replace(program, ranks=ranks) if changed else None


def _paired(rank: RankProgram) -> RankProgram:
    calls = list(rank.calls)
    buckets = [i for i, call in enumerate(calls) if _is_bucket(call)]
    into = {
        first: second for first, second in zip(buckets[::2], buckets[1::2], strict=False)
        if not any(first in call.after for call in calls[first : second + 1])
    }  # fmt: skip
    for first, second in into.items():
        one, other = calls[first].what, calls[second].what
        assert isinstance(one, Collective)
        assert isinstance(other, Collective)
        both = replace(other, bytes=one.bytes + other.bytes)
        after = tuple(sorted({*calls[first].after, *calls[second].after}))
        calls[second] = replace(calls[second], what=both, after=after)
    calls = [
        replace(call, after=tuple(sorted({into.get(earlier, earlier) for earlier in call.after})))
        for call in calls
    ]
    dropped = {id(calls[first]) for first in into}
    whole = replace(rank, calls=tuple(calls))
    return _kept_of(whole, lambda call: id(call) not in dropped, lambda call: call)


def _is_bucket(call: Call) -> bool:
    what = call.what
    return isinstance(what, Collective) and (what.kind, what.axis) == ("all-reduce", "dp")


def _is_shard(call: Call) -> bool:
    return isinstance(call.what, Collective) and call.what.axis in ("shard", "expert-shard")


def _kept(
    program: Program, keep: Callable[[Call], bool], change: Callable[[Call], Call] = lambda c: c
) -> Program:
    """`program` with only the calls to `keep`, each changed; waits for the others are dropped."""
    return replace(program, ranks=tuple(_kept_of(rank, keep, change) for rank in program.ranks))


def _kept_of(
    rank: RankProgram, keep: Callable[[Call], bool], change: Callable[[Call], Call]
) -> RankProgram:
    into: dict[int, int] = {}
    calls: list[Call] = []
    for index, call in enumerate(rank.calls):
        if keep(call):
            into[index] = len(calls)
            after = tuple(into[earlier] for earlier in call.after if earlier in into)
            calls.append(change(replace(call, after=after)))
    return replace(rank, calls=tuple(calls))
