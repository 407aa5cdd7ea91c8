"""`plan fabric` and `plan placement`: switches and cables, and where jobs should stand on them.

Holds `FabricQuestion` and `PlacementQuestion`; `fabric` and `placement`, by which Python asks; and
`links_named`: a kind of fabric with its ratio, the tiers of a cluster, or a file.
"""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

from syncwall import units
from syncwall.answer.prediction import Prediction, predict
from syncwall.ask.question import (
    Argument,
    LocalFile,
    LocalFolder,
    Progress,
    Question,
    QueuePairs,
    RunQuestion,
    quiet,
)
from syncwall.catalogue import catalogue_overlay
from syncwall.describe import Cluster, Run
from syncwall.describe.base import Description
from syncwall.describe.names import files_refused
from syncwall.describe.stated import StatedRun
from syncwall.network import Routing
from syncwall.plan.choices import KINDS, FabricKind
from syncwall.problems import InputError, option, refuse_unknown
from syncwall.units import Dimension

if TYPE_CHECKING:
    from syncwall.network.graph import Links
    from syncwall.plan.fabric.fabric_answer import FabricAnswer
    from syncwall.plan.fabric.question import Wiring
    from syncwall.plan.fabric.sized import PartRates
    from syncwall.plan.placement.best_placement import PlacementAnswer, PlacementFile

_USUAL_RADIX = 64
_USUAL_CLUSTER = "dgx-h100"
Cable = Literal["node-leaf", "leaf-spine", "spine-core", "node-router", "local", "global"]
Text = Annotated[str | None, Argument("VALUE")]


class PartPrices(Description):
    """Price of one, in USD."""

    switch: Text = None
    """Price of a switch, such as '$18k'."""
    optic: Text = None
    """Price of a transceiver, such as '$900'."""
    fibre: Text = None
    """Price of an optical cable, such as '$100'."""
    copper: Text = None
    """Price of a copper cable, such as '$150'."""


class PartPower(Description):
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
    nic_rate: Annotated[str | None, Argument("RATE")] = None
    """Rate of one NIC instead of the machine's, such as 800Gb/s; ports of switches follow."""
    speed: Annotated[str | None, Argument("RATE")] = None
    """Rate of these ports; faster ones than the NICs' are split. That of the NICs if not given."""
    oversubscription: Annotated[str, Argument("RATIO")] = "1"
    """Of a leaf: 3 or 3:1; leaf,spine: 1,7. 1 is non-blocking."""
    growth: Annotated[str, Argument("SHARE")] = "0"
    """GPUs to come: 20%."""
    copper: Annotated[tuple[Cable, ...], Argument("CABLES")] = ()
    """Cables of copper, without transceivers, such as node-leaf. All others are optical."""
    prices: PartPrices = PartPrices()
    """Price of one in USD, such as $18k: a switch, a transceiver (optic), a cable."""
    power: PartPower = PartPower()
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
        from syncwall.plan.fabric.fabric_answer import plan_fabric

        if self.kind is not None:
            refuse_unknown(self.kind, KINDS, f'{option("kind")}: unknown kind "{self.kind}"')
        with catalogue_overlay(self.catalogue):
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
                    raise InputError.of(f"{option(of_a_run[0])} is of a run: add {option('model')} NAME")
                nodes = self._rated(lookup.cluster(stated.get("cluster") or _USUAL_CLUSTER))
                each = _count(stated, "gpus_per_node") or nodes.gpus_per_node
                return nodes, None, _count(stated, "gpus") or (_count(stated, "nodes") or 0) * each
            if "cluster" not in stated:
                stated = stated.with_keys({"cluster": _USUAL_CLUSTER})
        run, measured = stated if isinstance(stated, Run) else stated.run(), self.measurements()
        if self.nic_rate is not None:
            run = run.model_copy(update={"cluster": self._rated(run.cluster)})
        prediction = predict(run, measured=measured, site=self.known_site(measured))
        return run.cluster, prediction, run.gpus

    def _rated(self, nodes: Cluster) -> Cluster:
        """`nodes` with NICs of the rate that is stated."""
        from syncwall.plan.network_scaling import Wires

        nics = nodes.node.nics
        if self.nic_rate is None or nics is None:
            return nodes
        rate = _parsed(self.nic_rate, Dimension.BYTES_PER_S, "nic_rate")
        return Wires(nic=rate / float(nics.rate_bytes_per_s)).on(nodes)

    def _wiring(self, nodes: Cluster) -> "Wiring":
        """Nodes such as those of `nodes`, joined by the switches and rules that are stated."""
        from syncwall.plan.fabric.question import wiring_of

        nics = nodes.node.nics
        rate = float(nics.rate_bytes_per_s) if nics else 1.0
        if self.switch is not None and (self.radix is not None or self.speed is not None):
            raise InputError.of(
                f"{option('switch')} has its own ports: leave out {option('radix')} and {option('speed')}"
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
            found[name] = 0.0 if dead else _parsed(rate, Dimension.BYTES_PER_S, "degraded", f"{name[:60]}: ")
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
        from syncwall.plan.placement.best_placement import read_jobs

        with catalogue_overlay(self.catalogue):
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


def links_named(name: str, cluster: Cluster, *, places: bool = False) -> "Links":
    """Links of a kind of fabric, of the cluster's tiers, or of a file.

    With `places`, one that says where nodes stand.
    """
    from syncwall.network.graph import links_of_tiers
    from syncwall.plan.fabric.sized_links import fabric_named

    if name == "tiers":
        return links_of_tiers(cluster)
    word, _, narrower = name.partition(",")
    if word not in KINDS and not files_refused() and Path(name).exists():
        from syncwall.read.fabric_links import links_of_file

        return links_of_file(Path(name), cluster, places=places)
    said = f'{option("fabric")}: "{word}" is neither a file nor a kind of fabric'
    refuse_unknown(word, KINDS if narrower else (*KINDS, "tiers"), said)
    kind = next(kind for kind in KINDS if kind == word)
    return fabric_named(kind, cluster, (ratio(narrower or "1", "fabric"), 1.0))


def ratio(text: str, key: str = "oversubscription") -> float:
    """3 and 3:1 and 1:3 as 3."""
    try:
        sides = [float(side) for side in text.split(":")]
        large, small = max(sides), (min(sides) if len(sides) > 1 else 1.0)
        if len(sides) > 2 or small <= 0:
            raise ValueError
    except ValueError:
        message = f'"{text}" is not a ratio: write 3, 3:1, or 1,7 for leaf,spine'
        raise InputError.of(message, key=key) from None
    return large / small


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
    from syncwall.plan.fabric.fabric_answer import plan_fabric
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
    from syncwall.plan.placement.best_placement import PlacementFile, place_jobs, read_jobs

    if not isinstance(jobs, PlacementFile):
        folder, jobs = Path(jobs).parent, read_jobs(Path(jobs))
    links = links_of_tiers(jobs.machine) if links is None else links
    runs = jobs.runs(folder or Path())
    given, usable = jobs.placed(links, runs)
    shared = SharedLinks(links, routing, qps, name=name)
    names = [job.name for job in jobs.jobs]
    return place_jobs(names, [predict(run) for run in runs], given, usable, shared, progress=progress)
