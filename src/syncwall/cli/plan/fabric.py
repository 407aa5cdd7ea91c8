"""`syncwall plan fabric`: the switches and cables for a number of GPUs, and a run on them.

Holds `fabric`. `wiring_with`, `rates` and `slow_parts`: the flags of `syncwall plan fabric` as
values.
"""

from dataclasses import dataclass, fields, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Final, Literal

import tyro

from syncwall import units
from syncwall.cli.fabric_flags import check_qps, kind_named, ratio
from syncwall.cli.output import Output, OutputFlags
from syncwall.cli.run_flags import RunFlags, Whose, share_of
from syncwall.network import Routing
from syncwall.problems import InputError
from syncwall.units import Dimension

if TYPE_CHECKING:
    from syncwall.answer import Prediction
    from syncwall.describe import Cluster
    from syncwall.plan.fabric.question import Wiring
    from syncwall.plan.fabric.sized import PartRates

_USUAL_RADIX = 64


def wiring_with(
    nodes: "Cluster", switch: str | None, radix: str | None, speed: str | None,
    oversubscription: str, growth: str,
) -> "Wiring":  # fmt: skip
    """Nodes such as those of `nodes`, joined by the switches and rules that the flags state."""
    from syncwall.plan.fabric.question import wiring_of

    nics = nodes.node.nics
    rate = float(nics.rate_bytes_per_s) if nics else 1.0
    if switch is not None and (radix is not None or speed is not None):
        raise InputError.of("--switch has its own ports: leave out --radix and --speed")
    ports = _of_names(switch, rate) if switch else _of_numbers(radix, speed, rate)
    ratios = [ratio(part) for part in oversubscription.split(",")]
    if len(ratios) > 2:
        raise InputError.of("--oversubscription: write one ratio, or two: leaf,spine")
    return wiring_of(nodes, _three(ports), (ratios[0], (*ratios, 1.0)[1]), _share(growth))


def _of_names(names: str, rate: float) -> list[int]:
    from syncwall.describe import lookup

    found = [lookup.switch(name) for name in names.split(",")]
    slow = [one for one in found if not one.ports_at(rate)]
    if slow:
        need = units.format(rate, Dimension.BYTES_PER_S, unit="Gb/s")
        raise InputError.of(f"--switch: the ports of {slow[0].name} are slower than NICs of {need}")
    return [one.ports_at(rate) for one in found]


def _of_numbers(radix: str | None, speed: str | None, rate: float) -> list[int]:
    split = 1
    if speed is not None:
        split = int(_parsed(speed, Dimension.BYTES_PER_S, "--speed") / rate + 1e-9)
        if not split:
            need = units.format(rate, Dimension.BYTES_PER_S, unit="Gb/s")
            raise InputError.of(f"--speed: a port must be as fast as the NICs, {need}")
    parts = (radix or str(_USUAL_RADIX)).split(",")
    if not all(part.strip().isdigit() for part in parts):
        raise InputError.of(f'--radix: "{radix}" is not a number of ports: write 64, or 32,220,64')
    return [int(part) * split for part in parts]


def _three(ports: list[int]) -> tuple[int, int, int]:
    """Ports of leaf, spine and core; those not given are as the last one given."""
    if len(ports) > 3:
        raise InputError.of("there are three tiers at most: leaf,spine,core")
    leaf, spine, core, *_ = (*ports, *[ports[-1]] * 2)
    return leaf, spine, core


def _share(text: str) -> float:
    found = share_of(text)
    if found is None:
        raise InputError.of(f'--growth: "{text}" is not a share: write 20% or 0.2')
    return found


def slow_parts(text: str | None) -> dict[str, float]:
    """nic:3-1=100Gb/s,link:2-1=0 as names and bytes a second; 0 is a dead part."""
    found = {}
    for part in text.split(",") if text is not None else ():
        name, equals, rate = part.strip().partition("=")
        if not equals:
            example = "write nic:3-1=100Gb/s, or nic:3-1=0 if it is dead"
            raise InputError.of(f'--degraded: "{part[:60]}" has no rate: {example}')
        flag = f"--degraded: {name[:60]}"
        found[name] = 0.0 if rate.strip() == "0" else _parsed(rate, Dimension.BYTES_PER_S, flag)
    return found


def rates(given: Any, flag: str) -> "PartRates":
    """Prices or powers of parts from their flags."""
    from syncwall.plan.fabric.sized import PartRates

    dimension = Dimension.USD if flag == "--prices" else Dimension.WATTS
    texts = {field.name: getattr(given, field.name) for field in fields(given)}
    found = {
        part: _parsed(text, dimension, f"{flag}.{part}")
        for part, text in texts.items() if text is not None
    }  # fmt: skip
    return PartRates.watts(found) if dimension is Dimension.WATTS else PartRates(**found)


def _parsed(text: str, dimension: Dimension, flag: str) -> float:
    try:
        return units.parse(text, dimension)
    except ValueError as error:
        raise InputError.of(f"{flag}: {error}") from None


_USUAL_CLUSTER: Final = "dgx-h100"
Text = Annotated[str | None, tyro.conf.arg(metavar="VALUE")]
Cable = Literal["node-leaf", "leaf-spine", "spine-core", "node-router", "local", "global"]


@dataclass(frozen=True)
class Prices:
    """Price of one, in USD."""

    switch: Text = None
    """Price of a switch, such as '$18k'."""
    optic: Text = None
    """Price of a transceiver, such as '$900'."""
    fibre: Text = None
    """Price of an optical cable, such as '$100'."""
    copper: Text = None
    """Price of a copper cable, such as '$150'."""


@dataclass(frozen=True)
class Power:
    """Watts that one draws."""

    switch: Text = None
    """Power of a switch, such as 900W."""
    optic: Text = None
    """Power of a transceiver, such as 14W."""


