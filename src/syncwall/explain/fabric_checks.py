"""A fabric as discovered: slow cables, leaves with few uplinks, hosts that miss adapters.

Holds `check_fabric`.
"""

from collections import Counter
from collections.abc import Iterator

from syncwall.explain.finding import Finding, worst_first
from syncwall.read.fabric_graph import FabricGraph


def check_fabric(fabric: FabricGraph) -> tuple[Finding, ...]:
    """What is uneven in `fabric`, the worst first; what most parts have is taken as meant."""
    return worst_first((*_slow(fabric), *_uplinks(fabric), *_adapters(fabric)))


def _slow(fabric: FabricGraph) -> Iterator[Finding]:
    """Cables below the usual rate: a worn cable trains down to fewer lanes or a lower speed."""
    rates = Counter(c.rate_bytes_per_s for c in fabric.cables if c.rate_bytes_per_s)
    if not rates:
        return
    usual = rates.most_common(1)[0][0] or 0.0
    slow = [c for c in fabric.cables if c.rate_bytes_per_s and c.rate_bytes_per_s < usual]
    for cable in sorted(slow, key=lambda c: c.rate_bytes_per_s or 0.0)[:5]:
        names = [fabric.nodes[end].title or end for end in (cable.a, cable.b)]
        rate = (cable.rate_bytes_per_s or 0.0) * 8e-9
        yield Finding(
            "wrong",
            f"{names[0]} to {names[1]} runs at {cable.width} ({rate:.0f} Gb/s)",
            f"most cables run at {usual * 8e-9:.0f} Gb/s; calls through this one have its pace",
            "clean or replace the cable; read errors with ibqueryerrors",
            f"{fabric.source}:{cable.line}",
        )


def _uplinks(fabric: FabricGraph) -> Iterator[Finding]:
    """Leaves whose cables to hosts outnumber those upwards by more than most leaves'."""
    leaves = [name for name, tier in fabric.tiers.items() if tier == 1]
    counts = {name: fabric.down_and_up(name) for name in leaves}
    ups = Counter(up for _, up in counts.values() if up)
    if not ups:
        return
    usual = ups.most_common(1)[0][0]
    poor = [name for name, (down, up) in counts.items() if 0 < up < usual and down > up]
    for name in sorted(poor, key=lambda name: counts[name][1])[:5]:
        down, up = counts[name]
        node = fabric.nodes[name]
        yield Finding(
            "suspect",
            f"{node.title or name} has {up} cables upwards for {down} downwards; most leaves have "
            f"{usual}",
            f"when all its hosts send away at once each gets {up / down:.0%} of its rate",
            "look for cables that are down (ibnetdiscover again, or the switch's own list)",
            f"{fabric.source}:{node.line}",
        )


def _adapters(fabric: FabricGraph) -> Iterator[Finding]:
    """Hosts that show fewer adapters than most hosts do."""
    counts = Counter(node.host for node in fabric.adapters if node.host is not None)
    sizes = Counter(counts.values())
    if len(sizes) < 2:
        return
    usual = sizes.most_common(1)[0][0]
    fewer = sorted(str(host) for host, count in counts.items() if count < usual)
    nameless = sum(node.host is None for node in fabric.adapters)
    if fewer:
        yield Finding(
            "note" if nameless else "suspect",
            f"{len(fewer)} of {len(counts)} hosts show fewer than {usual} adapters: "
            f"{', '.join(fewer[:4])}",
            "a host with fewer adapters slows every job that it takes part in"
            + (f"; {nameless} adapters tell no host, so they may be theirs" if nameless else ""),
            "ibstat on these hosts: is a port down, or its description not set?",
            fabric.source,
        )
