"""`plan`: which layout, how many GPUs, which network and fabric, and where jobs should stand.

Holds `LayoutsQuestion`, `WallQuestion`, `NetworkQuestion`, `FabricQuestion` and
`PlacementQuestion`; and `wall`, `network`, `fabric` and `placement`, by which Python asks them.
"""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

from pydantic import ValidationError

from syncwall import units
from syncwall.answer.prediction import Prediction, predict
from syncwall.answer.pricing import Pricing
from syncwall.answer.site import UNKNOWN_SITE, Site
from syncwall.ask.question import (
    Argument,
    Count,
    GpuCount,
    LocalFile,
    LocalFolder,
    Progress,
    Question,
    QueuePairs,
    RunQuestion,
    Share,
    WorkQuestion,
    quiet,
)
from syncwall.catalogue import Folders, searched_first, takes_catalogue
from syncwall.cost.measured import MachineMeasurements
from syncwall.describe import Cluster, Layout, Run
from syncwall.describe.base import Description
from syncwall.describe.faults import faults_of
from syncwall.describe.stated import StatedRun, stated_keys
from syncwall.network import Routing
from syncwall.plan.choices import KINDS, FabricKind, Objective
from syncwall.plan.reference import RunLike, start_of, usual_batch
from syncwall.problems import InputError, Problem, option, refuse_unknown
from syncwall.units import Dimension

if TYPE_CHECKING:
    from syncwall.network.graph import Links
    from syncwall.plan.answer import Plan
    from syncwall.plan.fabric.answer import FabricAnswer
    from syncwall.plan.fabric.question import Wiring
    from syncwall.plan.fabric.sized import PartRates
    from syncwall.plan.network.needed import NetworkPlan
    from syncwall.plan.network.program import ProgramNetwork
    from syncwall.plan.placement.found import PlacementAnswer
    from syncwall.plan.placement.question import PlacementFile
    from syncwall.plan.wall.found import WallPlan
    from syncwall.plan.wall.program import ProgramWall

_USUAL_RADIX = 64
_USUAL_CLUSTER = "dgx-h100"


class LayoutsQuestion(RunQuestion):
    """Find the best layouts of a model on a cluster: all that are possible are evaluated.

    Flags of the layout decide a part of it, and take several values: --tp 4,8. Exit code 1 if none
    fits.
    """

    verb = "plan layouts"
    working = "layouts"

    objective: Objective = "fastest"
    """The shortest step, the fewest GPU-hours, or the fewest GPUs."""
    within: Annotated[str | None, Argument("TIME")] = None
    """Only steps of at most this time, such as 20s."""
    price: Annotated[float | None, Argument("USD")] = None
    """Of a GPU-hour in USD, for the cost."""
    top: Count = 5
    """How many to list."""
    settings: Annotated[str | None, Argument("FORMAT", group="output")] = None
    """Print the best one as settings of a framework: torchtitan, megatron, deepspeed, accelerate,
    or a format that a package adds."""

    def answer(self, progress: Progress = quiet) -> "Plan":
        """The best layouts, beside the one that a file states."""
        from syncwall.describe.settings.formats import format_named
        from syncwall.plan.answer import Plan
        from syncwall.plan.search import search

        if self.settings is not None:
            format_named(self.settings)
        stated = self.stated
        has_layout = stated.file.exists or stated.settings is not None
        counts, decided = gpu_counts(stated.keys.get("gpus")), pins(stated.keys)
        with searched_first(self.catalogue):
            run = self._run(stated, counts, has_layout=has_layout)
            measured = self.measurements()
            pricing = Pricing.of(run, measured=measured, site=self.site(measured))
            batch, notes = _batch(run, decided.pop("global_batch", ()), has_layout=has_layout)
            sizes = sizes_of(run.cluster, counts) if len(counts) > 1 else [run.cluster]
            found = search(
                run.model,
                sizes,
                seq=run.seq,
                global_batch=batch,
                software=run.software,
                pinned=decided,
                pricing=pricing,
                progress=progress,
            )
            most = units.parse(self.within, Dimension.SECONDS) if self.within else float("inf")
            best = found.best(self.top, self.objective, within_s=most)
            now = predict(run, pricing) if has_layout else None
            plan = Plan.of(found, best, self.objective, now=now, price_usd_per_gpu_hour=self.price)
            return self._with_settings(replace(plan, notes=notes))

    def _with_settings(self, plan: "Plan") -> "Plan":
        """`plan` with the best layout as settings of a framework, if they are asked for."""
        from syncwall.describe.settings import written

        if self.settings is None or not plan.best:
            return plan
        run = plan.best[0].run
        found = written(
            run.layout,
            self.settings,
            seq=run.seq,
            nodes=run.nodes,
            gpus_per_node=run.gpus_per_node,
            model=run.model,
            software=run.software,
        )
        unsaid = (f"{self.settings} settings have no words for {key}" for key in found.unsaid)
        return replace(plan, settings=found.text or None, notes=(*plan.notes, *unsaid))

    def _run(self, stated: StatedRun, counts: Sequence[int], *, has_layout: bool) -> Run:
        """The run that the search starts from: without the flags of its layout."""
        if isinstance(self.run, Run):
            return self.run
        kept = {"layout.global_batch"} if has_layout else set[str]()
        keys = {
            key: value
            for key, value in stated.keys.items()
            if not key.startswith("layout.") or key in kept
        }
        if counts:
            keys["gpus"] = counts[0]
        return StatedRun(keys, stated.settings, stated.file).run()


