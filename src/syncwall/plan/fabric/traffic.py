"""What the parallel axes of a run send, and how busy that keeps the links.

Holds `Sent` (bytes and seconds of one axis), `sent`, and `LinkLoad` with `loads`, the use of each
kind of link. Collectives count as rings, in which a rank sends (n - 1)/n of the size, twice for an
all-reduce; trees move about as much. Rings are in the order of the nodes, so of a group that spans
leaves only what goes from one leaf to the next passes the spines, as the predictor prices it.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Final, Literal

from syncwall.answer.pricing import Timed
from syncwall.cause import Cause
from syncwall.cost.path import Path, Pattern, axis_paths
from syncwall.cost.rates import merged_share
from syncwall.describe import Run
from syncwall.plan.fabric.sized import Sized, fabric_of
from syncwall.work.block import Stage
from syncwall.work.operations import Collective, GroupAxis

FabricDistance = Literal["scale-up", "leaf", "spine", "core"]
DISTANCES: Final[tuple[FabricDistance, ...]] = ("scale-up", "leaf", "spine", "core")
_TIERS: Final[dict[str, FabricDistance]] = {
    "leaf": "leaf",
    "spine": "spine",
    "core": "core",
    "router": "leaf",
    "group": "spine",
    "global": "core",
}
AXES: Final = ("tp", "cp", "ep", "dp", "pp")
_FAMILY: Final = {
    "tp": "tp",
    "cp": "cp",
    "ep": "ep",
    "dp": "dp",
    "shard": "dp",
    "replica": "dp",
    "expert-shard": "dp",
    "expert-replica": "dp",
}
_CAUSES: Final = {
    "tp": (Cause.EXPOSED_TP,),
    "cp": (Cause.EXPOSED_CP,),
    "ep": (Cause.EXPOSED_EP,),
    "dp": (Cause.EXPOSED_GATHER, Cause.EXPOSED_DP),
    "pp": (Cause.EXPOSED_PP,),
}


@dataclass
class AxisTraffic:
    """What one GPU sends in a step for one axis; of pipeline ranks that differ the busiest."""

    axis: str
    ranks: int
    far_by_distance: dict[FabricDistance, float] = field(default_factory=dict)
    """Bytes through a GPU's share of the NICs, by the farthest distance that they go."""
    scale_up_bytes: float = 0.0
    busy_s: float = 0.0
    """Seconds of communication, hidden or not."""
    exposed_s: float = 0.0
    """Seconds of the step that wait for it."""

    @property
    def nic_bytes(self) -> float:
        """Bytes through the NICs."""
        return sum(self.far_by_distance.values())

    @property
    def distance(self) -> FabricDistance:
        """The farthest that it goes."""
        gone = [distance for distance, sent in self.far_by_distance.items() if sent > 0]
        return max(gone, key=DISTANCES.index, default="scale-up")

    def add(self, far_bytes: float, shares: dict[FabricDistance, float]) -> None:
        """Send `far_bytes` more between scale-up domains, shared out over distances."""
        for distance, share in shares.items():
            if share > 0:
                before = self.far_by_distance.get(distance, 0.0)
                self.far_by_distance[distance] = before + far_bytes * share

    def beyond(self, distance: FabricDistance) -> float:
        """Bytes that pass `distance` or go farther."""
        least = DISTANCES.index(distance)
        far = self.far_by_distance.items()
        return sum(axis_traffic for one, axis_traffic in far if DISTANCES.index(one) >= least)


def passed(path: Path, pattern: Pattern, run: Run, one: Sized) -> dict[FabricDistance, float]:
    """Share of a group's traffic between domains by the farthest distance that each part goes."""
    tiers, each = fabric_of(one).tiers, run.cluster.gpus_per_node
    beyond = [float(path.leaving(pattern, (tier.nodes or 0) * each)) for tier in tiers[:-1]]
    shares = zip((1.0, *beyond), (*beyond, 0.0), strict=True)
    return {_TIERS[t.name]: here - on for t, (here, on) in zip(tiers, shares, strict=True)}


def axis_traffic(run: Run, fabric: Sized, step: Timed) -> list[AxisTraffic]:
    """Every axis that sends anything, priced as in `step`."""
    layout, ways = run.layout, axis_paths(run.layout, run.cluster)
    sizes = {"tp": layout.tp, "cp": layout.cp, "ep": layout.ep}
    sizes["dp"] = int(layout.dp or 1) * layout.cp
    best: dict[str, AxisTraffic] = {}
    for stage in step.work.stages:
        if float(stage.ranks) > 0:
            for one in _stage(stage, step, run, fabric, ways, sizes):
                before = best.get(one.axis)
                if before is None or _amount(one) > _amount(before):
                    best[one.axis] = one
    piped = _pipeline(run, step, ways["pp"], fabric)
    if piped is not None:
        best["pp"] = piped
    for one in best.values():
        one.exposed_s = sum(float(step.ledger[cause]) for cause in _CAUSES[one.axis])
    return [best[axis] for axis in AXES if axis in best and _amount(best[axis]) > 0]


