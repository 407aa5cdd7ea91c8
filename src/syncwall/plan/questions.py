"""Plans as Python asks for them: `syncwall.plan.wall(run)` is what `syncwall plan wall` answers.

Holds `layouts`, `wall`, `network`, `fabric` and `placement`.
"""

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from syncwall.answer.prediction import Prediction, predict
from syncwall.answer.site import UNKNOWN_SITE, Site
from syncwall.catalogue import Folders, takes_catalogue
from syncwall.cost.contended_network import SharedLinks
from syncwall.cost.measured import MachineMeasurements
from syncwall.describe import Cluster
from syncwall.network import Routing
from syncwall.network.graph import Links, links_of_tiers
from syncwall.plan.choices import FabricKind
from syncwall.plan.fabric.answer import FabricAnswer, plan_fabric
from syncwall.plan.fabric.question import wiring_of
from syncwall.plan.fabric.sized import PartRates
from syncwall.plan.network.needed import NetworkPlan, needed
from syncwall.plan.network.targets import TargetLimits
from syncwall.plan.placement.found import PlacementAnswer, place_jobs
from syncwall.plan.placement.question import PlacementQuestion, read_jobs
from syncwall.plan.reference import RunLike, start_of
from syncwall.plan.search import search as layouts
from syncwall.plan.wall.found import WallPlan, wall_of

__all__ = ["fabric", "layouts", "network", "placement", "wall"]


@takes_catalogue
def wall(  # noqa: PLR0913 - what may be asked of a wall
    run: RunLike,
    *,
    most: int = 2**20,
    least: int | None = None,
    replica_batch: int | None = None,
    best_layout: bool = False,
    measured: MachineMeasurements | None = None,
    site: Site = UNKNOWN_SITE,
    catalogue: Folders = None,
) -> WallPlan:
    """How far a run scales: where efficiency falls, why, and what moves the wall.

    `run` is a `Run`; or its keys, or a run file, in which GPUs, batch and layout that nobody states
    are chosen. The curves go up to `most` GPUs and compare with `least`, the fewest on which the
    run fits if not given. `replica_batch` are the sequences of a replica in weak scaling. With
    `best_layout` the best layout is searched at every count, also if one is stated.

    Examples:
        >>> import syncwall as sw
        >>> layout = sw.Layout(shard="fsdp", global_batch=512)
        >>> run = sw.Run(model="llama-3.1-8b", cluster="dgx-h100", nodes=4, layout=layout)
        >>> found = sw.plan.wall(run, most=64)
        >>> found
        <WallPlan llama-3.1-8b: strong 80% up to ... GPUs, weak 80% up to ... GPUs>
    """
    start = start_of(run, measured, site)
    return WallPlan(
        start,
        wall_of(start, most, least=least, replica_batch=replica_batch, best_layout=best_layout),
    )


@takes_catalogue
def network(  # noqa: PLR0913 - what may be asked of a network
    run: RunLike,
    *,
    gpus: Sequence[int] = (),
    efficiency: float = 0.9,
    exposed: float = 0.05,
    reached: float | None = None,
    strong: bool = False,
    measured: MachineMeasurements | None = None,
    site: Site = UNKNOWN_SITE,
    catalogue: Folders = None,
) -> NetworkPlan:
    """The network that a run needs: bandwidth, scale-up bandwidth, latency, NICs.

    `run` as for `wall`. `gpus` are the counts to look at, those of the run if none are given.
    `efficiency` is the step on an ideal network over that on the real one; up to `exposed` of a
    step may wait and still count as hidden. `reached` is the share of the NICs' rate that
    collectives reach. With `strong` the global batch stays, else that of a GPU.

    Examples:
        >>> import syncwall as sw
        >>> layout = sw.Layout(shard="fsdp", global_batch=512)
        >>> run = sw.Run(model="llama-3.1-8b", cluster="dgx-h100", nodes=4, layout=layout)
        >>> found = sw.plan.network(run, gpus=[32, 256])
        >>> found
        <NetworkPlan llama-3.1-8b on 32, 256 GPUs>
        >>> found.counts[1].efficiency < found.counts[0].efficiency
        True
    """
    if isinstance(run, Mapping) and gpus and not {"nodes", "gpus"} & run.keys():
        run = {**run, "gpus": gpus[0]}
    start = start_of(run, measured, site)
    limits = TargetLimits(efficiency, exposed)
    return NetworkPlan(start, needed(start, gpus, limits, reached=reached, strong=strong))