def gpu_counts(stated: Any) -> list[int]:
    """Counts written as 512, "512,1024" or "512..4096", which doubles; none if there are none."""
    if stated is None:
        return []
    text = ",".join(map(str, stated)) if isinstance(stated, list | tuple) else str(stated)
    try:
        if ".." in text:
            first, last = (int(part) for part in text.split(".."))
            counts = [first]
            while 0 < counts[-1] * 2 <= last:
                counts.append(counts[-1] * 2)
        else:
            counts = [int(part) for part in text.split(",")]
    except ValueError:
        counts = [0]
    if min(counts) < 1:
        message = f'"{text}" is not a count: write 512, 512,1024 or 256..4096'
        raise InputError.of(message, key="gpus")
    return counts


def pins(keys: Mapping[str, Any]) -> dict[str, tuple[Any, ...]]:
    """Values of fields of a layout by keys "layout.tp": "4,8"; problems name the key."""
    found: dict[str, tuple[Any, ...]] = {}
    for key, value in keys.items():
        if not key.startswith("layout."):
            continue
        texts = value.split(",") if isinstance(value, str) else None
        pieces = (
            [value] if texts is None else [stated_keys({key: one.strip()})[key] for one in texts]
        )
        values = [_field(key, piece) for piece in pieces]
        found[values[0][0]] = tuple(one for _, one in values)
    return found


def _field(key: str, value: Any) -> tuple[str, Any]:
    """Name and value of a field of a layout."""
    word = key.removeprefix("layout.")
    try:
        layout = Layout.model_validate({word: value}, context={"in_file": True})
    except ValidationError as error:
        said = [message for _, message in faults_of(error, Layout)]
        raise InputError(Problem("", 0, 0, message, key) for message in said) from None
    name = next((name for name, one in Layout.model_fields.items() if one.alias == word), word)
    return name, getattr(layout, name)


def sizes_of(cluster: Cluster, counts: Sequence[int]) -> list[Cluster]:
    """`cluster` with every number of GPUs in use."""
    each = cluster.gpus_per_node
    odd = next((count for count in counts if count > each and count % each), None)
    if odd is not None:
        raise InputError.of(f"{odd} GPUs do not fill whole nodes of {each}", key="gpus")
    return [cluster.with_gpus(count) for count in counts]


def _batch(run: Run, stated: tuple[int, ...], *, has_layout: bool) -> tuple[int, tuple[str, ...]]:
    """Sequences of one step: as stated, of the layout which the user has, or the usual ones, and
    why.
    """
    if len(stated) > 1:
        raise InputError.of("write one number", key="layout.global_batch")
    if has_layout:
        return run.layout.global_batch, ()
    if stated:
        return int(stated[0]), ()
    from syncwall.show.words.layout import sample

    batch, why = usual_batch(run.model, run.seq)
    said = f"{batch:,} {sample(run.model)}s a step ({why})"
    return batch, (f"{option('global_batch')} was left out: {said}",)


