"""One model on one machine in many layouts, each as it would be predicted alone.

Holds `Evaluated`, `evaluated` (layouts that differ in their sizes only are one call with arrays)
and `likeliest_of`.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from syncwall.answer.evaluation import priced_step
from syncwall.answer.open_fields import likeliest
from syncwall.cost.measured import Measured
from syncwall.describe import Cluster, Layout, Model, Software
from syncwall.work.memory import step_memory

SIZES = (
    "dp", "shard", "shard_degree", "tp", "sp", "pp", "virtual_stages", "schedule", "cp", "ep",
    "etp", "micro_batch", "global_batch", "recompute",
)  # fmt: skip
"""Fields in which layouts of one call may differ."""


@dataclass(frozen=True, slots=True)
class Evaluated:
    """Time, memory and ledger of one layout."""

    layout: Layout
    step_s: float
    memory_bytes: float
    ledger: dict[str, float]
    """Seconds by cause, those that are not zero."""


def evaluated(
    model: Model,
    cluster: Cluster,
    layouts: Sequence[Layout],
    seq: int,
    software: Software,
    *,
    measured: Measured | None = None,
) -> list[Evaluated]:
    """Every layout of `layouts`, which are resolved and differ in `SIZES` only."""
    arrays = {name: np.array([getattr(one, name) for one in layouts]) for name in SIZES}
    many = layouts[0].model_copy(update=arrays)
    _, time, _ = priced_step(model, cluster, many, seq, software, measured=measured)
    count = len(layouts)
    seconds = np.broadcast_to(time.step_s, count)
    memory = np.broadcast_to(step_memory(model, many, seq).total, count)
    causes = {cause: np.broadcast_to(value, count) for cause, value in time.ledger.items()}
    return [
        Evaluated(one, float(seconds[i]), float(memory[i]), _ledger(causes, i))
        for i, one in enumerate(layouts)
    ]


def likeliest_of(found: Sequence[Evaluated], size_bytes: float) -> Evaluated:
    """The one that whoever tuned the run would have found, on a device with `size_bytes`."""
    times, memory = [one.step_s for one in found], [one.memory_bytes for one in found]
    return found[likeliest(times, memory, size_bytes)]


def _ledger(causes: dict[str, Any], index: int) -> dict[str, float]:
    values = {cause: float(value[index]) for cause, value in causes.items()}
    return {cause: value for cause, value in values.items() if value}
