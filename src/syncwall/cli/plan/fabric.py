"""`syncwall plan fabric`: the switches and cables for a number of GPUs, and a run on them.

Holds `fabric`.
"""

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Final, Literal

import tyro

from syncwall.cli.run_flags import LayoutFlags, SoftwareFlags, stated
from syncwall.problems import InputError

if TYPE_CHECKING:
    from syncwall.describe import Cluster, Run
    from syncwall.describe.settings import Settings

_USUAL_CLUSTER: Final = "dgx-h100"
Text = Annotated[str | None, tyro.conf.arg(metavar="VALUE")]
Cable = Literal["node-leaf", "leaf-spine", "spine-core", "node-router", "local", "global"]


@dataclass(frozen=True)
class Prices:
    """Price of one, in USD."""

    switch: Text = None
    optic: Text = None
    fibre: Text = None
    copper: Text = None


@dataclass(frozen=True)
class Power:
    """Watts that one draws."""

    switch: Text = None
    optic: Text = None


def fabric(  # noqa: PLR0913, PLR0917 - the flags of the verb
    file: Annotated[Path | None, tyro.conf.Positional, tyro.conf.arg(metavar="FILE")] = None,
    /,
    gpus: Annotated[int | None, tyro.conf.arg(metavar="N")] = None,
    cluster: Annotated[str | None, tyro.conf.arg(metavar="NAME")] = None,
    kind: Annotated[str | None, tyro.conf.arg(metavar="NAME")] = None,
    switch: Annotated[str | None, tyro.conf.arg(metavar="NAME")] = None,
    radix: Annotated[str | None, tyro.conf.arg(metavar="PORTS")] = None,
    speed: Annotated[str | None, tyro.conf.arg(metavar="RATE")] = None,
    oversubscription: Annotated[str, tyro.conf.arg(metavar="RATIO")] = "1",
    growth: Annotated[str, tyro.conf.arg(metavar="SHARE")] = "0",
    copper: Annotated[tuple[Cable, ...], tyro.conf.arg(metavar="CABLES")] = (),
    prices: Prices = Prices(),  # noqa: B008 - a dataclass of defaults, never changed
    power: Power = Power(),  # noqa: B008
    model: Annotated[str | None, tyro.conf.arg(metavar="NAME")] = None,
    seq: Annotated[str | None, tyro.conf.arg(metavar="TOKENS")] = None,
    from_file: Annotated[Path | None, tyro.conf.arg(name="from", metavar="FILE")] = None,
    layout: LayoutFlags = LayoutFlags(),  # noqa: B008
    software: SoftwareFlags = SoftwareFlags(),  # noqa: B008
    drawing: Annotated[Path | None, tyro.conf.arg(metavar="FILE")] = None,
    json: bool = False,
    catalogue: Annotated[Path | None, tyro.conf.arg(metavar="DIR")] = None,
) -> int:
    """Size a fabric: every kind side by side, and what the proposed one takes.

    Exit code 1 if no fabric of these switches connects so many GPUs.

    Args:
        file: A run file (YAML) whose step is predicted on every fabric; flags override it.
        gpus: GPUs to connect; those of the run file if not given.
        cluster: Whose nodes: NICs, their rate, GPUs; dgx-h100 if not given.
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
        model: A model to train on it: its step is predicted on every fabric.
        seq: Tokens in a sequence.
        from_file: Take the layout from settings of torchtitan (TOML), Megatron-LM (arguments),
            DeepSpeed (JSON) or Hugging Face accelerate (YAML); flags override them.
        layout: Parallel layout of that run.
        software: Software of that run.
        drawing: Write a picture of the proposed fabric here (SVG).
        json: Print JSON, quantities in SI units.
        catalogue: Look in this directory first (switches/NAME.yaml, ...).
    """
    from syncwall.catalogue import searched_first
    from syncwall.cli.from_file import settings_of
    from syncwall.cli.plan.fabric_flags import kind_named, rates, wiring_with
    from syncwall.documents import write_whole
    from syncwall.plan.fabric.answer import plan_fabric
    from syncwall.show.fabric import fabric_page, fabric_record
    from syncwall.show.fabric_drawing import fabric_drawing
    from syncwall.show.terminal import print_json, print_page

    with searched_first(catalogue):
        flags = stated(layout, software, model=model, cluster=cluster, seq=seq)
        nodes, run, count = _asked(file, flags, gpus, settings_of(from_file))
        wiring = wiring_with(nodes, switch, radix, speed, oversubscription, growth)
        answer = plan_fabric(
            wiring, count, kind=kind_named(kind), run=run, copper=tuple(copper),
            prices=rates(prices, "--prices"), powers=rates(power, "--power"),
        )  # fmt: skip
    if drawing is not None and answer.chosen is not None:
        write_whole(drawing, fabric_drawing(answer.chosen))
    if json:
        print_json(fabric_record(answer))
    else:
        print_page(fabric_page(answer))
    return 0 if answer.chosen is not None else 1


def _asked(
    file: Path | None, flags: dict[str, str], gpus: int | None, settings: "Settings | None"
) -> "tuple[Cluster, Run | None, int]":
    """The nodes to connect, the run on them if there is one, and the number of GPUs."""
    from syncwall.describe import lookup
    from syncwall.describe.overrides import run_with

    if gpus is not None and gpus < 1:
        raise InputError.of(f"--gpus: {gpus} is no number of GPUs")
    if file is None and gpus is None:
        raise InputError.of("write --gpus N, the GPUs to connect, or a run file")
    if file is None:
        flags = {"cluster": _USUAL_CLUSTER} | flags
        if settings is None and "model" not in flags:
            of_a_run = [name for name in flags if name != "cluster"]
            if of_a_run:
                raise InputError.of(f"--{of_a_run[0]} is of a run: add --model NAME")
            return lookup.cluster(flags["cluster"]), None, int(gpus or 0)
    if gpus is not None:
        named = flags.get("cluster")
        whose = lookup.cluster(named) if named else run_with(file, flags, settings).cluster
        if gpus % whose.gpus_per_node:
            each = whose.gpus_per_node
            raise InputError.of(f"--gpus: a run takes whole nodes of {each} GPUs")
        flags = flags | {"nodes": str(gpus // whose.gpus_per_node)}
    run = run_with(file, flags, settings)
    return run.cluster, run, run.gpus
