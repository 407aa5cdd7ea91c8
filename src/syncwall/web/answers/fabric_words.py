"""What the Fabric page says.

Holds `Steps`, `verdict`, `axis`, `assumed`, `command`, `rate_of` and `LINKS`; and why a step is
as it is when parts of its fabric are broken: `because`, `farthest`, `part` (its name), `LEAST`.
"""

from dataclasses import dataclass
from typing import Any, Final

from syncwall.answer.pricing import Timed
from syncwall.describe import Run
from syncwall.plan.fabric.broken import Broken, FabricPart, left
from syncwall.plan.fabric.pace import DISTANCES, FabricDistance, needs
from syncwall.plan.fabric.sized import Sized
from syncwall.plan.fabric.traffic import LinkLoad, Sent
from syncwall.plan.fabric.wired import Wired
from syncwall.show.blocks import sentence
from syncwall.show.numbers import duration, percent, signed_percent
from syncwall.show.words.fabric import NOT_MODELLED, step_time
from syncwall.web.asked import AskedRun

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


def _lacks(broken: Broken, node: int, distance: FabricDistance) -> list[str]:
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
            whose = below if gone else part(FabricPart("leaf", leaf), wired)
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


def _no_matter(broken: Broken, distance: FabricDistance) -> str:
    """Why something broken changes nothing."""
    kinds = {one.kind for one in broken.parts}
    if distance == "leaf" and kinds <= {"spine", "link", "core"}:
        return "no traffic of this run passes the spines"
    if distance == "spine" and kinds <= {"core"}:
        return "no traffic of this run passes the cores"
    return "the cables that are left carry as much as the nodes below send"


def farthest(run: Run, wired: Wired) -> FabricDistance:
    """The farthest distance that any group of a run goes."""
    return max(needs(run, wired).values(), key=DISTANCES.index)


def part(one: FabricPart, wired: Wired) -> str:
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


LINKS: Final = {
    "scale-up": "scale-up links", "nic": "NICs", "leaf-spine": "leaf–spine links",
    "spine-core": "spine–core links", "local": "links inside a group", "global": "global links",
}  # fmt: skip
AXES: Final = {
    "tp": "tensor", "cp": "context", "ep": "experts", "dp": "data (gradients, sharded weights)",
    "pp": "pipeline",
}  # fmt: skip
_DEAR: Final = 0.02
"""A share of the step that is worth naming."""


@dataclass(frozen=True)
class Steps:
    """The steps that are compared."""

    predicted_s: float
    """On the cluster's own fabric."""
    drawn_s: float
    """On the fabric as drawn, nothing broken."""
    healthy: Timed
    """The one of these two that counts."""
    now: Timed | None
    """With what is broken; None if the job stops."""


def verdict(
    run: Run, broken: Broken, steps: Steps, links: list[LinkLoad], sweep: list[tuple[float, float]]
) -> dict[str, str]:
    """One sentence, why, and whether that is good, a warning or bad."""
    healthy, now = steps.healthy, steps.now
    if not broken.parts:
        busy, more = _busy(links), _narrower(run, broken, steps.drawn_s, sweep)
        slower = healthy.step_s / steps.predicted_s - 1.0
        if slower < _DEAR:
            return {"tone": "good", "said": f"Step {duration(healthy.step_s)}: {busy}", "why": more}
        said = f"{_longer(steps.predicted_s, healthy.step_s)} with this oversubscription"
        return {"tone": "warn", "said": said, "why": f"{sentence(busy)} {more}"}
    why = sentence(because(run, broken, healthy, now))
    if now is None:
        return {"tone": "bad", "said": "The job stops", "why": why}
    slower = now.step_s / healthy.step_s - 1.0
    if slower < LEAST:
        said = f"The step stays at {duration(healthy.step_s)}"
        return {"tone": "good", "said": said, "why": why}
    return {"tone": "warn", "said": _longer(healthy.step_s, now.step_s), "why": why}


def _longer(before_s: float, after_s: float) -> str:
    slower = after_s / before_s - 1.0
    text = duration if slower > _DEAR else step_time
    return f"Step {text(before_s)} → {text(after_s)} ({_more_share(slower)})"


def _busy(links: list[LinkLoad]) -> str:
    used = [load for load in links if load.total > 0]
    if not used:
        return "nothing is sent, one GPU works alone"
    said = [
        f"{LINKS[load.link]} {percent(load.total, 1 if load.total < 0.1 else 0)}" for load in used
    ]
    said[0] += " busy"
    return ", ".join(said)