def _stage(
    stage: Stage,
    step: Timed,
    run: Run,
    fabric: Sized,
    ways: Mapping[GroupAxis, Path],
    sizes: dict[str, int],
) -> Iterable[AxisTraffic]:
    found: dict[str, AxisTraffic] = {}
    for _, what, often in stage.collectives(step.work.microbatches):
        way, times = ways[what.axis], float(often)
        near, far = ring_bytes(what, way)
        if near + far == 0:
            continue
        family = _FAMILY[what.axis]
        one = found.setdefault(family, AxisTraffic(family, int(sizes[family])))
        one.scale_up_bytes += near * times
        if far:
            pattern: Pattern = "all-to-all" if what.kind == "all-to-all" else "ring"
            one.add(far * times, passed(way, pattern, run, fabric))
        one.busy_s += float(step.prices.seconds(what)) * times
    return found.values()


def ring_bytes(what: Collective, way: Path) -> tuple[float, float]:
    """Bytes that one rank sends inside its scale-up domain, and through NICs."""
    ranks, domains = float(way.ranks), float(way.domains)
    within = ranks / domains
    size = float(what.bytes) * float(what.share)
    if ranks <= 1 or size <= 0:
        return 0.0, 0.0
    if what.kind == "all-to-all":
        near, far = size * max(within - 1.0, 0.0) / ranks, size * (ranks - within) / ranks
        if what.copies == 1:
            return near, far
        handed_on = domains * near * float(merged_share(ranks, what.copies))
        return handed_on, far * float(merged_share(domains, what.copies, what.domains))
    passes = {"all-reduce": 2.0}.get(what.kind, 1.0)
    whole = passes * size * (1.0 if what.kind == "broadcast" else (ranks - 1.0) / ranks)
    if domains <= 1:
        return whole, 0.0
    return whole * max(within - 1.0, 0.0) / within, whole / within


def _pipeline(run: Run, step: Timed, way: Path, fabric: Sized) -> AxisTraffic | None:
    """A stage in the middle sends activations on and gradients back."""
    layout, transfer = run.layout, step.work.transfer
    times = 2.0 * float(step.work.microbatches) * float(layout.virtual_stages)
    if layout.pp <= 1 or float(transfer.bytes) <= 0:
        return None
    moved, one = float(transfer.bytes) * times, AxisTraffic("pp", int(layout.pp))
    if float(way.domains) <= 1:
        one.scale_up_bytes = moved
    else:
        one.add(moved, passed(way, "ring", run, fabric))
    one.busy_s = float(step.prices.seconds(transfer)) * times
    return one


def _amount(one: AxisTraffic) -> float:
    return one.nic_bytes + one.scale_up_bytes


@dataclass(frozen=True)
class LinkLoad:
    """The use of one kind of link over a step; bytes and rate are one GPU's share of it."""

    link: str
    rate_bytes_per_s: float
    by_axis: dict[str, float]
    """Bytes a step."""
    step_s: float

    @property
    def utilisation(self) -> dict[str, float]:
        """Share of the step's time at full rate, by axis."""
        whole = self.rate_bytes_per_s * self.step_s
        return {axis: axis_traffic / whole if whole else 0.0 for axis, axis_traffic in self.by_axis.items()}

    @property
    def total(self) -> float:
        """All axes together."""
        return sum(self.utilisation.values())


def link_loads(run: Run, fabric: Sized, axes: list[AxisTraffic], step_s: float) -> list[LinkLoad]:
    """Scale-up links, NICs, and the links above a full leaf, with nothing broken."""
    cluster, shape = run.cluster, fabric.shape
    nic = cluster.nic_bytes_per_s_per_gpu
    rates: list[tuple[str, float, FabricDistance]] = [("nic", nic, "leaf")]
    if fabric.kind == "dragonfly":
        rates.append(("local", nic * min(1.0, shape["group"] / (2 * shape["down"])), "spine"))
        if shape["pods"] > 1:
            rates.append(("global", nic * float(fabric.bisection_share), "core"))
    elif shape["up"]:
        on_rail = {"rail-optimised": 1, "rail-only": fabric.wiring.domain_nodes}.get(fabric.kind)
        ends = -(-fabric.nodes // on_rail) if on_rail else fabric.cables["node-leaf"]
        up = nic * shape["up"] / max(min(shape["down"], ends), 1)
        rates.append(("leaf-spine", up, "spine"))
        if fabric.switches["core"]:
            rates.append(("spine-core", up * shape["spine_up"] / shape["spine_down"], "core"))
    found = [
        LinkLoad(name, rate, {one.axis: one.beyond(distance) for one in axes}, step_s)
        for name, rate, distance in rates
    ]
    if cluster.scale_up is not None:
        inside = {one.axis: one.scale_up_bytes for one in axes}
        rate = float(cluster.scale_up.rate_bytes_per_s)
        found.insert(0, LinkLoad("scale-up", rate, inside, step_s))
    return found
