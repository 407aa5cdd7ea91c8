"""A run on a fabric that is narrower or broken: its step against the healthy one.

Holds `timed`, `FabricTimer`, `reaches`, `degraded` (the fabric as the predictor sees it),
`ratios_of`, `needs` and `passed`, the distances that the run's traffic goes.
"""

from dataclasses import replace
from typing import Final, Literal

from syncwall.answer.prediction import Prediction
from syncwall.answer.pricing import Timed
from syncwall.cost.path import Path, Pattern, paths
from syncwall.describe import Cluster, Fabric, Run, Tier
from syncwall.plan.fabric.broken import Broken, RemainingRate, left
from syncwall.plan.fabric.wired import Wired

FabricDistance = Literal["scale-up", "leaf", "spine", "core"]
DISTANCES: Final[tuple[FabricDistance, ...]] = ("scale-up", "leaf", "spine", "core")


def timed(prediction: Prediction, fabric: Fabric | None = None) -> Timed:
    """The step of a predicted run, on its cluster's own fabric if no other is given."""
    run, cluster = prediction.run, prediction.cluster
    if fabric is not None:
        cluster = cluster.model_copy(update={"fabric": fabric})
    found = prediction.pricing.step(run.model, run.layout, run.seq, cluster)
    return replace(found, step_s=float(found.step_s), ledger=found.ledger.without_zeros())


class FabricTimer:
    """Steps of one predicted run on many fabrics; those that are equal to it are timed once."""

    def __init__(self, prediction: Prediction) -> None:
        self.prediction = prediction
        self._known: dict[tuple[tuple[float, float], ...], Timed] = {}

    def timed(self, fabric: Fabric) -> Timed:
        """The step on `fabric`."""
        ends = [tier.nodes or float("inf") for tier in fabric.tiers]
        ratios = [_ratio_of(fabric, min(end, self.prediction.run.nodes)) for end in ends]
        key: list[tuple[float, float]] = []
        for end, ratio in zip(ends, ratios, strict=True):
            if key and key[-1][1] == ratio:
                key.pop()
            key.append((min(end, self.prediction.run.nodes), ratio))
        known = tuple(key)
        if known not in self._known:
            self._known[known] = timed(self.prediction, fabric)
        return self._known[known]


def reaches(wired: Wired) -> list[tuple[FabricDistance, int]]:
    """Nodes that each distance reaches, the last one all of them."""
    shape, nodes = wired.one.shape, wired.nodes
    found: list[tuple[FabricDistance, int]] = [("leaf", max(1, int(shape["leaf_nodes"])))]
    if wired.is_dragonfly:
        found += [("spine", int(shape["pod_nodes"])), ("core", nodes)]
    else:
        if wired.spines:
            found.append(("spine", int(shape["pod_nodes"]) if wired.cores else nodes))
        if wired.cores:
            found.append(("core", nodes))
    ends = next(
        index for index, (_, reach) in enumerate([*found, ("core", nodes)]) if reach >= nodes
    )
    return [*found[:ends], (found[min(ends, len(found) - 1)][0], nodes)]


def degraded(base: Fabric, broken: Broken) -> Fabric:
    """`base` with what the broken parts take from each distance; `base` itself if that is nothing.

    A share of zero must have been found before: nothing runs over it.
    """
    healthy, now = left(Broken(broken.wired), broken.nodes()), left(broken)
    marks = reaches(broken.wired)
    ends = sorted({reach for _, reach in marks} | {t.nodes for t in base.tiers if t.nodes})
    tiers, ratio = [], 1.0
    for end in [end for end in ends if end < broken.wired.nodes] + [broken.wired.nodes]:
        distance = next(name for name, reach in marks if reach >= end)
        ratio = max(ratio, _ratio_of(base, end) * _lost(healthy, now, distance))
        tiers.append((end, ratio))
    if all(ratio == _ratio_of(base, end) for end, ratio in tiers):
        return base
    named = [
        Tier(name=f"to {end}", nodes=end, oversubscription=r) for end, r in tiers[:-1] if end > 1
    ]
    last = Tier(name="all", oversubscription=tiers[-1][1])
    return base.model_copy(update={"tiers": (*named, last)})


def _lost(healthy: RemainingRate, now: RemainingRate, distance: FabricDistance) -> float:
    """How many times less rate is left for a distance."""
    before = {"leaf": healthy.near, "spine": healthy.far, "core": healthy.core}
    after = {"leaf": now.near, "spine": now.far, "core": now.core}
    nearer = DISTANCES[1 : DISTANCES.index(distance) + 1]
    return min(before[d] for d in nearer) / max(min(after[d] for d in nearer), 1e-5)


def _ratio_of(fabric: Fabric, nodes: float) -> float:
    """The oversubscription that traffic among `nodes` neighbouring nodes meets."""
    ratio, reached = 1.0, 1.0
    for tier in fabric.tiers:
        if nodes > reached:
            ratio = max(ratio, tier.oversubscription)
        reached = float("inf") if tier.nodes is None else tier.nodes
    return ratio


def ratios_of(cluster: Cluster) -> tuple[float, float]:
    """The oversubscription of leaves and of spines that a cluster's own fabric says."""
    fabric, whole = cluster.fabric, _ratio_of(cluster.fabric, cluster.nodes)
    if len(fabric.tiers) < 3:
        return whole, 1.0
    to_spine = _ratio_of(fabric, min(cluster.nodes, fabric.tiers[1].nodes or cluster.nodes))
    return to_spine, whole / to_spine


def needs(run: Run, wired: Wired) -> dict[str, FabricDistance]:
    """The farthest distance that the groups of each axis go, read off the predictor's own paths."""
    marks = reaches(wired)
    farthest: dict[str, FabricDistance] = {}
    for axis, path in paths(run.layout, run.cluster).items():
        if float(path.domains) <= 1 or not run.cluster.nic_bytes_per_s_per_gpu:
            farthest[axis] = "scale-up"
        else:
            nodes = float(path.reach_gpus) / run.cluster.gpus_per_node
            last = marks[-1][0]
            farthest[axis] = next((name for name, reach in marks if nodes <= reach), last)
    return farthest


def passed(
    path: Path, pattern: Pattern, wired: Wired, gpus_per_node: int
) -> dict[FabricDistance, float]:
    """Share of a group's traffic between domains by the farthest distance that each part goes."""
    marks = reaches(wired)
    beyond = [float(path.leaving(pattern, reach * gpus_per_node)) for _, reach in marks[:-1]]
    shares = zip((1.0, *beyond), (*beyond, 0.0), strict=True)
    return {name: here - on for (name, _), (here, on) in zip(marks, shares, strict=True)}