def _narrower(run: Run, broken: Broken, drawn_s: float, sweep: list[tuple[float, float]]) -> str:
    """What fewer cables up would cost."""
    wired = broken.wired
    if not wired.up:
        what = "a dragonfly is balanced as it is" if wired.is_dragonfly else "one tier of switches"
        return f"There are no cables up to save: {what}."
    if farthest(run, wired) in ("scale-up", "leaf"):
        return "No traffic of this run passes the spines: every group stays below its leaves."
    ratio = wired.one.wiring.oversubscription[0]
    costs = [(o, step_s - drawn_s) for o, step_s in sweep if o > ratio * 1.01]
    if not costs:
        return ""
    dear = next(((o, more) for o, more in costs if more > _DEAR * drawn_s), None)
    if dear is None:
        return f"Even oversubscription {costs[-1][0]:g} would cost less than {percent(_DEAR)}."
    cheap = [(o, more) for o, more in costs if o < dear[0]][-1:]
    said = [f"{o:g} would cost {_more(seconds, drawn_s)} a step" for o, seconds in [*cheap, dear]]
    return f"Oversubscription {', '.join(said)}."


def _more(seconds: float, drawn_s: float) -> str:
    share = seconds / drawn_s
    return f"{duration(seconds)} ({_more_share(share)})" if share > LEAST else "nothing"


def axis(one: Sent, links: list[LinkLoad], step_s: float, wired: Wired) -> dict[str, Any]:
    """One line of the table of axes."""
    return {
        "axis": one.axis, "name": AXES[one.axis], "ranks": one.ranks, "distance": one.distance,
        "where": _where(one, wired),
        "nic_bytes": one.nic_bytes, "scale_up_bytes": one.scale_up_bytes,
        "spine_bytes": one.beyond("spine"), "busy_s": one.busy_s, "exposed_s": one.exposed_s,
        "busy_share": one.busy_s / step_s,
        "utilisation": {load.link: load.utilisation.get(one.axis, 0.0) for load in links},
    }  # fmt: skip


def _where(one: Sent, wired: Wired) -> str:
    rails = wired.one.kind.startswith("rail")
    router = "one router" if wired.is_dragonfly else "one leaf"
    names = {
        "scale-up": "inside the scale-up domain",
        "leaf": "within its rail, one leaf" if rails else f"within {router}",
        "spine": "inside a group of routers" if wired.is_dragonfly else "through the spines",
        "core": "between groups" if wired.is_dragonfly else "through the cores",
    }
    said = names[one.distance]
    inside = one.distance != "scale-up" and one.scale_up_bytes > 0
    return f"{said}, and inside the scale-up domain" if inside else said


def assumed(run: Run, wired: Wired, steps_s: tuple[float, float] | None) -> list[str]:
    """What the numbers rest on.

    `steps_s` are those on the cluster's own fabric and as drawn, if the first is what counts.
    """
    own = "The step is that of the cluster's own entry, so it equals the Predict page."
    drawn = "The step is that of the fabric as drawn."
    if steps_s and abs(steps_s[1] / steps_s[0] - 1.0) > LEAST:
        own += (
            f" On the fabric as drawn, which is wired in another way, it is {duration(steps_s[1])}."
        )
    found = [
        own if steps_s else drawn,
        "Fewer cables up leave every node on its leaf; the free ports stay empty.",
        "A synchronous step is as slow as its slowest path.",
        "A node without one of its NICs sends over the others, evenly: GPUs reach them inside the "
        "node. A lost cable or spine leaves the rest of that leaf's cables, evenly used. How a job "
        "survives the failure itself (timeouts, restarts) is not in the step.",
        "Collectives are counted as rings; a group that spans leaves sends all that leaves a node "
        "through the spines, as the step is priced. Rings in the order of the leaves send less.",
        f"Not modelled: {NOT_MODELLED}. Nodes of a group are taken to be neighbours.",
    ]
    if wired.is_dragonfly:
        found.append("Single links of a dragonfly cannot be broken here; its ratio is its balance.")
    if run.cluster.fabric.in_network_reduction:
        found.append("Switches that add on the way send less than is shown.")
    return found


def command(asked: AskedRun, one: Sized) -> str:
    """What gives the same counts in a terminal."""
    wiring = one.wiring
    name = asked.cluster
    said = ["syncwall plan fabric", f"--gpus {int(one.gpus)}"]
    said += [f"--cluster {name}"] if isinstance(name, str) else []
    said += [f"--kind {one.kind}", "--radix " + ",".join(map(str, wiring.radix))]
    ratios = [f"{ratio:.6g}" for ratio in wiring.oversubscription]
    return " ".join([*said, "--oversubscription " + ",".join(ratios)])


def rate_of(link: str, run: Run) -> float:
    """Bytes a second of one such link, as it is sold."""
    cluster = run.cluster
    if link == "scale-up":
        return float(cluster.scale_up.rate_bytes_per_s) if cluster.scale_up else 0.0
    return float(cluster.node.nics.rate_bytes_per_s) if cluster.node.nics else 0.0


def _more_share(share: float) -> str:
    return signed_percent(share, 0 if share >= 0.1 else 1)
