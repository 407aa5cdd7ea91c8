"""A run on a fabric, and on the same with parts slow or dead: its step by the graph of links.

Holds `FabricSteps`, which prices one run on many fabrics, `Effect` (on one fabric, in order), and
`Degraded` with `TakenOut`: what slow parts cost, and whether taking them out pays. A dead NIC
carries nothing, and the others of its node carry on; dead cables and switches are not there. Taking
parts out means: slow cables between switches carry nothing any more, and nodes with slow NICs leave
the job. A replica of the model that loses a node stops, and the others work through the same global
batch:

    step without = step on the fabric without the parts x replicas / (replicas - replicas lost)

which is less than the slowed step, or the parts are better left in. With spare nodes the fraction
is 1. What the smaller job needs in memory is not looked at.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from syncwall.answer.contention import Contention, step_on_links
from syncwall.answer.prediction import Prediction
from syncwall.answer.pricing import Timed
from syncwall.cost.communication import NcclNetwork
from syncwall.cost.contended_network import DRAWS, SharedLinks
from syncwall.describe import Fabric
from syncwall.network import Routing
from syncwall.network.graph import CutOffError, Links, part_named, slowed, without
from syncwall.plan.fabric.sized import Sized, fabric_of
from syncwall.plan.fabric.sized_links import links_of_sized
from syncwall.public import published
from syncwall.work.block import sizes_and_strides

MOST_NODES: Final = 2048
"""Nodes of a fabric whose flows are followed over all links when kinds are compared. The step on a
larger one is that of its tiers in closed form, to which adaptive routing comes nearest."""


@dataclass(frozen=True, slots=True)
class Effect:
    """A step on one fabric, all parts in order."""

    step_s: float
    """The predicted step on it."""
    slower: float
    """Over the step on a non-blocking network, less 1."""
    forwarded: bool = False
    """True if experts talk across the rails of a rail-only fabric, forwarded by GPUs."""


@published("nodes replicas_lost replicas step_s spare_step_s=spare_s")
@dataclass(frozen=True, slots=True)
class TakenOut:
    """The run without the slow parts: cables carry nothing, nodes leave the job."""

    nodes: int
    """Nodes that leave the job; 0 if only cables are taken out."""
    replicas_lost: int
    """Of the model, since they lose a node."""
    replicas: int
    """Of the whole run."""
    step_s: float | None
    """That with spare nodes x replicas / (replicas - replicas_lost), median over the draws; None if
    nothing is left to run, or no way between some GPUs."""
    spare_s: float | None
    """If other nodes take the place of those that leave; None if some GPUs have no way left."""


@published("parts slower before after taken_out pays")
@dataclass(frozen=True, slots=True)
class Degraded:
    """A step on the chosen fabric before and after parts became slow or died."""

    parts: Mapping[str, float]
    """Bytes a second that is left to each part, one way; 0 if it is dead."""
    before: Contention
    """With every part at its full rate."""
    after: Contention
    taken_out: TakenOut

    @property
    def slower(self) -> float:
        """Median step over that before, less 1."""
        return self.after.p50_s / self.before.p50_s - 1.0

    @property
    def pays(self) -> bool:
        """True if the step is shorter without the slow parts, with no spare nodes."""
        out_s = self.taken_out.step_s
        return out_s is not None and out_s < self.after.p50_s * (1.0 - 1e-9)


@dataclass(frozen=True)
class FabricSteps:
    """Steps of a predicted run on fabrics, its flows finding their way by one routing."""

    prediction: Prediction
    routing: Routing = "ecmp"
    qps: int = 1
    """Queue pairs of a connection."""
    draws: int = DRAWS
    """Of the hashes, at most."""

    def on_links(self, links: Links, name: str) -> tuple[Timed, Contention]:
        """The step on `links`, called `name`; `CutOffError` if some GPUs have no way to others."""
        shared = SharedLinks(links, self.routing, self.qps, name=name, most_draws=self.draws)
        _, timed, found = step_on_links(self.prediction.run, self.prediction.pricing, shared)
        return timed, found

    def on(self, one: Sized, parts: Mapping[str, float] | None = None) -> tuple[Timed, Contention]:
        """The step on a sized fabric, with `parts` (by name, bytes a second) slow or dead.

        `CutOffError` says why the job stops, if it does.
        """
        links = links_of_sized(one)
        dead = [name for name, rate in (parts or {}).items() if rate == 0.0]
        gone = [part_named(links, name).nodes[0] for name in dead if name.startswith("node:")]
        down = [node for node in gone if node < self.prediction.run.nodes]
        if down:
            names = ", ".join(links.nodes[node] for node in down)
            said = f"node{'s' * (len(down) > 1)} {names} down"
            raise CutOffError.of(f"{said}: a synchronous job needs every node")
        return self.on_links(slowed(links, parts) if parts else links, one.kind)

    def in_order(self, one: Sized, *, exactly: bool = False) -> tuple[Timed, Contention]:
        """The step on a fabric in order; `exactly` follows flows however large it is.

        A network of another package has prices of its own, which know tiers but no flows.
        """
        network = self.prediction.pricing.network
        follows = network is NcclNetwork or isinstance(network, SharedLinks)
        large = one.nodes > MOST_NODES and not exactly
        return self._by_tiers(one) if large or not follows else self.on(one)

    def effect(self, one: Sized, *, exactly: bool = False) -> tuple[Effect, Contention]:
        """The same over a non-blocking network."""
        run, (_, found) = self.prediction.run, self.in_order(one, exactly=exactly)
        experts = int(run.layout.ep) * int(run.layout.etp)
        forwarded = one.kind == "rail-only" and experts > run.cluster.domain_gpus
        return Effect(found.p50_s, found.p50_s / found.free_s - 1.0, forwarded), found

    def _by_tiers(self, one: Sized) -> tuple[Timed, Contention]:
        run, pricing = self.prediction.run, self.prediction.pricing
        steps = []
        for tiers in (fabric_of(one).tiers, Fabric().tiers):
            fabric = run.cluster.fabric.model_copy(update={"tiers": tiers})
            cluster = run.cluster.model_copy(update={"fabric": fabric})
            steps.append(pricing.step(run.model, run.layout, run.seq, cluster))
        step_s, free_s = (float(step.step_s) for step in steps)
        spread = Contention(one.kind, "adaptive", 1, 1, False, 0, free_s, step_s, step_s, "", 1.0, ())
        return steps[0], spread

    def degraded(self, one: Sized, parts: Mapping[str, float], before: Contention) -> Degraded:
        """What `parts` (by name, bytes a second each; 0 is dead) cost on `one`."""
        links, run = links_of_sized(one), self.prediction.run
        slow = [part_named(links, name) for name in parts]
        after = self.on(one, parts)[1]
        spare_s: float | None = before.p50_s
        cables = [part.name for part in slow if not part.nodes]
        if cables:
            try:
                spare_s = self.on_links(without(links, cables), one.kind)[1].p50_s
            except CutOffError:
                spare_s = None
        nodes = {node for part in slow for node in part.nodes if node < run.nodes}
        sizes, strides = sizes_and_strides(run.layout)
        each, replicas, stride = run.cluster.gpus_per_node, int(sizes["dp"]), int(strides["dp"])
        ranks = (rank for node in nodes for rank in range(node * each, (node + 1) * each))
        lost = len({rank // stride % replicas for rank in ranks})
        step_s = spare_s * replicas / (replicas - lost) if spare_s and lost < replicas else None
        taken_out = TakenOut(len(nodes), lost, replicas, step_s, spare_s)
        return Degraded(dict(parts), before, after, taken_out)
