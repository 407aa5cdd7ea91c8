"""What a memory snapshot of PyTorch shows: memory that ran out, fragments, and what would need less.

Holds `memory_findings` and `memory_words`. That a snapshot holds much is no fault: only an
allocation that failed is.
"""

from collections.abc import Iterator
from typing import Final

from syncwall.explain.failures import gib, is_fragmented
from syncwall.explain.finding import Finding
from syncwall.read.failure_text import failure_causes
from syncwall.read.memory_snapshot import DeviceMemory, MemorySnapshot
from syncwall.units import plural

_ACTIVATIONS: Final = "forward pass (activations)"
_FULL: Final = "GPU out of memory"
_FRAGMENTED: Final = "GPU memory fragmented"


def memory_words(found: MemorySnapshot) -> str:
    """What was recorded."""
    said = [
        f"GPU {one.device}: {gib(one.held_bytes)} held of {gib(one.reserved_bytes)} reserved "
        f"{_moment(one)}, {gib(one.end_held_bytes)} at its end"
        for one in found.devices
    ]
    return "; ".join([*said, *(problem.message for problem in found.problems)])


def _moment(one: DeviceMemory) -> str:
    if one.refusal is not None:
        return "when memory ran out"
    return f"at the peak of {plural(one.events, 'event')}" if one.events else "(no events recorded)"


def memory_findings(found: MemorySnapshot) -> Iterator[Finding]:
    """Memory that ran out, with what would fit; else what holds most, and fragments."""
    for one in found.devices:
        fragmented = is_fragmented(one.unused_bytes, one.reserved_bytes)
        refused = one.refusal
        held = f"{gib(one.held_bytes)} in tensors, {gib(one.unused_bytes)} held unused by PyTorch"
        if refused is None:
            yield _most(one)
            if fragmented:
                what = (
                    f"{one.unused_bytes / one.reserved_bytes:.0%} of what PyTorch reserved is unused ({held})"
                )
                why = "fragments and rounding take memory that tensors could have"
                yield Finding("note", what, why, failure_causes()[_FRAGMENTED].next, one.source)
            continue
        where = f" in {refused.line}" if refused.line else ""
        free = f"{held}, {gib(refused.free_bytes)} free"
        what = (
            f"GPU {one.device} ran out of memory: {gib(refused.asked_bytes)} more did not fit{where} ({free})"
        )
        if fragmented and refused.free_bytes + one.unused_bytes >= refused.asked_bytes:
            cause, saving = _FRAGMENTED, ""
        else:
            cause, saving = _FULL, f"; {_saving(one)}"
        meaning = failure_causes()[cause]
        yield Finding("wrong", what, meaning.why, f"{meaning.next}{saving}", one.source, cause=cause)


def _most(one: DeviceMemory) -> Finding:
    """What the program was doing when it allocated most of what is held."""
    phase, count = next(iter(one.phases.items()), ("nothing", 0))
    share = count / one.held_bytes if one.held_bytes else 0.0
    what = f"GPU {one.device}: {phase} {gib(count)}, {share:.0%} of what is held"
    return Finding("note", what, "most of the memory", _saving(one), one.source)


def _saving(one: DeviceMemory) -> str:
    """What needs less, by what holds most."""
    activations = one.phases.get(_ACTIVATIONS, 0)
    if one.held_bytes and 2 * activations >= one.held_bytes:
        return (
            f"half the micro batch would free about {gib(activations / 2)}, activation checkpointing more: "
            f"the forward pass holds {activations / one.held_bytes:.0%}"
        )
    others = one.held_bytes - activations
    return (
        f"a smaller micro batch frees {gib(activations)} at most: the other {gib(others)} (weights, "
        "gradients, states) need sharding (FSDP, ZeRO), fewer bits or more GPUs"
    )