class WallQuestion(WorkQuestion):
    """How far a run scales: where efficiency falls, why, and what moves the wall.

    The run is as stated on its --nodes or --gpus. Where no layout is given, the best one is
    searched anew at every count; where no batch is given, it is the model's published one.
    """

    verb = "plan wall"
    working = "scaling"

    least: GpuCount | None = None
    """Fewest GPUs, with which efficiency is compared; the fewest on which the run fits."""
    most: GpuCount = 2**20
    """Most GPUs."""
    replica_batch: Count | None = None
    """Sequences of a replica in weak scaling; those of the run if not given."""
    best_layout: bool = False
    """Search the best layout at every count, also if one is stated."""

    def answer(self, progress: Progress = quiet) -> "WallPlan | ProgramWall":
        """Both curves, their walls, and what moves them; of a program the one that there is."""
        self.refuse_beside_work("replica_batch", "best_layout")
        with searched_first(self.catalogue):
            if self.work is not None:
                from syncwall.plan.programs import ProgramCase
                from syncwall.plan.wall.program import program_wall

                case = ProgramCase(**vars(self.recorded()))
                return program_wall(case, self.most, least=self.least or 1, progress=progress)
            from syncwall.plan.wall.found import WallPlan, wall_of

            measured = self.measurements()
            start = start_of(self.run, measured, self.site(measured))
            found = wall_of(
                start,
                self.most,
                least=self.least,
                replica_batch=self.replica_batch,
                best_layout=self.best_layout,
                progress=progress,
            )
            return WallPlan(start, found)


class NetworkQuestion(WorkQuestion):
    """The network that a run needs: bandwidth, scale-up bandwidth, latency, NICs.

    The run is as stated on its --nodes, or on the first of its --gpus; the batch is the model's
    published one and the layout the best by search where nothing of them is given.
    """

    verb = "plan network"
    working = "networks"

    counts: Annotated[tuple[int, ...], Argument(hidden=True)] = ()
    """Numbers of GPUs to look at; those of the run if not given."""
    efficiency: Share = 0.9
    """Step on an ideal network over step on the real one."""
    exposed: Share = 0.05
    """Share of the step that may wait for the network and still count as hidden."""
    reached: Share | None = None
    """Share of the advertised NIC rate that collectives reach, such as 80% (a rule of thumb); the
    machine's own, or what fits measured runs, if not given."""
    strong: bool = False
    """Keep the global batch for all numbers of GPUs; else that of a GPU."""

    def answer(self, progress: Progress = quiet) -> "NetworkPlan | ProgramNetwork":
        """What is needed on each number of GPUs."""
        from syncwall.plan.network.targets import TargetLimits

        self.refuse_beside_work("reached", "strong")
        limits = TargetLimits(self.efficiency, self.exposed)
        counts = self.counts or gpu_counts(self.stated.keys.get("gpus"))
        with searched_first(self.catalogue):
            if self.work is not None:
                from syncwall.plan.network.program import program_network
                from syncwall.plan.programs import ProgramCase

                case = ProgramCase(**vars(self.recorded(free=("gpus",))))
                return program_network(case, counts, limits, progress=progress)
            from syncwall.plan.network.needed import NetworkPlan, needed

            run, measured = self.run, self.measurements()
            if isinstance(run, StatedRun) and counts and "nodes" not in run.keys:
                run = run.with_keys({"gpus": counts[0]})
            start = start_of(run, measured, self.site(measured))
            found = needed(
                start, counts, limits, reached=self.reached, strong=self.strong, progress=progress
            )
            return NetworkPlan(start, found)


Cable = Literal["node-leaf", "leaf-spine", "spine-core", "node-router", "local", "global"]
Text = Annotated[str | None, Argument("VALUE")]


class Prices(Description):
    """Price of one, in USD."""

    switch: Text = None
    """Price of a switch, such as '$18k'."""
    optic: Text = None
    """Price of a transceiver, such as '$900'."""
    fibre: Text = None
    """Price of an optical cable, such as '$100'."""
    copper: Text = None
    """Price of a copper cable, such as '$150'."""


class Power(Description):
    """Watts that one draws."""

    switch: Text = None
    """Power of a switch, such as 900W."""
    optic: Text = None
    """Power of a transceiver, such as 14W."""