def fabric(  # noqa: PLR0913 - what a fabric is asked by
    nodes: Cluster | Prediction,
    gpus: int | None = None,
    *,
    kind: FabricKind | None = None,
    radix: tuple[int, int, int] = (64, 64, 64),
    oversubscription: tuple[float, float] = (1.0, 1.0),
    growth: float = 0.0,
    copper: Sequence[str] = (),
    prices: Mapping[str, float] | None = None,
    powers: Mapping[str, float] | None = None,
    degraded: Mapping[str, float] | None = None,
    routing: Routing = "ecmp",
    qps: int = 1,
) -> FabricAnswer:
    """Switches and cables for a number of GPUs: every kind of fabric side by side.

    `nodes` is a machine whose nodes are connected, or a prediction, whose step is then computed on
    every fabric. `gpus` are as many as it uses if not given. `kind` is the only one to look at.
    `radix` are the ports of leaf, spine and core switches at the NICs' rate, `oversubscription`
    that of leaf and spine, `growth` the share of GPUs to come, `copper` the cables without
    transceivers, `prices` (USD) and `powers` (W) those of one "switch", "optic", "fibre" or
    "copper" cable. Flows of a prediction find their way by `routing` with `qps` queue pairs of a
    connection. `degraded` are slow parts of the proposed fabric by name, with the bytes a second
    that each has left: 0 if it is dead.

    Examples:
        >>> import syncwall as sw
        >>> found = sw.plan.fabric(sw.cluster("dgx-h100"), gpus=1024)
        >>> found
        <FabricAnswer 1,024 GPUs: rail-optimised>
        >>> found.found["rail-optimised"].switches["leaf"]
        32
    """
    prediction = nodes if isinstance(nodes, Prediction) else None
    cluster = nodes.run.cluster if isinstance(nodes, Prediction) else nodes
    return plan_fabric(
        wiring_of(cluster, radix, oversubscription, growth), gpus or cluster.gpus, kind=kind,
        prediction=prediction, copper=tuple(copper), prices=PartRates(**prices or {}),
        powers=PartRates.watts(powers or {}), degraded=degraded, routing=routing, qps=qps,
    )  # fmt: skip


def placement(  # noqa: PLR0913 - what a placement is asked by
    jobs: PlacementQuestion | str | Path,
    links: Links | None = None,
    *,
    folder: Path | None = None,
    name: str = "tiers",
    routing: Routing = "ecmp",
    qps: int = 1,
    progress: Callable[[float], None] = lambda _: None,
) -> PlacementAnswer:
    """Where several jobs should stand on one fabric: nodes and rank order of each.

    `jobs` is a file or what it states, with run files in `folder`. `links` is the fabric, called
    `name`; that of the cluster's own tiers if not given. Flows find their way by `routing` with
    `qps` queue pairs of a connection. The placement found is never worse than the one given.

    Examples:
        >>> import syncwall as sw
        >>> found = sw.plan.placement("examples/placement/two-jobs.yaml", routing="adaptive")
        >>> found
        <PlacementAnswer 2 jobs: ...>
        >>> found.found_slower <= found.given_slower
        True
    """
    if not isinstance(jobs, PlacementQuestion):
        folder, jobs = Path(jobs).parent, read_jobs(Path(jobs))
    links = links_of_tiers(jobs.machine) if links is None else links
    runs = jobs.runs(folder or Path())
    given, usable = jobs.placed(links, runs)
    shared = SharedLinks(links, routing, qps, name=name)
    names = [job.name for job in jobs.jobs]
    return place_jobs(names, [predict(run) for run in runs], given, usable, shared,
                      progress=progress)  # fmt: skip
