"""A run on a fabric with slow parts: what it loses, and whether taking them out pays.

Holds `Degraded` with `degraded_run`, and `TakenOut`. Taking parts out means: slow cables between
switches carry nothing any more, and nodes with slow NICs leave the job. A replica of the model that
loses a node stops, and the others work through the same global batch:

    step without = step on the fabric without the parts x replicas / (replicas - replicas lost)

which is less than the slowed step, or the parts are better left in. With spare nodes the fraction
is 1. What the smaller job needs in memory is not looked at.
"""

from collections.abc import Mapping
from dataclasses import dataclass

from syncwall.answer.contention import Contention, step_on_links
from syncwall.answer.prediction import Prediction
from syncwall.cost.contended_network import SharedLinks
from syncwall.describe import Run
from syncwall.network import Routing
from syncwall.network.links import Links
from syncwall.network.parts import SlowPart, slow_part, slowed, without
from syncwall.plan.fabric.links import links_of_sized
from syncwall.plan.fabric.sized import Sized
from syncwall.problems import InputError
from syncwall.work.groups import sizes_and_strides


@dataclass(frozen=True, slots=True)
class TakenOut:
    """The run without the slow parts."""

    nodes: int
    """Nodes that leave the job; 0 if only cables are taken out."""
    replicas_lost: int
    replicas: int
    """Of the whole run."""
    step_s: float | None
    """Median over the draws; None if nothing is left to run, or no way between some GPUs."""
    spare_s: float | None
    """The same if other nodes take the place of those that leave."""


@dataclass(frozen=True, slots=True)
class Degraded:
    """A step before and after parts became slow."""

    parts: Mapping[str, float]
    """Bytes a second that is left to each part, one way."""
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


def degraded_run(
    prediction: Prediction,
    one: Sized,
    parts: Mapping[str, float],
    routing: Routing = "ecmp",
    qps: int = 1,
) -> Degraded:
    """The predicted run on fabric `one` with `parts` (by name, bytes a second each) slow."""
    links = links_of_sized(one)
    slow = [slow_part(links, name, rate) for name, rate in parts.items()]
    run = prediction.run

    def step(on: Links) -> Contention:
        shared = SharedLinks(on, routing, qps, name=one.kind)
        return step_on_links(run, prediction.pricing, shared)[2]

    before, after = step(links), step(slowed(links, slow))
    rest: Contention | None = before
    if not all(part.nodes for part in slow):
        try:
            rest = step(without(links, slow))
        except InputError:  # some GPUs would have no way to others
            rest = None
    return Degraded(dict(parts), before, after, _taken_out(run, slow, rest))


def _taken_out(run: Run, slow: list[SlowPart], rest: Contention | None) -> TakenOut:
    nodes = {node for part in slow for node in part.nodes if node < run.nodes}
    lost, replicas = len(_replicas(run, nodes)), int(run.layout.dp)
    spare_s = rest.p50_s if rest else None
    left = replicas - lost
    step_s = spare_s * replicas / left if spare_s is not None and left > 0 else None
    return TakenOut(len(nodes), lost, replicas, step_s, spare_s)


def _replicas(run: Run, nodes: set[int]) -> set[int]:
    """Replicas of the model with a rank on one of `nodes`."""
    sizes, strides = sizes_and_strides(run.layout)
    each, replicas, stride = run.cluster.gpus_per_node, int(sizes["dp"]), int(strides["dp"])
    ranks = (rank for node in nodes for rank in range(node * each, (node + 1) * each))
    return {rank // stride % replicas for rank in ranks}
