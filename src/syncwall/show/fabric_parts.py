"""What a drawing of a fabric shows: its rows of switches, its columns, its captions.

Holds `Row`, `title_of`, `top_of` and `columns_of`.
"""

from dataclasses import dataclass, replace

from syncwall import units
from syncwall.plan.fabric.sized import Sized
from syncwall.units import Dimension


@dataclass(frozen=True, slots=True)
class Row:
    """Equal switches side by side."""

    tier: str
    count: int
    ports: str
    """How a switch's ports are used, in words."""
    most: int = 6
    """Switches that are drawn at most."""
    rails: bool = False
    """True if each switch belongs to another rail."""
    under: str = ""
    """What hangs below."""
    under_last: str = ""
    """What hangs below the last column, which may be less."""
    named: str = ""
    """What the column is, with `{index}` for its number and `{count}` for that of its switches."""
    in_last: int = 0
    """Switches in the last column if they are fewer; 0 if they are as many."""

    def in_column(self, last: bool) -> "Row":
        """The row of one column."""
        if not last:
            return self
        return replace(self, count=self.in_last or self.count, under=self.under_last)


def title_of(one: Sized) -> tuple[str, str]:
    """Two lines that say what is drawn."""
    rate = units.format(one.wiring.nic_bytes_per_s, Dimension.BYTES_PER_S, unit="Gb/s")
    several = "es" * (one.total_switches != 1)
    title = f"{one.gpus:,} GPUs on a {one.kind} fabric: {one.total_switches:,} switch{several}"
    share = "full bisection" if one.bisection_share >= 1 else f"{one.bisection_share:.0%} bisection"
    return title, (
        f"{one.total_cables:,} cables of {rate} · {share} · "
        f"at most {one.hops} switch{'es' * (one.hops > 1)} between two NICs"
        f"{'' if one.joins_all else ' of a rail; GPUs forward between rails'}"
    )


def top_of(one: Sized) -> Row | None:
    """The row that all columns hang on; None if the columns stand alone."""
    if one.kind in ("dragonfly", "rail-only"):
        return None
    for tier in ("core", "spine"):
        if one.switches[tier]:
            return Row(tier, one.switches[tier], "all ports down")
    return None


def columns_of(one: Sized) -> tuple[int, list[Row]]:
    """How many equal columns there are, and the rows of one, the highest first."""
    if one.kind == "dragonfly":
        return _groups(one)
    if one.kind == "rail-only":
        return _rails(one)
    if one.tiers == 3:
        return _pods(one)
    rails = one.shape["rails"]
    leaves = one.switches["leaf"] // rails
    named = f"group {{index}}: {rails} leaf, one a rail" if rails > 1 else "leaf {index}"
    return leaves, [_leaf(one, rails, leaves, one.shape["leaf_nodes"], named)]


def _pods(one: Sized) -> tuple[int, list[Row]]:
    """Spines and leaves of one pod, full."""
    shape = one.shape
    leaves = min(shape["spine_down"], one.switches["leaf"])
    if shape["rails"] > 1:
        leaves = leaves // shape["rails"] * shape["rails"]
    named = f"pod {{index}}: {shape['up']:,} spine · {{count}} leaf"
    rest = one.switches["leaf"] - (shape["pods"] - 1) * leaves
    spines = Row("spine", shape["up"], f"{shape['spine_down']} down, {shape['spine_up']} up")
    lowest = _leaf(one, leaves, shape["pods"], shape["pod_nodes"], named)
    return shape["pods"], [spines, replace(lowest, in_last=max(rest, 1))]


def _rails(one: Sized) -> tuple[int, list[Row]]:
    """The tree of one rail."""
    rails, shape = one.shape["rails"], one.shape
    counts = {tier: count // rails for tier, count in one.switches.items()}
    rows = []
    if counts["core"]:
        rows.append(Row("core", counts["core"], "all ports down", most=4))
    if counts["spine"]:
        up = f"{shape['spine_down']} down, {shape['spine_up']} up"
        rows.append(
            Row("spine", counts["spine"], up if counts["core"] else "all ports down", most=4)
        )
    numbers = " + ".join(f"{count:,}" for count in counts.values() if count)
    every = "one NIC of every node" if one.wiring.domain_nodes == 1 else "one NIC of every domain"
    ports = _down_and_up(one)
    rows.append(
        Row("leaf", counts["leaf"], ports, under=every, under_last=every,
            named=f"rail {{index}}: {numbers}")
    )  # fmt: skip
    return rails, rows


def _groups(one: Sized) -> tuple[int, list[Row]]:
    shape = one.shape
    routers = min(shape["group"], one.switches["router"])
    ports = f"{shape['down']} + {shape['group'] - 1} + {shape['up']} ports"
    under, last = _held(one, shape["pods"], shape["pod_nodes"])
    rest = one.switches["router"] - (shape["pods"] - 1) * routers
    named = "group {index}: {count} router"
    return shape["pods"], [Row("router", routers, ports, 5, False, under, last, named, rest)]


def _leaf(one: Sized, count: int, columns: int, nodes: int, named: str) -> Row:
    """The `count` leaves of each of `columns` columns, each of which holds up to `nodes`."""
    rails = one.shape["rails"] > 1
    under, last = _held(one, columns, nodes)
    return Row("leaf", count, _down_and_up(one), 8 if rails else 6, rails, under, last, named)


def _down_and_up(one: Sized) -> str:
    up = one.shape["up"]
    return f"{one.shape['down']} down, {up} up" if up else "all ports down"


def _held(one: Sized, columns: int, nodes: int) -> tuple[str, str]:
    """Nodes and GPUs of a full column, and of the last one."""
    full = max(1, min(nodes, one.nodes))
    rest = max(1, one.nodes - (columns - 1) * full)
    words = []
    for count in (full, min(rest, full)):
        gpus = min(count * one.wiring.gpus_per_node, one.gpus)
        words.append(f"{count:,} node{'s' * (count != 1)}, {gpus:,} GPUs")
    return words[0], words[1]
