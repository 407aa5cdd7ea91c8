"""One model on one machine in many layouts, each as it would be predicted alone.

They add up to 1, and what overlaps is counted as it is: communication that computation hides has no
share, and computation that hides it has less than its seconds.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from math import log
from operator import attrgetter
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from syncwall.answer.pricing import Pricing
from syncwall.cause import Cause
from syncwall.cost.framework_costs import KNOBS, Knobs
from syncwall.describe import Cluster, Layout, Model
from syncwall.work.memory import step_memory
from syncwall.work.number import Number

_TURN: Final = 1.02


def shares_of(
    pricing: Pricing, model: Model, layout: Layout, seq: Any, cluster: Cluster
) -> NDArray[np.float64]:
    """A row with the share of every knob for each of `layout`, which is resolved: one or arrays."""
    turned = _turned(pricing.knobs)
    steps = pricing.turned(turned).step(model, layout, seq, cluster).step_s
    logs = np.log(np.asarray(steps, dtype=float))
    grown = (logs[1:] - logs[0]) / log(_TURN)
    shares = np.maximum(grown, 0.0)
    return np.asarray((shares / shares.sum(axis=0)).T, dtype=float)


def _turned(knobs: Knobs) -> Knobs:
    """Arrays in which first no knob is turned, then one after the other."""
    count = len(KNOBS)
    by_name = knobs.by_name()
    grid = 1.0 + (_TURN - 1.0) * np.eye(count + 1)[1:]
    return replace(knobs, **{name: by_name[name] * grid[i][:, None] for i, name in enumerate(KNOBS)})


SIZES: Final = (
    "dp",
    "shard",
    "shard_degree",
    "tp",
    "sp",
    "pp",
    "virtual_stages",
    "schedule",
    "cp",
    "ep",
    "etp",
    "micro_batch",
    "global_batch",
    "recompute",
    "recompute_layers",
    "dispatcher",
    "overlap_ep",
)
"""Fields in which layouts of one call may differ."""
ALL_LAYERS: Final = 10**6
"""Stands for all layers of a stage, as arrays cannot hold None."""
_others: Final = attrgetter(*(name for name in Layout.model_fields if name not in SIZES))


@dataclass(frozen=True, slots=True)
class TimedLayout:
    """Time, memory and ledger of one layout."""

    layout: Layout
    step_s: float
    memory_bytes: float
    ledger: dict[Cause, float]
    """Seconds by cause, those that are not zero."""


def timed_layouts(
    pricing: Pricing, model: Model, cluster: Cluster, layouts: Sequence[Layout], seq: int
) -> list[TimedLayout]:
    """Every layout of `layouts`, which are resolved, in order."""
    found: dict[int, TimedLayout] = {}
    for indices, many in _alike(layouts):
        timed = pricing.step(model, many, seq, cluster)
        count = len(indices)
        seconds = np.broadcast_to(timed.step_s, count)
        memory = np.broadcast_to(step_memory(model, many, seq).total, count)
        causes = {cause: np.broadcast_to(value, count) for cause, value in timed.ledger.items()}
        for place, index in enumerate(indices):
            found[index] = TimedLayout(
                layouts[index], float(seconds[place]), float(memory[place]), _ledger(causes, place)
            )
    return [found[index] for index in range(len(layouts))]


def shares_of_each(
    pricing: Pricing, model: Model, cluster: Cluster, layouts: Sequence[Layout], seq: int
) -> NDArray[np.float64]:
    """A row for every layout of `layouts`: the share of its step that goes with each knob."""
    found = np.empty((len(layouts), len(KNOBS)))
    for indices, many in _alike(layouts):
        found[indices] = shares_of(pricing, model, many, seq, cluster)
    return found


def seconds_of(
    pricing: Pricing, model: Model, cluster: Cluster, layouts: Sequence[Layout], seq: int
) -> list[float]:
    """Seconds of a step in every layout."""
    return _each(layouts, lambda many: pricing.step(model, many, seq, cluster).step_s)


def memory_of(model: Model, layouts: Sequence[Layout], seq: int) -> list[float]:
    """Bytes on the fullest GPU of every layout."""
    return _each(layouts, lambda many: step_memory(model, many, seq).total)


def _each(layouts: Sequence[Layout], asked: Callable[[Layout], Number]) -> list[float]:
    found = np.empty(len(layouts))
    for indices, many in _alike(layouts):
        found[indices] = asked(many)
    return [float(one) for one in found]


def _alike(layouts: Sequence[Layout]) -> Iterator[tuple[list[int], Layout]]:
    """Places of layouts that differ in `SIZES` only, and these as one layout of arrays."""
    groups: dict[tuple[Any, ...], list[int]] = {}
    for index, layout in enumerate(layouts):
        groups.setdefault(_others(layout), []).append(index)
    for indices in groups.values():
        first = layouts[indices[0]]
        if len(indices) == 1:
            yield indices, first
            continue
        arrays = {name: np.array([getattr(layouts[i], name) for i in indices]) for name in SIZES}
        arrays["recompute_layers"] = np.array([recomputed_count(layouts[i]) for i in indices])
        yield indices, first.model_copy(update=arrays)


def recomputed_count(layout: Layout) -> int:
    """Layers of a stage that are recomputed if any are, as a number that arrays can hold."""
    return ALL_LAYERS if layout.recompute_layers is None else layout.recompute_layers


def _ledger(causes: dict[Cause, Any], index: int) -> dict[Cause, float]:
    values = {cause: float(value[index]) for cause, value in causes.items()}
    return {cause: value for cause, value in values.items() if value}