class FabricQuestion(RunQuestion):
    """Size a fabric: every kind side by side, and what the proposed one takes.

    Exit code 1 if no fabric of these switches connects so many GPUs.
    """

    verb = "plan fabric"

    kind: Annotated[str | None, Argument("NAME")] = None
    """Only this kind: rail-optimised, fat-tree-2, fat-tree-3, dragonfly or rail-only."""
    switch: Annotated[str | None, Argument("NAME")] = None
    """Switch of the catalogue (`show switches`); leaf,spine,core if they differ."""
    radix: Annotated[str | None, Argument("PORTS")] = None
    """Ports of a switch, in the place of --switch; 64, or leaf,spine,core: 32,220,64."""
    speed: Annotated[str | None, Argument("RATE")] = None
    """Rate of these ports; faster ones than the NICs' are split. That of the NICs if not given."""
    oversubscription: Annotated[str, Argument("RATIO")] = "1"
    """Of a leaf: 3 or 3:1; leaf,spine: 1,7. 1 is non-blocking."""
    growth: Annotated[str, Argument("SHARE")] = "0"
    """GPUs to come: 20%."""
    copper: Annotated[tuple[Cable, ...], Argument("CABLES")] = ()
    """Cables of copper, without transceivers, such as node-leaf. All others are optical."""
    prices: Prices = Prices()
    """Price of one in USD, such as $18k: a switch, a transceiver (optic), a cable."""
    power: Power = Power()
    """Watts that one draws, such as 900W."""
    degraded: Annotated[str | None, Argument("PARTS")] = None
    """Slow or dead parts of the proposed fabric, and what each has left:
    nic:3-1=100Gb/s,link:2-1=0,switch:leaf:4=200Gb/s. Says what the run loses, and whether taking
    them out pays."""
    routing: Routing = "ecmp"
    """How flows of the run find their way: hashed (ecmp), by fixed tables, over whatever is free
    (adaptive), or over a random group of a dragonfly first."""
    qps: QueuePairs = 1
    """Queue pairs of a connection, each hashed by itself."""

    def answer(self, progress: Progress = quiet) -> "FabricAnswer":
        """Every kind of fabric, and the run on it if there is one."""
        from syncwall.plan.fabric.answer import plan_fabric

        if self.kind is not None:
            refuse_unknown(self.kind, KINDS, f'{option("kind")}: unknown kind "{self.kind}"')
        with searched_first(self.catalogue):
            nodes, prediction, gpus = self._nodes()
            if prediction is None and (self.routing != "ecmp" or self.qps != 1):
                said = f"{option('routing')} and {option('qps')} are of a run"
                raise InputError.of(f"{said}: add {option('model')} NAME")
            return plan_fabric(
                self._wiring(nodes),
                gpus,
                kind=_kind(self.kind),
                prediction=prediction,
                copper=tuple(self.copper),
                prices=_rates(self.prices, "prices"),
                powers=_rates(self.power, "power"),
                degraded=self._slow_parts(),
                routing=self.routing,
                qps=self.qps,
            )

    def _nodes(self) -> tuple[Cluster, Prediction | None, int]:
        """The nodes to connect, the run on them if there is one, and the number of GPUs."""
        from syncwall.describe import lookup

        stated = self.run
        if isinstance(stated, StatedRun) and not stated.file.exists:
            if not stated.has_gpus:
                raise InputError.of(f"write {option('gpus')} N, the GPUs to connect, or a run file")
            if "model" not in stated:
                mine = ("cluster", "gpus", "nodes", "gpus_per_node")
                of_a_run = [key for key in stated.keys if key not in mine]
                if of_a_run:
                    raise InputError.of(
                        f"{option(of_a_run[0])} is of a run: add {option('model')} NAME"
                    )
                nodes = lookup.cluster(stated.get("cluster") or _USUAL_CLUSTER)
                each = _count(stated, "gpus_per_node") or nodes.gpus_per_node
                return nodes, None, _count(stated, "gpus") or (_count(stated, "nodes") or 0) * each
            if "cluster" not in stated:
                stated = stated.with_keys({"cluster": _USUAL_CLUSTER})
        run, measured = stated if isinstance(stated, Run) else stated.run(), self.measurements()
        prediction = predict(run, measured=measured, site=self.site(measured))
        return run.cluster, prediction, run.gpus

    def _wiring(self, nodes: Cluster) -> "Wiring":
        """Nodes such as those of `nodes`, joined by the switches and rules that are stated."""
        from syncwall.ask.fabrics import ratio
        from syncwall.plan.fabric.question import wiring_of

        nics = nodes.node.nics
        rate = float(nics.rate_bytes_per_s) if nics else 1.0
        if self.switch is not None and (self.radix is not None or self.speed is not None):
            raise InputError.of(
                f"{option('switch')} has its own ports: leave out {option('radix')} and "
                f"{option('speed')}"
            )
        ports = _of_names(self.switch, rate) if self.switch else self._of_numbers(rate)
        ratios = [ratio(part) for part in self.oversubscription.split(",")]
        if len(ratios) > 2:
            raise InputError.of("write one ratio, or two: leaf,spine", key="oversubscription")
        growth = _growth(self.growth)
        return wiring_of(nodes, _three(ports), (ratios[0], (*ratios, 1.0)[1]), growth)

    def _of_numbers(self, rate: float) -> list[int]:
        split = 1
        if self.speed is not None:
            split = int(_parsed(self.speed, Dimension.BYTES_PER_S, "speed") / rate + 1e-9)
            if not split:
                need = units.format(rate, Dimension.BYTES_PER_S, unit="Gb/s")
                raise InputError.of(f"a port must be as fast as the NICs, {need}", key="speed")
        parts = (self.radix or str(_USUAL_RADIX)).split(",")
        if not all(part.strip().isdigit() for part in parts):
            message = f'"{self.radix}" is not a number of ports: write 64, or 32,220,64'
            raise InputError.of(message, key="radix")
        return [int(part) * split for part in parts]

    def _slow_parts(self) -> dict[str, float]:
        """nic:3-1=100Gb/s,link:2-1=0 as names and bytes a second; 0 is a dead part."""
        found = {}
        for part in self.degraded.split(",") if self.degraded is not None else ():
            name, equals, rate = part.strip().partition("=")
            if not equals:
                example = "write nic:3-1=100Gb/s, or nic:3-1=0 if it is dead"
                raise InputError.of(f'"{part[:60]}" has no rate: {example}', key="degraded")
            dead = rate.strip() == "0"
            found[name] = (
                0.0 if dead else _parsed(rate, Dimension.BYTES_PER_S, "degraded", f"{name[:60]}: ")
            )
        return found