def fabric(  # noqa: PLR0913, PLR0917 - the flags of the verb
    whose: Whose = RunFlags(),  # noqa: B008 - a dataclass of defaults, never changed
    kind: Annotated[str | None, tyro.conf.arg(metavar="NAME")] = None,
    switch: Annotated[str | None, tyro.conf.arg(metavar="NAME")] = None,
    radix: Annotated[str | None, tyro.conf.arg(metavar="PORTS")] = None,
    speed: Annotated[str | None, tyro.conf.arg(metavar="RATE")] = None,
    oversubscription: Annotated[str, tyro.conf.arg(metavar="RATIO")] = "1",
    growth: Annotated[str, tyro.conf.arg(metavar="SHARE")] = "0",
    copper: Annotated[tuple[Cable, ...], tyro.conf.arg(metavar="CABLES")] = (),
    prices: Prices = Prices(),
    power: Power = Power(),
    degraded: Annotated[str | None, tyro.conf.arg(metavar="PARTS")] = None,
    routing: Routing = "ecmp",
    qps: Annotated[int, tyro.conf.arg(metavar="N")] = 1,
    drawing: Annotated[Path | None, tyro.conf.arg(metavar="FILE")] = None,
    out: Output = OutputFlags(),  # noqa: B008
) -> int:
    """Size a fabric: every kind side by side, and what the proposed one takes.

    Exit code 1 if no fabric of these switches connects so many GPUs.

    Args:
        whose: The nodes to connect (--cluster, dgx-h100 if not given; --gpus or --nodes), and the
            run on them, if a model or a run file is given: its step is predicted on every fabric.
        kind: Only this kind: rail-optimised, fat-tree-2, fat-tree-3, dragonfly or rail-only.
        switch: Switch of the catalogue (`show switches`); leaf,spine,core if they differ.
        radix: Ports of a switch, in the place of --switch; 64, or leaf,spine,core: 32,220,64.
        speed: Rate of these ports; faster ones than the NICs' are split. That of the NICs
            if not given.
        oversubscription: Of a leaf: 3 or 3:1; leaf,spine: 1,7. 1 is non-blocking.
        growth: GPUs to come: 20%.
        copper: Cables of copper, without transceivers, such as node-leaf. All others are optical.
        prices: Price of one in USD, such as $18k: a switch, a transceiver (optic), a cable.
        power: Watts that one draws, such as 900W.
        degraded: Slow or dead parts of the proposed fabric, and what each has left:
            nic:3-1=100Gb/s,link:2-1=0,switch:leaf:4=200Gb/s. Says what the run loses, and
            whether taking them out pays.
        routing: How flows of the run find their way: hashed (ecmp), by fixed tables, over
            whatever is free (adaptive), or over a random group of a dragonfly first.
        qps: Queue pairs of a connection, each hashed by itself.
        drawing: Write a picture of the proposed fabric here (SVG).
        out: Where the answer goes.
    """
    from syncwall.catalogue import searched_first
    from syncwall.documents import write_whole
    from syncwall.plan.fabric.answer import plan_fabric
    from syncwall.show.draw.fabric import fabric_drawing
    from syncwall.show.records.fabric import fabrics_record
    from syncwall.show.views.fabric import fabric_view

    out.check()
    with searched_first(whose.catalogue):
        check_qps(qps)
        nodes, prediction, count = _asked(whose)
        if prediction is None and (routing != "ecmp" or qps != 1):
            raise InputError.of("--routing and --qps are of a run: add --model NAME")
        wiring = wiring_with(nodes, switch, radix, speed, oversubscription, growth)
        answer = plan_fabric(
            wiring, count, kind=kind_named(kind), prediction=prediction, copper=tuple(copper),
            prices=rates(prices, "--prices"), powers=rates(power, "--power"),
            degraded=slow_parts(degraded), routing=routing, qps=qps,
        )  # fmt: skip
    if drawing is not None and answer.chosen is not None:
        write_whole(drawing, fabric_drawing(answer.chosen).file())
    out.write("plan fabric", lambda: fabric_view(answer), lambda: fabrics_record(answer))
    return 0 if answer.chosen is not None else 1


def _asked(whose: RunFlags) -> "tuple[Cluster, Prediction | None, int]":
    """The nodes to connect, the run on them if there is one, and the number of GPUs."""
    from syncwall.answer import predict
    from syncwall.describe import lookup

    if whose.file is None and whose.gpus is None and whose.nodes is None:
        raise InputError.of("write --gpus N, the GPUs to connect, or a run file")
    if whose.file is None and whose.model is None and whose.from_file is None:
        mine = ("cluster", "gpus", "nodes", "gpus_per_node")
        of_a_run = [name for name in whose.stated if name not in mine]
        if of_a_run:
            raise InputError.of(f"--{of_a_run[0]} is of a run: add --model NAME")
        nodes = lookup.cluster(whose.cluster or _USUAL_CLUSTER)
        each = _count("gpus-per-node", whose.gpus_per_node) or nodes.gpus_per_node
        count = _count("gpus", whose.gpus) or (_count("nodes", whose.nodes) or 0) * each
        return nodes, None, count
    if whose.file is None and whose.cluster is None:
        whose = replace(whose, cluster=_USUAL_CLUSTER)
    run, measured = whose.run(), whose.measured()
    prediction = predict(run, measured=measured, site=whose.site(measured))
    return run.cluster, prediction, run.gpus


def _count(flag: str, text: str | None) -> int | None:
    if text is None:
        return None
    if not text.isdecimal() or int(text) < 1:
        raise InputError.of(f'--{flag}: "{text}" is not a count: write for example 512')
    return int(text)
