"""A training run on a fabric: the step against that on a non-blocking network.

Holds `fabric_of` (a counted fabric as the predictor sees it), `Effect` and `effects`.
The predictor knows how far each tier reaches and how much of a NIC's rate it leaves. It knows
neither the latency of more switches, nor hash collisions, nor the forwarding between rails.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from syncwall.answer.prediction import Prediction
from syncwall.describe import Fabric, Tier
from syncwall.plan.choices import FabricKind
from syncwall.plan.fabric.pace import timed
from syncwall.plan.fabric.sized import Sized


def fabric_of(one: Sized) -> Fabric:
    """Tiers with their reach in nodes and their oversubscription, and the rails."""
    shape, wiring = one.shape, one.wiring
    if one.kind == "dragonfly":
        reaches = [("router", shape["leaf_nodes"], 1.0)]
        reaches.append(("group", shape["pod_nodes"], 2 * shape["down"] / shape["group"]))
        if shape["pods"] > 1:
            reaches.append(("global", one.nodes, 1 / one.bisection_share))
    else:
        to_spine = max(1.0, shape["down"] / shape["up"]) if shape["up"] else 1.0
        reaches = [("leaf", shape["leaf_nodes"], 1.0)]
        if one.tiers > 1:
            reaches.append(("spine", shape["pod_nodes"] if one.tiers > 2 else one.nodes, to_spine))
        if one.tiers > 2:
            reaches.append(("core", one.nodes, 1 / one.bisection_share))
    rails = 1 if shape["rails"] == 1 else wiring.nics_per_node
    return Fabric(rails=rails, tiers=_growing(reaches, one.nodes))


def _growing(reaches: list[tuple[str, int, float]], nodes: int) -> tuple[Tier, ...]:
    """Tiers that reach ever further; the last one reaches everybody."""
    tiers: list[Tier] = []
    reached = 1
    for name, reach, ratio in reaches:
        if reach >= nodes:
            return (*tiers, Tier(name=name, oversubscription=max(1.0, ratio)))
        if reach > reached:
            tiers.append(Tier(name=name, nodes=reach, oversubscription=max(1.0, ratio)))
            reached = reach
    return (*tiers, Tier(name=reaches[-1][0], oversubscription=max(1.0, reaches[-1][2])))


@dataclass(frozen=True, slots=True)
class Effect:
    """A step on one fabric."""

    step_s: float
    slower: float
    """Over the step on a non-blocking network, less 1."""
    forwarded: bool = False
    """True if experts of different scale-up domains talk over a rail-only fabric: not priced."""


def effects(
    prediction: Prediction, found: Iterable[Sized]
) -> tuple[float, Mapping[FabricKind, Effect]]:
    """The step of a predicted run on a non-blocking network, and on each fabric."""
    run = prediction.run
    free_s = _step_s(prediction, Fabric())
    seen: dict[FabricKind, Effect] = {}
    for one in found:
        step_s = _step_s(prediction, fabric_of(one))
        experts = int(run.layout.ep) * int(run.layout.etp)
        forwarded = one.kind == "rail-only" and experts > run.cluster.domain_gpus
        seen[one.kind] = Effect(step_s, step_s / free_s - 1.0, forwarded)
    return free_s, seen


def _step_s(prediction: Prediction, fabric: Fabric) -> float:
    """The step on another fabric; whether its switches can add numbers stays."""
    adds = {"in_network_reduction": prediction.cluster.fabric.in_network_reduction}
    return float(timed(prediction, fabric.model_copy(update=adds)).step_s)