def _kind(name: str | None) -> FabricKind | None:
    return next((kind for kind in KINDS if kind == name), None)


def _of_names(names: str, rate: float) -> list[int]:
    from syncwall.describe import lookup

    found = [lookup.switch(name) for name in names.split(",")]
    slow = [one for one in found if not one.ports_at(rate)]
    if slow:
        need = units.format(rate, Dimension.BYTES_PER_S, unit="Gb/s")
        message = f"the ports of {slow[0].name} are slower than NICs of {need}"
        raise InputError.of(message, key="switch")
    return [one.ports_at(rate) for one in found]


def _three(ports: list[int]) -> tuple[int, int, int]:
    """Ports of leaf, spine and core; those not given are as the last one given."""
    if len(ports) > 3:
        raise InputError.of("there are three tiers at most: leaf,spine,core")
    leaf, spine, core, *_ = (*ports, *[ports[-1]] * 2)
    return leaf, spine, core


def _growth(text: str) -> float:
    try:
        return float(text.removesuffix("%")) / (100.0 if text.endswith("%") else 1.0)
    except ValueError:
        message = f'"{text}" is not a share: write 20% or 0.2'
        raise InputError.of(message, key="growth") from None


def _rates(given: Description, key: str) -> "PartRates":
    """Prices or powers of parts."""
    from syncwall.plan.fabric.sized import PartRates

    dimension = Dimension.USD if key == "prices" else Dimension.WATTS
    stated = {part: text for part, text in given if text is not None}
    found = {part: _parsed(text, dimension, f"{key}.{part}") for part, text in stated.items()}
    return PartRates.watts(found) if dimension is Dimension.WATTS else PartRates(**found)


def _parsed(text: str, dimension: Dimension, key: str, before: str = "") -> float:
    try:
        return units.parse(text, dimension)
    except ValueError as error:
        raise InputError.of(f"{before}{error}", key=key) from None


