"""The network that a reference run needs, over GPU counts.

Holds `needed`.
"""

from collections.abc import Sequence
from typing import Final

from syncwall.describe import Cluster
from syncwall.plan.grown import grown, single
from syncwall.plan.network.requirement import Requirement, requirements
from syncwall.plan.network.targets import Limits
from syncwall.plan.reference import Reference
from syncwall.plan.wires import Case
from syncwall.problems import InputError

_TIMES: Final = (1, 8, 64)
"""Counts that are looked at if nobody states any, over the first."""


def needed(
    start: Reference,
    counts: Sequence[int],
    limits: Limits,
    *,
    reached: float | None = None,
    strong: bool = False,
) -> list[Requirement]:
    """One requirement for each of `counts`; 1, 8 and 64 times those of `start` if there are none.

    `reached` is the share of the NICs' advertised rate that collectives reach.
    """
    run = start.run
    if run.cluster.node.nics is None:
        raise InputError.of(f"{run.cluster.name} has no NICs whose rate could be varied")
    cluster = run.cluster if reached is None else _reaching(run.cluster, reached)
    layout = run.layout
    if not strong:
        dp = int(layout.dp or 1)
        layout = single(grown(layout, dp, start.replica_batch * dp))
    case = Case(run.model, cluster, run.seq, run.software)
    return requirements(case, layout, counts or _usual(start), limits, strong=strong)


def _usual(start: Reference) -> list[int]:
    """From the fewest GPUs on that need a network."""
    cluster, first = start.run.cluster, start.run.gpus
    built = cluster.scale_up.gpus if cluster.scale_up else 1
    while first <= built:
        first *= 2
    most = cluster.gpus_per_node * min(cluster.built_nodes or float("inf"), cluster.fabric.reach())
    return [first * times for times in _TIMES if first * times <= most] or [start.run.gpus]


def _reaching(cluster: Cluster, reached: float) -> Cluster:
    """`cluster` whose NICs reach that share of their rate."""
    assert cluster.node.nics is not None
    nics = cluster.node.nics.model_copy(update={"reached": reached})
    return cluster.model_copy(update={"node": cluster.node.model_copy(update={"nics": nics})})
