"""What a description leaves open, and the likeliest value for it.

Holds `candidates` (every admissible way to fill in what is open) and `likeliest` (the one that
whoever tuned the run would have found: the fastest that fits). Used for a user's run and for a
published one alike.
"""

from collections.abc import Iterator, Sequence
from itertools import product
from typing import Any

from syncwall.describe import Layout, Model
from syncwall.describe.framework import Framework
from syncwall.describe.layout import Recompute, Schedule
from syncwall.describe.rules import broken_rules

MEMORY_DOUBT = 1.2
"""How far the memory model may be off: a run that seems this much too large may still fit."""
_MICRO_BATCHES = (1, 2, 4)
_RECOMPUTE = (Recompute.NONE, Recompute.SELECTIVE, Recompute.FULL)


def choices(
    model: Model, layout: Layout, open_fields: Sequence[str], framework: Framework
) -> dict[str, list[Any]]:
    """The values that each open field could have, the plainest first; one if it is usual."""
    found: dict[str, list[Any]] = {}
    if "micro_batch" in open_fields:
        found["micro_batch"] = _micro_batches(layout, framework)
    if "virtual_stages" in open_fields and layout.pp > 1:
        chunks = list(_chunks(model.layers, int(layout.pp)))
        if layout.schedule == Schedule.INTERLEAVED:
            chunks = [framework.virtual_stages or count for count in chunks if count > 1]
        found["virtual_stages"] = sorted(set(chunks))
    if "recompute" in open_fields:
        usual = framework.recompute
        found["recompute"] = list(_RECOMPUTE) if usual is None else [usual]
    return found


def _micro_batches(layout: Layout, framework: Framework) -> list[int]:
    if framework.microbatches_as_stages and layout.pp > 1:
        replica = int(layout.global_batch or 1) // int(layout.dp or 1)
        return [max(replica // int(layout.pp), 1)]
    return list(_MICRO_BATCHES)


def candidates(
    model: Model, layout: Layout, seq: int, gpus: int, values: dict[str, list[Any]]
) -> tuple[list[Layout], list[str]]:
    """Every admissible layout with the `values` of its open fields, and why others are not."""
    found: list[Layout] = []
    reasons: list[str] = []
    for chosen in product(*values.values()):
        update = dict(zip(values, chosen, strict=True))
        if "virtual_stages" in update:
            several = update["virtual_stages"] > 1
            plain = layout.schedule in (Schedule.ONE_F_ONE_B, Schedule.INTERLEAVED)
            if several and not plain:
                continue
            update["schedule"] = Schedule.INTERLEAVED if several else layout.schedule
        one = layout.model_copy(update=update)
        broken = broken_rules(model, one, seq, gpus)
        reasons += [reason for _, reason in broken]
        found += [] if broken else [one]
    return found, reasons


def least_recomputing(
    layouts: Sequence[Layout], memory: Sequence[float], size_bytes: float
) -> list[Layout]:
    """`layouts` without those that recompute more than another one that fits and is else equal.

    Recomputation only ever costs time, so the fastest is still among them.
    """
    least: dict[tuple[int, int], Recompute] = {}
    for layout, used in zip(layouts, memory, strict=True):
        key = (int(layout.micro_batch), int(layout.virtual_stages))
        if used <= size_bytes * MEMORY_DOUBT:
            least[key] = min(least.get(key, layout.recompute), layout.recompute)
    return [
        layout
        for layout in layouts
        if layout.recompute
        <= least.get((int(layout.micro_batch), int(layout.virtual_stages)), Recompute.FULL)
    ]


def likeliest(seconds: Sequence[float], memory: Sequence[float], size_bytes: float) -> int:
    """Index of the fastest candidate that fits; of the smallest if none does."""
    fitting = [i for i, used in enumerate(memory) if used <= size_bytes * MEMORY_DOUBT]
    if fitting:
        return min(fitting, key=lambda i: seconds[i])
    return min(range(len(memory)), key=lambda i: memory[i])


def _chunks(layers: int, stages: int) -> Iterator[int]:
    """Numbers of virtual stages that cut the layers of a rank evenly."""
    each = max(layers // stages, 1)
    return (count for count in range(1, each + 1) if each % count == 0)
