"""The sync wall of a reference run, with its searches.

Holds `wall_of`, `WallPlan` (the wall with its run) and `setup_of`.
"""

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Final

import numpy as np

from syncwall.describe import Cluster, Layout
from syncwall.plan.choices import Scaling
from syncwall.plan.reference import START, Reference
from syncwall.plan.searched import best_layouts, best_run, kept
from syncwall.plan.wall.answer import Side, SyncWall, sync_wall
from syncwall.plan.wall.moves import Setup
from syncwall.plan.wires import PricedCase
from syncwall.public import Answer, Late, published

_BESIDE: Final = 0.9
"""Of the progress: searches take most of the time."""


@published(
    "verdict sides=wall.sides moved=wall.moved most_gpus=wall.setup.most",
    "global_batch=wall.setup.batch replica_batch=wall.setup.replica_batch",
    START,
)
@dataclass(frozen=True)
class WallPlan(Answer):
    """How far a run scales."""

    verb = "plan wall"
    start: Reference
    """The run that the plan starts from."""
    wall: SyncWall
    verdict = Late("show.words.wall:verdict")

    def __repr__(self) -> str:
        return f"<WallPlan {self.start.run.model.name}: {self.wall.words()}>"


def wall_of(  # noqa: PLR0913 - what may be asked of a wall
    start: Reference,
    most: int,
    *,
    least: int | None = None,
    replica_batch: int | None = None,
    best_layout: bool = False,
    searching: bool = True,
    progress: Callable[[float], None] = lambda share: None,
) -> SyncWall:
    """The wall of `start` on up to `most` GPUs.

    With `best_layout`, or if that of `start` was searched, every count has the best layout for it,
    found by search at doubling counts; else that of `start` grows by data parallelism. Without
    `searching`, no other layout is looked for, which takes a fraction of the time.
    """
    run, case = start.run, start.case
    batch = int(run.layout.global_batch or 1)
    each = replica_batch or start.replica_batch
    chosen = None
    if best_layout or (start.layout_searched and searching):
        chosen = _chosen(case, run.layout, batch, each, _most(run.cluster, most), progress)
    setup = replace(setup_of(start, most, each), chosen=chosen)

    def better(side: Side) -> Layout | None:
        if not side.falls or not searching:
            return None
        gpus = _doubled(case.cluster, side.causes_at)
        strong = side.scaling is Scaling.STRONG
        sequences = batch if strong else _weak_batch(run.layout, each, gpus)
        found = best_run(case, case.cluster.with_gpus(gpus), sequences, kept(run.layout))
        return found.layout if found else None

    return sync_wall(setup, better, least=least, progress=progress)


def setup_of(start: Reference, most: int, replica_batch: int | None = None) -> Setup:
    """`start` as something that grows by data parallelism, on up to `most` GPUs."""
    run = start.run
    each = replica_batch or start.replica_batch
    return Setup(
        start.case, run.layout, int(run.layout.global_batch or 1), each, _most(run.cluster, most)
    )


def _chosen(
    case: PricedCase,
    layout: Layout,
    batch: int,
    each: int,
    most: int,
    progress: Callable[[float], None],
) -> dict[Scaling, tuple[Layout, ...]]:
    def told(part: float) -> Callable[[float], None]:
        return lambda share: progress(_BESIDE * (part + share / 2.0))

    pinned = kept(layout)
    return {
        Scaling.STRONG: best_layouts(case, lambda gpus: batch, most, pinned, told(0.0)),
        Scaling.WEAK: best_layouts(
            case, lambda gpus: _weak_batch(layout, each, gpus), most, pinned, told(0.5)
        ),
    }


def _weak_batch(layout: Layout, each: int, gpus: int) -> int:
    """Sequences of a step on `gpus` GPUs when each has as many as in `layout`."""
    return max(1, round(each * gpus / int(layout.model_ranks)))


def _doubled(cluster: Cluster, gpus: int) -> int:
    """The largest part or double of a node's GPUs that is not above `gpus`."""
    node = cluster.gpus_per_node
    return node * 2 ** int(np.log2(gpus / node)) if gpus >= node else gpus


def _most(cluster: Cluster, most: int) -> int:
    """As many GPUs as asked for, or as the machine and its fabric have."""
    nodes = min(cluster.built_nodes or np.inf, cluster.fabric.reach())
    if cluster.node.nics is None:  # what one scale-up domain holds
        nodes = max(cluster.scale_up.gpus // cluster.node.gpus, 1) if cluster.scale_up else 1
    return int(min(most, nodes * cluster.gpus_per_node))
