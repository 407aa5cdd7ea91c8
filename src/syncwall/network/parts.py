"""Parts of a network by name, and the network with some of them slow or taken out.

Holds `SlowPart` with `slow_part`, `slowed` and `without`. A part is `nic:3-1` (NIC 1 of node 3),
`node:3` (all of its NICs), a switch (`leaf:2`, `switch:leaf:2`) with all of its ports, or one cable
between two of them (`link:leaf:2-spine:1`, short `link:2-1` for a leaf and a spine).
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from syncwall import units
from syncwall.network.links import Floats, Ints, Links
from syncwall.problems import InputError, did_you_mean
from syncwall.units import Dimension

_FORMS = "write nic:NODE-NIC, node:NODE, the name of a switch, or link:LEAF-SPINE"
_MOST_COMPARED = 2000
"""Names of one kind among which the nearest are looked for."""


@dataclass(frozen=True)
class SlowPart:
    """A part that runs slower than it should."""

    name: str
    """As it was asked for."""
    bytes_per_s: float
    """Of each of its ports, one way."""
    links: Ints
    """Directed links that it slows down."""
    nodes: tuple[int, ...]
    """Nodes whose NICs it slows down; empty for what stands between switches."""


def slow_part(links: Links, name: str, bytes_per_s: float) -> SlowPart:
    """The part called `name` at that rate; InputError if there is none, or it is not slower."""
    found = _links_of(links, name)
    if found is None:
        raise InputError.of(f'--degraded: this fabric has no part "{name[:60]}"'
                            f"{_nearest(links, name) or ': ' + _FORMS}")  # fmt: skip
    full = float(links.rates[found].max(initial=0.0))
    if not 0.0 < bytes_per_s <= full * (1.0 + 1e-9):
        most = units.format(full, Dimension.BYTES_PER_S, unit="Gb/s")
        raise InputError.of(f"--degraded: {name} runs at {most}: write a rate above 0, up to that")
    nics = np.unique(found[found < 2 * links.nics] // 2)
    nodes = np.unique(nics // links.nics_per_node)
    return SlowPart(name, bytes_per_s, found, tuple(nodes.tolist()))


def slowed(links: Links, parts: Sequence[SlowPart]) -> Links:
    """The same with every link of `parts` at the rate of its slowest part."""
    rates: Floats = links.rates.copy()
    for part in parts:
        rates[part.links] = np.minimum(rates[part.links], part.bytes_per_s)
    return replace(links, rates=rates)


def without(links: Links, parts: Sequence[SlowPart]) -> Links:
    """The same without the cables that `parts` slow down; NICs stay, at their full rate."""
    gone = np.zeros(len(links.rates), bool)
    for part in parts:
        if not part.nodes:
            gone[part.links] = True
    gone[: 2 * links.nics] = False
    kept = ~gone[2 * links.nics :]
    return replace(
        links, ends=links.ends[kept], length=links.length[kept], rates=links.rates[~gone]
    )


def _links_of(links: Links, name: str) -> Ints | None:
    kind, _, rest = name.partition(":")
    if kind == "nic":
        node, _, number = rest.rpartition("-")
        nic = _nic(links, node, number)
        return None if nic is None else np.array([2 * nic, 2 * nic + 1])
    if kind == "node":
        if rest not in links.nodes:
            return None
        first = 2 * links.nodes.index(rest) * links.nics_per_node
        return np.arange(first, first + 2 * links.nics_per_node)
    if kind == "link":
        return _cable(links, rest)
    return _ports(links, rest if kind == "switch" else name)


def _nic(links: Links, node: str, number: str) -> int | None:
    if node not in links.nodes or not number.isdecimal():
        return None
    if not 1 <= int(number) <= links.nics_per_node:
        return None
    return links.nodes.index(node) * links.nics_per_node + int(number) - 1


def _cable(links: Links, name: str) -> Ints | None:
    """The first of the cables between two switches, both ways."""
    numbers = {switch: place for place, switch in enumerate(links.switches)}
    parts = name.split("-")
    for at in range(1, len(parts)):
        one, other = "-".join(parts[:at]), "-".join(parts[at:])
        for start, end in ((one, other), (f"leaf:{one}", f"spine:{other}")):
            if start in numbers and end in numbers:
                pair = (numbers[start], numbers[end])
                there = np.flatnonzero((links.ends == pair).all(1))[:1]
                back = np.flatnonzero((links.ends == pair[::-1]).all(1))[:1]
                if len(there):
                    return 2 * links.nics + np.concatenate([there, back])
    return None


def _ports(links: Links, switch: str) -> Ints | None:
    if switch not in links.switches:
        return None
    place = links.switches.index(switch)
    nics = np.flatnonzero(links.switch_of_nic == place)
    cables = np.flatnonzero((links.ends == place).any(1))
    return np.concatenate([2 * nics, 2 * nics + 1, 2 * links.nics + cables])


def _nearest(links: Links, name: str) -> str:
    """The names most like `name`, those of its kind first."""
    kind = name.partition(":")[0]
    each = range(1, links.nics_per_node + 1)
    if kind == "nic":
        known = [f"nic:{node}-{number}" for node in links.nodes for number in each]
    elif kind == "node":
        known = [f"node:{node}" for node in links.nodes]
    elif kind == "link":
        pairs = links.ends[::2].tolist()
        long = [f"link:{links.switches[start]}-{links.switches[end]}" for start, end in pairs]
        known = [one.replace("link:leaf:", "link:").replace("-spine:", "-") for one in long]
    else:
        known = list(links.switches)
    length = len(name)
    near = sorted(known, key=lambda one: abs(len(one) - length))
    return did_you_mean(name, near[:_MOST_COMPARED], count=3)