def _count(stated: StatedRun, key: str) -> int | None:
    value = stated.get(key)
    if value is None:
        return None
    if not isinstance(value, int) or value < 1:
        message = f'"{value}" is not a count: write for example 512'
        raise InputError.of(message, key=key)
    return value


class PlacementQuestion(Question):
    """Where jobs should stand on a fabric: nodes and rank order, and what sharing costs each."""

    verb = "plan placement"
    working = "placements"

    file: Annotated[LocalFile, Argument("FILE", positional=True)]
    """Jobs: a cluster, its nodes, and of each job its run and the nodes that it has."""
    fabric: Annotated[str, Argument("NAME")] = "tiers"
    """A kind of `plan fabric`, with a ratio if it is not non-blocking (fat-tree-2,4:1), `tiers` for
    those of the cluster, or a file of ibnetdiscover, topograph, NetQ or Slurm."""
    routing: Routing = "ecmp"
    """How flows find their way: hashed (ecmp), by fixed tables, over whatever is free (adaptive),
    or over a random group of a dragonfly first."""
    qps: QueuePairs = 1
    """Queue pairs of a connection, each hashed by itself."""
    catalogue: tuple[LocalFolder, ...] = ()
    """Folder with entries of your own, searched before the built-in ones."""

    def answer(self, progress: Progress = quiet) -> "PlacementAnswer":
        """The placement found, never worse than the one given."""
        from syncwall.ask.fabrics import links_named
        from syncwall.plan.placement.question import read_jobs

        with searched_first(self.catalogue):
            jobs = read_jobs(self.file)
            links = links_named(self.fabric, jobs.machine, places=True)
            return placement(
                jobs,
                links,
                folder=self.file.parent,
                name=self.fabric,
                routing=self.routing,
                qps=self.qps,
                progress=progress,
            )


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
) -> "WallPlan":
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
    from syncwall.plan.wall.found import WallPlan

    found = WallQuestion(
        run=run,
        most=most,
        least=least,
        replica_batch=replica_batch,
        best_layout=best_layout,
        calibration=measured,
        known_run=site,
    ).answer()
    assert isinstance(found, WallPlan)
    return found


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
) -> "NetworkPlan":
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
    from syncwall.plan.network.needed import NetworkPlan

    found = NetworkQuestion(
        run=run,
        counts=tuple(gpus),
        efficiency=efficiency,
        exposed=exposed,
        reached=reached,
        strong=strong,
        calibration=measured,
        known_run=site,
    ).answer()
    assert isinstance(found, NetworkPlan)
    return found


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
) -> "FabricAnswer":
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
    from syncwall.plan.fabric.answer import plan_fabric
    from syncwall.plan.fabric.question import wiring_of
    from syncwall.plan.fabric.sized import PartRates

    prediction = nodes if isinstance(nodes, Prediction) else None
    cluster = nodes.run.cluster if isinstance(nodes, Prediction) else nodes
    return plan_fabric(
        wiring_of(cluster, radix, oversubscription, growth),
        gpus or cluster.gpus,
        kind=kind,
        prediction=prediction,
        copper=tuple(copper),
        prices=PartRates(**prices or {}),
        powers=PartRates.watts(powers or {}),
        degraded=degraded,
        routing=routing,
        qps=qps,
    )


def placement(  # noqa: PLR0913 - what a placement is asked by
    jobs: "PlacementFile | str | Path",
    links: "Links | None" = None,
    *,
    folder: Path | None = None,
    name: str = "tiers",
    routing: Routing = "ecmp",
    qps: int = 1,
    progress: Progress = quiet,
) -> "PlacementAnswer":
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
    from syncwall.cost.contended_network import SharedLinks
    from syncwall.network.graph import links_of_tiers
    from syncwall.plan.placement.found import place_jobs
    from syncwall.plan.placement.question import PlacementFile, read_jobs

    if not isinstance(jobs, PlacementFile):
        folder, jobs = Path(jobs).parent, read_jobs(Path(jobs))
    links = links_of_tiers(jobs.machine) if links is None else links
    runs = jobs.runs(folder or Path())
    given, usable = jobs.placed(links, runs)
    shared = SharedLinks(links, routing, qps, name=name)
    names = [job.name for job in jobs.jobs]
    return place_jobs(
        names, [predict(run) for run in runs], given, usable, shared, progress=progress
    )
