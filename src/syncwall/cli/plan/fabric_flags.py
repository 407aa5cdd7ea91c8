"""The flags of `syncwall plan fabric` as values.

Holds `wiring_with`, `kind_named` and `rates`.
"""

from dataclasses import fields
from typing import TYPE_CHECKING, Any

from syncwall import units
from syncwall.cli.shares import share_of
from syncwall.problems import InputError, did_you_mean
from syncwall.units import Dimension

if TYPE_CHECKING:
    from syncwall.describe import Cluster
    from syncwall.plan.fabric.money import Rates
    from syncwall.plan.fabric.question import Kind, Wiring

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
    ratios = [_ratio(part) for part in oversubscription.split(",")]
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
        raise InputError.of(f'--radix: "{radix}" is no number of ports: write 64, or 32,220,64')
    return [int(part) * split for part in parts]


def _three(ports: list[int]) -> tuple[int, int, int]:
    """Ports of leaf, spine and core; those not given are as the last one given."""
    if len(ports) > 3:
        raise InputError.of("there are three tiers at most: leaf,spine,core")
    leaf, spine, core, *_ = (*ports, *[ports[-1]] * 2)
    return leaf, spine, core


def _ratio(text: str) -> float:
    """3 and 3:1 and 1:3 as 3."""
    try:
        sides = [float(side) for side in text.split(":")]
        large, small = max(sides), (min(sides) if len(sides) > 1 else 1.0)
        if len(sides) > 2 or small <= 0:
            raise ValueError
    except ValueError:
        message = f'--oversubscription: "{text}" is no ratio: write 3, 3:1, or 1,7 for leaf,spine'
        raise InputError.of(message) from None
    return large / small


def _share(text: str) -> float:
    found = share_of(text)
    if found is None:
        raise InputError.of(f'--growth: "{text}" is no share: write 20% or 0.2')
    return found


def kind_named(name: str | None) -> "Kind | None":
    """The kind called `name`; InputError suggests the nearest."""
    from syncwall.plan.fabric.question import KINDS

    if name is None or name in KINDS:
        return next((kind for kind in KINDS if kind == name), None)
    hint = did_you_mean(name, KINDS) or f"; known are {', '.join(KINDS)}"
    raise InputError.of(f'--kind: unknown kind "{name}"{hint}')


def rates(given: Any, flag: str) -> "Rates":
    """Prices or powers of parts from their flags."""
    from syncwall.plan.fabric.money import Rates

    dimension = Dimension.USD if flag == "--prices" else Dimension.WATTS
    texts = {field.name: getattr(given, field.name) for field in fields(given)}
    found = {
        part: _parsed(text, dimension, f"{flag}.{part}")
        for part, text in texts.items() if text is not None
    }  # fmt: skip
    without = {"fibre": 0.0, "copper": 0.0} if found and dimension is Dimension.WATTS else {}
    return Rates(**without, **found)


def _parsed(text: str, dimension: Dimension, flag: str) -> float:
    try:
        return units.parse(text, dimension)
    except ValueError as error:
        raise InputError.of(f"{flag}: {error}") from None
