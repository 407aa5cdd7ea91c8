"""Batches that more layouts could share out.

Holds `whole_batch` (the nearest one that every number of replicas divides) and `Other`, what it
would bring. `grown` (one layout, or arrays over dp), `single`, `is_whole` and `replicas_at`: A
layout on more GPUs: data parallelism grows, the rest stays.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from syncwall.answer.improvements import divisors
from syncwall.answer.prediction import Prediction, predict
from syncwall.describe import Cluster, Layout
from syncwall.describe.base import is_open
from syncwall.describe.choice import Choice
from syncwall.describe.layout import PLAIN, Schedule, Shard
from syncwall.plan.searched import best_run
from syncwall.plan.wires import PricedCase


@dataclass(frozen=True, slots=True)
class Other:
    """Another batch on the same GPUs."""

    batch: int
    excluded: int
    """Numbers of replicas among which the batch that was asked for cannot be dealt out."""
    best: Prediction
    """The best layout for it, of a narrower search."""


def whole_batch(batch: int, gpus: int) -> int:
    """The nearest batch that as many replicas as possible can share: a multiple of the GPUs, or of
    their largest divisor below it.
    """
    unit = max(n for n in divisors(gpus) if n <= batch)
    return max(1, round(batch / unit)) * unit


def other_batch(case: PricedCase, batch: int, pinned: Mapping[str, Any]) -> Other | None:
    """What the nearest whole batch would bring; None if `batch` excludes no number of replicas."""
    gpus = case.cluster.gpus
    nearest = whole_batch(batch, gpus)
    excluded = [n for n in divisors(gpus) if n <= batch and batch % n and nearest % n == 0]
    if not excluded:
        return None
    best = best_run(case, case.cluster, nearest, pinned)
    return None if best is None else Other(nearest, len(excluded), predict(best, case.pricing))


def grown(layout: Layout, dp: Any, global_batch: Any) -> Layout:
    """`layout` with `dp` replicas and `global_batch` sequences a step; both may be arrays.

    What no longer divides gives way: the micro batch becomes the largest part of itself that does
    and keeps interleaving possible, interleaving ends where a replica's sequences are no multiple
    of the stages, and a shard degree of its own (HSDP) stays where it divides.
    """
    each = global_batch // dp
    micro = np.gcd(each, layout.micro_batch)
    update: dict[str, Any] = {"dp": dp, "global_batch": global_batch, "micro_batch": micro}
    update["shard_degree"] = _degree(layout, dp)
    if layout.schedule == Schedule.INTERLEAVED:
        interleaved = each % layout.pp == 0
        update["micro_batch"] = np.where(interleaved, np.gcd(each // layout.pp, micro), micro)
        update["virtual_stages"] = np.where(interleaved, layout.virtual_stages, 1)
        update["schedule"] = np.where(interleaved, Schedule.INTERLEAVED, Schedule.ONE_F_ONE_B)
    return layout.model_copy(update=update)


def single(layout: Layout) -> Layout:
    """A layout whose numbers are Python's, from one whose numbers are NumPy's."""
    values: dict[str, Any] = {
        name: value.item()
        for name in Layout.model_fields
        if isinstance(value := getattr(layout, name), (np.ndarray, np.generic))
    }
    for name, value in values.items():
        kind = type(PLAIN.get(name))
        values[name] = kind(value) if issubclass(kind, Choice) else value
    return layout.model_copy(update=values)


def _degree(layout: Layout, dp: Any) -> Any:
    """Ranks that share one copy: all of them, or as many as stated where that divides."""
    whole = dp * layout.cp
    stated: Any = layout.shard_degree
    everything = is_open(layout, "dp") or stated in (None, layout.dp * layout.cp)
    if everything or layout.shard == Shard.DDP:
        return whole
    return np.gcd(whole, stated)


def is_whole(layout: Layout, cluster: Cluster, dp: int) -> bool:
    """True if `dp` replicas fill part of one node or whole nodes, and whole groups of ranks.

    A group is an expert-parallel one, or those that share one copy of the states (HSDP).
    """
    gpus, each = layout.model_ranks * dp, cluster.gpus_per_node
    placed = each % gpus == 0 if gpus < each else gpus % each == 0
    experts = (layout.tp * layout.cp * dp) % (layout.ep * layout.etp) == 0
    shared = _degree(layout, dp)
    copies = shared in (dp * layout.cp, layout.shard_degree)
    return bool(placed and experts and copies)


def replicas_at(layout: Layout, cluster: Cluster, gpus: int) -> int | None:
    """The dp that fills `gpus` GPUs; None if that cannot be."""
    dp, rest = divmod(gpus, int(layout.model_ranks))
    return dp if dp and not rest and is_whole(layout, cluster, dp) else None
