"""A topology of the lab as a picture: hosts, their workers and NICs, and the switches.

Holds `topology_drawing` and `topology_words`.
"""

from syncwall.lab.virtual_network import Topology, rate_text
from syncwall.show.draw.svg import Drawing
from syncwall.show.numbers import plural

_MOST_HOSTS, _MOST_WORKERS, _MOST_NICS = 6, 6, 4
_HOST_TOP, _HOST_HEIGHT = 4.0, 74.0
_SWITCH_TOP = 124.0
_SWITCH_HEIGHT = 22.0


def topology_drawing(topology: Topology, rates: str = "") -> Drawing:
    """The hosts above, the switches below; many hosts, workers or NICs are drawn as a few."""
    rates = rates or rate_text(topology.rate_bytes_per_s)
    drawing = Drawing(f"{topology.place}: {topology_words(topology)}", height=_HOST_TOP + _HOST_HEIGHT + 8)
    shown = _shown(topology.hosts, _MOST_HOSTS)
    wide = min(120.0, (drawing.width - 8) / len(shown))
    left = (drawing.width - wide * len(shown)) / 2
    nics: list[tuple[float, int, int]] = []
    for number, host in enumerate(shown):
        x = left + wide * number
        if host is None:
            drawing.text(x + wide / 2, 44, f"… {topology.hosts - len(shown) + 1} more", "", "middle")
        else:
            nics += [(at, nic, host) for at, nic in _host(drawing, topology, host, x + 4, wide - 8)]
    if topology.hosts > 1:
        _switches(drawing, topology, nics, rates)
    return drawing


def topology_words(topology: Topology) -> str:
    """What is drawn, in a few words."""
    hosts = f"{plural(topology.hosts, 'host')} with {plural(topology.workers, 'worker')}"
    return hosts if topology.hosts == 1 else f"{hosts} and {plural(topology.nics, 'NIC')} each"


def _shown(count: int, most: int) -> list[int | None]:
    """Numbers of those drawn; None stands for those left out."""
    if count <= most:
        return list(range(count))
    return [*range(most - 2), None, count - 1]


def _host(drawing: Drawing, topology: Topology, host: int, x: float, width: float) -> list[tuple[float, int]]:
    """One host; returns where its NICs are."""
    bottom = _HOST_TOP + _HOST_HEIGHT
    drawing.rect(x, _HOST_TOP, width, _HOST_HEIGHT - 8, "panel")
    drawing.text(x + 6, _HOST_TOP + 15, f"h{host}", "small strong")
    if topology.workers > _MOST_WORKERS:
        drawing.text(x + width / 2, 44, f"{topology.workers} workers", "small", "middle")
    else:
        for worker in range(topology.workers):
            at = x + width * (worker + 0.5) / topology.workers
            rank = host * topology.workers + worker
            serves = ", ".join(f"eth{nic}" for nic in topology.nics_of(worker))
            drawing.dot(
                at, 38, min(10.0, width / topology.workers / 2 - 1), "f0", f"rank {rank} uses {serves}"
            )
            drawing.text(at, 42, str(rank), "small inside", "middle")
    if topology.hosts == 1:
        return []
    found = []
    for place, nic in enumerate(_shown(topology.nics, _MOST_NICS)):
        if nic is None:
            continue
        at = x + width * (place + 0.5) / min(topology.nics, _MOST_NICS)
        drawing.rect(at - 15, bottom - 16, 30, 15, "f5", f"h{host} eth{nic}")
        drawing.text(at, bottom - 5, f"eth{nic}", "small inside", "middle")
        found.append((at, nic))
    return found


def _switches(drawing: Drawing, topology: Topology, nics: list[tuple[float, int, int]], rates: str) -> None:
    """Switches, a wire from each NIC to its own, and the rate of a wire."""
    boxes = [(rail, leaf) for leaf in range(topology.leaves) for rail in range(topology.rails)]
    boxes = boxes[:8]
    wide = (drawing.width - 8) / len(boxes)
    middles = {box: 4 + wide * (number + 0.5) for number, box in enumerate(boxes)}
    width = min(wide - 10, 150.0)
    for at, nic, host in nics:
        middle = middles.get((nic % topology.rails, topology.leaf_of(host)))
        if middle is not None:
            end = min(max(at, middle - width / 2 + 6), middle + width / 2 - 6)
            start = _HOST_TOP + _HOST_HEIGHT
            drawing.curve([(at, start), (at, start + 8), (end, _SWITCH_TOP - 8), (end, _SWITCH_TOP)], "wire")
    for (rail, leaf), middle in middles.items():
        name = _switch_name(topology, rail, leaf)
        drawing.rect(middle - width / 2, _SWITCH_TOP, width, _SWITCH_HEIGHT, "f2")
        drawing.text(middle, _SWITCH_TOP + 15, name, "small inside", "middle")
    below = _SWITCH_TOP + _SWITCH_HEIGHT + 16
    words = f"each link {rates}, each way"
    if topology.leaves > 1:
        words += f"; leaves hang on a spine, {topology.oversubscription:g} to 1 oversubscribed"
    drawing.text(drawing.width / 2, below, words, "", "middle")
    drawing.height = below + 8


def _switch_name(topology: Topology, rail: int, leaf: int) -> str:
    words = [f"rail {rail}"] if topology.rails > 1 else []
    words += [f"leaf {leaf}"] if topology.leaves > 1 else []
    return " ".join(words) or "switch"
