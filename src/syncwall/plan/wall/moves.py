"""What moves the wall: each change is the model run again.

Holds `WallChange`, `Setup` (what a curve is made of), `changes` and `island`.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from enum import StrEnum
from typing import Final

import numpy as np

from syncwall.answer.priced import may_fit
from syncwall.describe import Cluster, Layout
from syncwall.describe.layout import Shard
from syncwall.plan.answers import grown, single
from syncwall.plan.choices import Scaling
from syncwall.plan.network_scaling import AS_IT_IS, PricedCase, Wires
from syncwall.plan.wall.curve import (
    ScalingCurve,
    curve,
    picked,
    stacked_layouts,
    strong_rungs,
    weak_rungs,
)
from syncwall.work.memory import fits

OUTER_EVERY: Final = 500
"""Steps between meetings of replicas in DiLoCo (Douillard et al. 2023, arXiv 2311.08105)."""
WIDER: Final = 8
"""Times the GPUs of a scale-up domain: 8 become 64, 72 become 576."""


class WallChange(StrEnum):
    """What is changed."""

    NICS = "twice the NIC rate"
    LATENCY = "half the network latency"
    BATCH = "twice the batch"
    SCALE_UP = "scale-up twice as fast"
    DOMAIN = "scale-up domain 8 times as large"
    LAYOUT = "another layout"
    DILOCO = "DiLoCo"


@dataclass(frozen=True, slots=True)
class Setup:
    """A run whose GPUs may grow."""

    case: PricedCase
    layout: Layout
    """Resolved."""
    batch: int
    """Sequences of a step, in strong scaling."""
    replica_batch: int
    """Sequences of a replica, in weak scaling."""
    most: int
    """GPUs to which curves go."""
    wires: Wires = AS_IT_IS
    chosen: dict[Scaling, tuple[Layout, ...]] | None = None
    """Layouts of the counts, if each has its own."""
    is_tight: bool = False
    """The run as stated may fit, but leaves too little free: so may its curve."""

    def rungs(self, scaling: Scaling) -> Layout | None:
        """The layouts of all counts."""
        if self.chosen is not None:
            several = self.chosen.get(scaling)
            return stacked_layouts(several) if several else None
        cluster = self.case.cluster
        if scaling is Scaling.STRONG:
            return strong_rungs(self.layout, cluster, self.batch, self.most)
        return weak_rungs(self.layout, cluster, self.replica_batch, self.most)

    def curve(
        self, scaling: Scaling, progress: Callable[[float], None] = lambda share: None
    ) -> ScalingCurve | None:
        """Speed over all counts on which the run fits; None if there is none."""
        layouts = self.rungs(scaling)
        if layouts is None:
            return None
        used = np.broadcast_to(self.case.memory(layouts), np.shape(layouts.gpus))
        enough = np.asarray((may_fit if self.is_tight else fits)(used, self.case.cluster.device))
        if not enough.any():
            return None
        return curve(self.case, picked(layouts, enough), self.wires, progress)


Setups = dict[Scaling, Setup]


def changes(setup: Setup, better: Callable[[Scaling], Layout | None]) -> Iterator[tuple[WallChange, Setups]]:
    """Every change that this run can have; `better` searches a layout for one way to scale."""
    nics, domain = setup.case.cluster.node.nics, setup.case.cluster.scale_up
    if nics is not None:
        yield WallChange.NICS, _both(_wired(setup, Wires(nic=2.0)))
        yield WallChange.LATENCY, _both(_wired(setup, Wires(latency=0.5)))
    yield WallChange.BATCH, _both(_larger_batch(setup))
    if domain is not None and domain.gpus > 1:
        yield WallChange.SCALE_UP, _both(_wired(setup, Wires(scale_up=2.0)))
        yield WallChange.DOMAIN, _both(_machine(setup, _wider(setup.case.cluster)))
    if setup.chosen is None:
        others = {scaling: better(scaling) for scaling in Scaling}
        found = {scaling: _relaid(setup, one) for scaling, one in others.items() if one}
        if found:
            yield WallChange.LAYOUT, found
        apart = _diloco(setup)
        if apart is not None:
            yield WallChange.DILOCO, _both(replace(setup, layout=apart))


def island(layout: Layout) -> int:
    """GPUs that meet at every step in DiLoCo: those that hold one copy of all states."""
    degree = 1 if layout.shard == Shard.DDP else int(layout.shard_degree or 1)
    return int(layout.model_ranks) * max(degree // int(layout.cp), 1)


def _both(setup: Setup) -> Setups:
    return dict.fromkeys(Scaling, setup)


def _relaid(setup: Setup, layout: Layout) -> Setup:
    """`setup` in another layout, each GPU with as many sequences as before."""
    each = setup.replica_batch * int(layout.model_ranks) / int(setup.layout.model_ranks)
    return replace(setup, layout=layout, replica_batch=max(1, round(each)))


def _wired(setup: Setup, wires: Wires) -> Setup:
    return replace(setup, wires=wires)


def _machine(setup: Setup, cluster: Cluster) -> Setup:
    return replace(setup, case=replace(setup.case, cluster=cluster))


def _wider(cluster: Cluster) -> Cluster:
    """`cluster` with larger scale-up domains; those within a node first grow to whole nodes."""
    assert cluster.scale_up is not None
    gpus = max(cluster.scale_up.gpus, cluster.node.gpus) * WIDER
    return cluster.model_copy(update={"scale_up": cluster.scale_up.model_copy(update={"gpus": gpus})})


def _larger_batch(setup: Setup) -> Setup:
    chosen = setup.chosen and {
        scaling: tuple(
            single(grown(one, np.array(one.dp), np.array(2 * int(one.global_batch or 1)))) for one in layouts
        )
        for scaling, layouts in setup.chosen.items()
    }
    return replace(setup, batch=2 * setup.batch, replica_batch=2 * setup.replica_batch, chosen=chosen)


def _diloco(setup: Setup) -> Layout | None:
    """Replicas that seldom meet: each island holds all states, spread over as few ranks as fit."""
    layout = setup.layout
    if layout.outer_every is not None or layout.ep > 1:
        return None
    seldom = layout.model_copy(update={"outer_every": OUTER_EVERY})
    if layout.shard == Shard.DDP:
        return seldom
    for power in range(16):
        degree = int(layout.cp) * 2**power
        island = seldom.model_copy(update={"dp": 2 ** (power + 1), "shard_degree": degree})
        batch = 2 ** (power + 1) * setup.replica_batch
        used = setup.case.memory(island.model_copy(update={"global_batch": batch}))
        if fits(used, setup.case.cluster.device):
            return island
    return None
