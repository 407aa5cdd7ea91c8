"""Bytes that a rank keeps in the memory of its host.

Holds `host_memory_bytes`: what leaves the device because of the offloading that a layout asks for.
Copies that a framework pins beside it, data loaders and the page cache come on top: DeepSpeed's own
estimate adds a half (`estimate_zero2_model_states_mem_needs`).
"""

from typing import Final

from syncwall.describe import Layout, Model
from syncwall.describe.switches import OFFLOAD, OffloadSettings
from syncwall.work.memory import Memory, step_memory
from syncwall.work.number import Number

_ON_DEVICE: Final = OffloadSettings().model_dump()


def host_memory_bytes(model: Model, layout: Layout, seq: Number, memory: Memory) -> Number:
    """Bytes on the host of the fullest rank, whose device has `memory`."""
    if not any(getattr(layout, name) for name in OFFLOAD):
        return 0.0
    without = step_memory(model, layout.model_copy(update=_ON_DEVICE), seq)
    moved = ("weights", "gradients", "optimizer", "activations")
    found: Number = sum(getattr(without, part) - getattr(memory, part) for part in moved)
    return found
