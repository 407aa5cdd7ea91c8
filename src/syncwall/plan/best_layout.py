"""The best layout on so many GPUs, for plans that need one and not a list."""

from collections.abc import Callable, Mapping
from typing import Any, Final

from syncwall.cost.framework_costs import framework_or_default
from syncwall.describe import Cluster, Layout, Run
from syncwall.describe.layout import Recompute, Shard
from syncwall.describe.software import switches
from syncwall.plan.choices import MEMORY_FREE
from syncwall.plan.network_scaling import PricedCase
from syncwall.plan.search import search
from syncwall.plan.space import held

SWITCHES: Final = (*MEMORY_FREE, "balanced_stages")
"""As the framework has them: they are not what a number of GPUs asks for."""


_NARROW: Final[dict[str, Any]] = {
    "recompute_layers": None,
    "recompute": (Recompute.NONE, Recompute.FULL),
    "etp": 1,
}
"""What is searched of these: one search of many has to be quick."""
Progress = Callable[[float], None]


def kept(layout: Layout) -> dict[str, Any]:
    """Fields of `layout` that a search for another one leaves as they are."""
    return {**held(layout), **{name: getattr(layout, name) for name in SWITCHES}}


def _quiet(share: float) -> None:
    """Tell nobody."""


def best_run(
    case: PricedCase,
    cluster: Cluster,
    batch: int,
    pinned: Mapping[str, Any],
    narrow: Mapping[str, Any] = _NARROW,
) -> Run | None:
    """The run to recommend on `cluster` with `batch` sequences a step; None if none fits.

    `pinned` are fields of the layout that stay; `narrow` says what is searched of others.
    """
    software = case.pricing.setting.software
    usual = switches(framework_or_default(software.framework), software.date, Shard.DDP)
    fixed: dict[str, Any] = {name: usual[name] for name in SWITCHES if name in usual}
    found = search(
        case.model,
        cluster,
        seq=case.seq,
        global_batch=batch,
        software=software,
        pinned={**narrow, **fixed, **pinned},
        pricing=case.pricing,
    ).best(1)
    return found[0].run if found else None


def best_layouts(
    case: PricedCase,
    batch_at: Callable[[int], int | None],
    most: int,
    pinned: Mapping[str, Any],
    progress: Progress = _quiet,
) -> tuple[Layout, ...]:
    """The best layout at doubling counts; `batch_at` says the batch of a count, None if none."""
    found: list[Layout] = []
    counts = _doubling(case.cluster.gpus_per_node, most)
    for number, gpus in enumerate(counts, 1):
        batch = batch_at(gpus)
        one = best_run(case, case.cluster.with_gpus(gpus), batch, pinned) if batch else None
        found += [one.layout] if one else []
        progress(number / len(counts))
        if found and one is None:
            break  # the batch can be spread no further
    return tuple(found)


def _doubling(first: int, most: int) -> list[int]:
    counts = [first]
    while counts[-1] * 2 <= most:
        counts.append(counts[-1] * 2)
    return counts
