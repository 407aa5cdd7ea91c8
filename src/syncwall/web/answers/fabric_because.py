"""Why a step is as it is when parts of its fabric are broken.

Holds `because`, `farthest`, `part` (a part as people call it) and `LEAST`.
"""

from typing import Final

from syncwall.describe import Run
from syncwall.plan.fabric.broken import Broken, Part, left
from syncwall.plan.fabric.pace import DISTANCES, Distance, Timed, needs
from syncwall.plan.fabric.wired import Wired

LEAST: Final = 1e-3
"""A step that is longer by less than this share is called the same."""


def because(run: Run, broken: Broken, healthy: Timed, now: Timed | None) -> str:
    """Why the step is as it is with what is broken."""
    wired, rates = broken.wired, left(broken)
    down = [one.number + 1 for one in sorted(broken.parts) if one.kind == "node"]
    if down:
        names = ", ".join(map(str, down))
        return f"node{'s' * (len(down) > 1)} {names} down: a synchronous job needs every node"
    distance = farthest(run, wired)
    if distance == "scale-up":
        return "all traffic stays inside the scale-up domain: no NIC is needed"
    far = distance in ("spine", "core") and bool(wired.up)
    node = rates.far_node if far else rates.near_node
    node = rates.core_node if far and distance == "core" else node
    reasons = _lacks(broken, node, distance)
    if now is None:
        return "; ".join(reasons) or f"node {node + 1} is cut off"
    if not reasons:
        return _no_matter(broken, distance)
    if now.step_s / healthy.step_s - 1.0 < LEAST:
        return f"{'; '.join(reasons)}: the longer transfers hide behind computation"
    return f"{'; '.join(reasons)}, and every group waits for the slowest"


def _lacks(broken: Broken, node: int, distance: Distance) -> list[str]:
    """What the slowest node does not have any more."""
    wired, found = broken.wired, []
    working = [nic for nic in range(wired.nics) if broken.works(node, nic)]
    if len(working) < wired.nics:
        has = (
            f"has {len(working)} of {wired.nics} NICs" if working else "is cut off: no NIC is left"
        )
        found.append(f"{_whose(broken, node)} {has}")
    if distance in ("spine", "core") and wired.up:
        ways = [(broken.up(leaf), leaf) for leaf in wired.leaves_of([node], working)]
        up, leaf = min(ways, default=(wired.up, 0))
        if up < wired.up and up < wired.ends(leaf):
            above = wired.spines_of(leaf)
            gone = [
                p.number + 1
                for p in sorted(broken.parts)
                if p.kind == "spine" and p.number in above
            ]
            below = f"every leaf below spine {' and '.join(map(str, gone))}"
            whose = below if gone else part(Part("leaf", leaf), wired)
            found.append(f"{whose} has {up} of {wired.up} cables up")
    if distance == "core" and any(one.kind == "core" for one in broken.parts):
        cores = sum(one.kind == "core" for one in broken.parts)
        found.append(f"{cores} of {wired.cores:,} cores down")
    return found


def _whose(broken: Broken, node: int) -> str:
    """The node, or all nodes of the broken leaf that make it slow."""
    own = any(one.kind == "nic" and one.number == node for one in broken.parts)
    near = [
        one for one in sorted(broken.parts)
        if one.kind == "leaf" and node in broken.wired.nodes_of(one.number)
    ]  # fmt: skip
    if own or not near:
        return f"node {node + 1}"
    return "each node of " + " and ".join(part(one, broken.wired) for one in near)


def _no_matter(broken: Broken, distance: Distance) -> str:
    """Why something broken changes nothing."""
    kinds = {one.kind for one in broken.parts}
    if distance == "leaf" and kinds <= {"spine", "link", "core"}:
        return "no traffic of this run passes the spines"
    if distance == "spine" and kinds <= {"core"}:
        return "no traffic of this run passes the cores"
    return "the cables that are left carry as much as the nodes below send"


def farthest(run: Run, wired: Wired) -> Distance:
    """The farthest distance that any group of a run goes."""
    return max(needs(run, wired).values(), key=DISTANCES.index)


def part(one: Part, wired: Wired) -> str:
    """A part as people call it."""
    if one.kind == "nic":
        return f"NIC {one.second + 1} of node {one.number + 1}"
    if one.kind == "link":
        return f"a cable between leaf {one.number + 1} and spine {one.second + 1}"
    if one.kind == "leaf":
        rail = wired.rail_of(one.number)
        name = "router" if wired.is_dragonfly else "leaf"
        return f"{name} {one.number + 1}" + (f" (rail {rail + 1})" if rail is not None else "")
    return f"{one.kind} {one.number + 1}"
