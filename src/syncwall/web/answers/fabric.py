"""The numbers of the Fabric page: what `plan fabric` and its `--degraded` answer, beside a drawing.

Holds `fabric` (the sized fabric, its traffic, and the step in order and with dead parts),
`variants` (other ratios, and one dead part of each kind) and `switches`; `sized_kinds`, the fabric
that is asked for, and `draws_of`, how often a page draws the hashes.
"""

from collections.abc import Callable, Mapping
from functools import cache
from typing import Any, Final

from syncwall import catalogue, units
from syncwall.answer.contention import Contention
from syncwall.answer.pricing import Timed
from syncwall.cause import LEAST_SHARE
from syncwall.cost.contended_network import DRAWS, MOST_PAIRS
from syncwall.describe import Run, lookup
from syncwall.describe.device import Switch
from syncwall.describe.names import only_catalogue
from syncwall.network.graph import CutOffError, Links, without
from syncwall.network.routing import Ends, flows_of_pair
from syncwall.plan.choices import FabricKind
from syncwall.plan.fabric.degraded_step import MOST_NODES, FabricSteps
from syncwall.plan.fabric.options import kept, options, proposed, ratios_of, refusal
from syncwall.plan.fabric.question import Wiring, wiring_of
from syncwall.plan.fabric.sized import Sized
from syncwall.plan.fabric.sized_links import links_of_sized
from syncwall.plan.fabric.traffic import AxisTraffic, LinkLoad, axis_traffic, link_loads
from syncwall.problems import InputError
from syncwall.records import plain
from syncwall.show.blocks import Cell, Table, ledger, sentence
from syncwall.show.contention import contention_words
from syncwall.show.fabric import LEAST, NOT_MODELLED, PLURALS, failure_words, longer
from syncwall.show.numbers import duration, percent, rate, signed_percent
from syncwall.show.write.parts import Markup, items, markup, quiet, swatch, table, tag, tile
from syncwall.units import Dimension
from syncwall.web.answers.fabric_graph import graph
from syncwall.web.answers.prediction import prediction_of
from syncwall.web.questions import AskedFabric, AskedWiring
from syncwall.work.block import groups

RATIOS: Final = (1.0, 1.5, 2.0, 3.0, 4.0, 6.0, 8.0, 12.0, 16.0)
"""Oversubscriptions for which the step is shown; every second one of large fabrics."""
ROUTED: Final = 500_000
"""Flows that are routed in about half a second; where all draws have more, there are fewer."""
MOST_ROUTED: Final = 3 * ROUTED
"""Of one draw."""
LINKS: Final = {
    "scale-up": "scale-up links",
    "nic": "NICs",
    "leaf-spine": "leaf–spine links",
    "spine-core": "spine–core links",
    "local": "links inside a group",
    "global": "global links",
}
_HEADS: Final = {
    "scale-up": "scale-up busy",
    "nic": "NICs busy",
    "leaf-spine": "leaf–spine busy",
    "spine-core": "spine–core busy",
    "local": "group links busy",
    "global": "global links busy",
}
AXES: Final = {
    "tp": "tensor",
    "cp": "context",
    "ep": "experts",
    "dp": "data (gradients, sharded weights)",
    "pp": "pipeline",
}
_LARGE: Final = 256
"""Nodes from which fewer variants are priced."""
_USUAL_RADIX: Final = 64
_DEAR: Final = 0.02
"""A share of the step that is worth naming."""


def fabric(asked: AskedFabric) -> dict[str, Any]:
    """Switches and cables, the traffic of each axis, and the step beside the healthy one."""
    prediction = prediction_of(asked.run)
    run, ratio = prediction.run, asked.oversubscription
    ratios = ratios_of(run.cluster)
    kind, kinds, made = sized_kinds(run, asked, ratios)
    one = made(ratio or ratios[0])
    links = links_of_sized(one)
    steps = _steps(asked, links)
    hurt = _without(links, asked.failed)
    healthy = steps.in_order(one)
    now, why = _broken(steps, one, asked.failed, links, healthy)
    shown = (now or healthy)[0]
    axes = axis_traffic(run, one, shown)
    used = link_loads(run, one, axes, float(shown.step_s))
    down, up = int(one.shape["down"]), 0 if kind == "dragonfly" else int(one.shape["up"])
    lines = [_axis(each, used, float(shown.step_s), one) for each in axes]
    least_s = LEAST_SHARE * float(shown.step_s)
    rests_on = _assumed(run, one, healthy[1])
    return {
        "verdict": _verdict(asked.failed, healthy[1], now[1] if now else None, why, used),
        "gpus": run.gpus,
        "nodes": run.nodes,
        "kind": kind,
        "kinds": kinds,
        "oversubscription": {
            "asked": ratio,
            "of_cluster": ratios[0],
            "up": up,
            "down": down,
            "ratio": down / up if up else None,
            "of_spines": ratios[1] if one.switches.get("core") else None,
            "matters": bool(up),
        },
        "counts": plain(one),
        "graph": graph(one, links, hurt, asked.failed, used)
        | {
            "axes": [each.axis for each in axes],
            "most_bytes": one.wiring.nic_bytes_per_s * float(shown.step_s),
        },
        "axes": lines,
        "links": [_link(load, run) for load in used],
        "predicted_s": prediction.step_s,
        "healthy": _step(healthy[0]),
        "now": _step(now[0]) if now else None,
        "goes_on": now is not None,
        "failed": [{"part": name, "name": _called(name)} for name in asked.failed],
        "assumed": rests_on,
        "command": _command(asked, one),
        "html": {
            "tiles": _tiles(asked.failed, one, healthy[0], now[0] if now else None, used)
            if asked.failed
            else _tiles([], one, healthy[0], shown, used, f"Predict says {duration(prediction.step_s)}"),
            "axes": _axes_table(lines, used),
            "change": markup(ledger("where the time goes", shown.ledger, least=least_s)),
            "assumed": items(rests_on),
        },
    }


def variants(asked: AskedWiring) -> dict[str, Any]:
    """The step with other oversubscriptions, and with one part of each kind broken."""
    prediction = prediction_of(asked.run)
    run, ratios = prediction.run, ratios_of(prediction.run.cluster)
    kind, _, made = sized_kinds(run, asked, ratios)
    ratio = asked.oversubscription or ratios[0]
    one = made(ratio)
    links = links_of_sized(one)
    steps = _steps(asked, links)
    healthy = steps.in_order(one)
    tried = RATIOS if run.nodes <= _LARGE else RATIOS[::2]
    flat = kind == "dragonfly" or not one.shape["up"]
    sweep = [(o, healthy[1].p50_s if flat else steps.in_order(made(o))[1].p50_s) for o in tried]
    alone = []
    for name in _one_of_each(links) if one.nodes <= MOST_NODES else []:
        step, why = _broken(steps, one, [name], links, healthy)
        alone.append(
            {
                "part": name,
                "kind": name.partition(":")[0],
                "name": _called(name),
                "why": why,
                "step_s": step[1].p50_s if step else None,
                "slower": step[1].p50_s / healthy[1].p50_s - 1.0 if step else None,
            }
        )
    return {
        "sweep": [{"oversubscription": o, "step_s": step_s} for o, step_s in sweep],
        "narrower": "" if flat else _narrower(ratio, healthy[1].p50_s, sweep),
        "if_one_fails": alone,
        "html": _each(alone),
    }


def _tiles(
    failed: list[str],
    one: Sized,
    healthy: Timed,
    now: Timed | None,
    used: list[LinkLoad],
    beside: str = "",
) -> Markup:
    """The step, and what the fabric is built of."""
    before_s = float(healthy.step_s)
    if failed and now is None:
        beside = f"was {duration(before_s)}"
    elif failed and now is not None:
        more = float(now.step_s) / before_s - 1.0
        beside = "as before" if more < LEAST else f"+{percent(more, 1)}"
        beside += f"; healthy {duration(before_s)}"
    busiest = max(used, key=lambda load: load.total)
    far = f"{rate(one.bisection_bytes_per_s)} one way, {one.hops:.3g} switches far"
    busy = percent(busiest.total, 1 if busiest.total < 0.1 else 0)
    step_s = None if now is None else float(now.step_s)
    return markup(
        tile("step", "Step", "stops" if step_s is None else duration(step_s), beside, step_s),
        _several("switches", one.switches, one.total_switches),
        _several("cables", one.cables, one.total_cables),
        tile("bisection", "Bisection", percent(one.bisection_share), far, one.bisection_share),
        tile("busiest", "Busiest links", busy, LINKS[busiest.link], busiest.total),
    )


def _several(key: str, parts: Mapping[str, float], total: float) -> Markup:
    said = (
        f"{count:,} {name}" if "-" in name or count == 1 else f"{count:,} {PLURALS.get(name, f'{name}s')}"
        for name, count in parts.items()
        if count
    )
    return tile(key, key.capitalize(), f"{total:,}", ", ".join(said), total)


def _axes_table(lines: list[dict[str, Any]], used: list[LinkLoad]) -> Markup:
    """What each axis sends, and how busy links are with it."""
    if not lines:
        return quiet("Nothing is sent: one GPU works alone.")

    def busy(share: float, **data: str) -> Cell:
        return Cell(percent(share, 1) if share else "–", data={**data, "value": share})

    def size(count: float, kind: str) -> Cell:
        text = units.format(count, Dimension.BYTES, digits=3) if count else "–"
        return Cell(text, data={"bytes": kind, "value": count})

    rows: list[tuple[str, ...]] = []
    for one in lines:
        patch = swatch(f"axis-{one['axis']}"), f"{one['axis']} {one['ranks']:,}"
        name = markup(patch, tag("span", f" {one['name']}", class_="quiet"))
        rows.append(
            (
                Cell(name, "nowrap", row={"axis": one["axis"]}),
                one["where"],
                size(one["scale_up_bytes"], "scale-up"),
                size(one["nic_bytes"], "nic"),
                *(busy(one["utilisation"][load.link], link=load.link) for load in used),
                duration(one["busy_s"]),
                Cell(duration(one["exposed_s"]), data={"value": one["exposed_s"]}),
            )
        )
    totals = (busy(load.total, total=load.link) for load in used)
    rows.append(("together", "", "", "", *totals, "", ""))
    heads = (_HEADS[load.link] for load in used)
    head = ("axis", "where it runs", "inside", "by NICs", *heads, "takes", "exposed")
    return table(Table(head, tuple(rows), words=2, strong=frozenset({len(lines)})))


def _each(alone: list[dict[str, Any]]) -> Markup:
    """What one broken part of each kind does."""
    if not alone:
        return quiet("Parts of so large a fabric are not broken one by one here.")
    rows = []
    for one in alone:
        part = tag("button", one["name"], type="button", class_="link", data={"part": one["part"]})
        row = {"kind": one["kind"], "value": one["step_s"] or ""}
        slower = one["slower"]
        said = Cell("stops", "worse") if slower is None else Cell("same")
        if slower is not None and slower >= LEAST:
            said = Cell(f"+{percent(slower, 1 if slower < 0.1 else 0)}", "worse")
        rows.append((Cell(part, row=row), said, Cell(one["why"], "quiet")))
    return table(Table(("part", "step", "because"), tuple(rows), ends_in_words=1))


@cache
def switches() -> dict[str, Any]:
    """Names, ports and rates of switches."""
    named = [lookup.switch(name) for name in catalogue.names(catalogue.CatalogueKind.SWITCH)]
    return {
        "switches": [
            {
                "name": one.name,
                "title": one.title,
                "ports": one.ports,
                "rate_bytes_per_s": float(one.rate_bytes_per_s),
            }
            for one in named
        ]
    }


def sized_kinds(
    run: Run, asked: AskedWiring, ratios: tuple[float, float], copies: int = 1
) -> tuple[FabricKind, list[dict[str, Any]], Callable[[float], Sized]]:
    """What to draw, every kind that there could be, and the fabric of each oversubscription.

    All for so many `copies` of the run.
    """
    wiring, gpus = _wiring(run, asked.switch), copies * run.gpus
    found = options(wiring, gpus)
    kind = asked.kind or _likely(run, found)
    if kind is None:
        most = max(one.most_gpus for one in found.values())
        said = f"no fabric of these switches connects {gpus:,} GPUs (at most {most:,})"
        raise InputError.of(f"{said}: take a switch with more ports", file="fabric.switch")
    if not found[kind].possible:
        raise InputError.of(f"{kind}: {refusal(found[kind])}", file="fabric.kind")
    kinds = [
        {"kind": name, "possible": bool(one.possible), "why_not": str(refusal(one) or "")}
        for name, one in found.items()
    ]

    def made(ratio: float) -> Sized:
        """With this ratio of leaves, and the cluster's of spines; without cores a leaf has both."""
        one = kept(kind, wiring, gpus, (ratio, ratios[1]))
        both = (ratio * ratios[1], 1.0)
        return one if one.switches.get("core") else kept(kind, wiring, gpus, both)

    return kind, kinds, made


def _wiring(run: Run, name: str | None) -> Wiring:
    radix, nics = _USUAL_RADIX, run.cluster.node.nics
    if nics is None:
        said = f"{run.cluster.name} has no NICs that a fabric could connect"
        raise InputError.of(said, file="cluster")
    if name is not None:
        radix = _switch(name).ports_at(float(nics.rate_bytes_per_s))
        if radix < 4:
            said = f"the ports of {name} are slower than the NICs of {run.cluster.name}"
            raise InputError.of(said, file="fabric.switch")
    return wiring_of(run.cluster, (radix,) * 3)


def _switch(name: str) -> Switch:
    try:
        with only_catalogue():
            return lookup.switch(name)
    except InputError as error:
        raise InputError.of(str(error), file="fabric.switch") from None


def _likely(run: Run, found: dict[FabricKind, Sized]) -> FabricKind | None:
    """What the cluster says that it has, or else what is proposed."""
    fabric = run.cluster.fabric
    said_tree = fabric.rails == 1 and len(fabric.tiers) > 1
    trees: tuple[FabricKind, ...] = ("fat-tree-2", "fat-tree-3")
    usual = trees if said_tree else ("rail-optimised",)
    best = proposed(found)
    return next((kind for kind in usual if found[kind].possible), best.kind if best else None)


def draws_of(run: Run, links: Links, asked: AskedWiring) -> int:
    """Draws of the hashes that a page has the time for; 0 if not even for one."""
    found: dict[tuple[int, int], int] = {}  # rings, two trees both ways, all-to-alls, transfers
    for axis, group in groups(run.layout).items():
        ranks, stride = int(group.ranks), max(1, int(group.stride))
        is_there = run.model.moe is not None or not axis.startswith("expert")
        if is_there and ranks > 1 and ranks * stride > run.cluster.domain_gpus:
            per_gpu = 1 if axis == "pp" else 5
            if axis in ("ep", "cp") and ranks * run.cluster.gpus <= MOST_PAIRS:
                per_gpu += ranks
            found[ranks, stride] = max(per_gpu, found.get((ranks, stride), 0))
    each = flows_of_pair(links, asked.routing, Ends.of(run.cluster), asked.qps)
    return draws_for(sum(found.values()) * int(run.cluster.gpus) * each)


def draws_for(routed: int) -> int:
    """Draws that are made in about a second; InputError if not even one is."""
    if routed > MOST_ROUTED:
        said = f"a draw of this run routes {routed:,} flows, a page at most {MOST_ROUTED:,}"
        raise InputError.of(f"{said}: ask `syncwall predict --fabric`", file="fabric.qps")
    return min(DRAWS, max(1, ROUTED // max(routed, 1)))


def _steps(asked: AskedWiring, links: Links) -> FabricSteps:
    prediction = prediction_of(asked.run)
    large = prediction.run.nodes > MOST_NODES  # priced by tiers: nothing is drawn
    draws = DRAWS if large else draws_of(prediction.run, links, asked)
    return FabricSteps(prediction, asked.routing, asked.qps, draws)


def _without(links: Links, failed: list[str]) -> Links:
    if failed and len(links.nodes) > MOST_NODES:
        said = f"a page breaks parts of at most {MOST_NODES:,} nodes"
        raise InputError.of(f"{said}: ask `syncwall plan fabric --degraded`", file="failed")
    try:
        return without(links, failed) if failed else links
    except InputError as error:
        raise InputError.of(str(error), file="failed") from None


def _broken(
    steps: FabricSteps,
    one: Sized,
    failed: list[str],
    links: Links,
    healthy: tuple[Timed, Contention],
) -> tuple[tuple[Timed, Contention] | None, str]:
    """The step with dead parts, None if the job stops, and why it is so."""
    if not failed:
        return healthy, ""
    try:
        now = steps.on(one, dict.fromkeys(failed, 0.0))
    except CutOffError as error:
        return None, str(error)
    return now, failure_words(links, without(links, failed), healthy[1], now[1])


def _one_of_each(links: Links) -> list[str]:
    above = {f"{tier}:1" for tier in ("spine", "core")} & {*links.switches}
    cables = ["link:1-1"] if above else []
    return ["nic:1-1", *cables, "leaf:1", *sorted(above, reverse=True), "node:1"]


def _verdict(
    failed: list[str], healthy: Contention, now: Contention | None, why: str, used: list[LinkLoad]
) -> dict[str, str]:
    """One sentence, why, and whether that is good, a warning or bad."""
    before_s = healthy.p50_s
    if not failed:
        busy = [
            f"{LINKS[load.link]} {percent(load.total, 1 if load.total < 0.1 else 0)}"
            for load in used
            if load.total > 0
        ]
        said = ", ".join(busy).replace("%", "% busy", 1) or "nothing is sent, one GPU works alone"
        lines = contention_words(healthy) if healthy.needed else ("no shared link slows this run",)
        shared = " ".join(sentence(line) for line in lines)
        if before_s / healthy.free_s - 1.0 < _DEAR:
            return {"tone": "good", "said": f"Step {duration(before_s)}: {said}", "why": shared}
        slower = f"{longer(healthy.free_s, before_s)} on links that flows share"
        return {"tone": "warn", "said": slower, "why": f"{sentence(said)} {shared}"}
    if now is None:
        return {"tone": "bad", "said": "The job stops", "why": sentence(why)}
    if now.p50_s < before_s * (1.0 + LEAST):
        said = f"The step stays at {duration(before_s)}"
        return {"tone": "good", "said": said, "why": sentence(why)}
    return {"tone": "warn", "said": longer(before_s, now.p50_s), "why": sentence(why)}


_ALONE: Final = "if no other job is there"


def _narrower(ratio: float, step_s: float, sweep: list[tuple[float, float]]) -> str:
    """What fewer cables up would cost."""
    costs = [(o, other_s / step_s - 1.0) for o, other_s in sweep if o > ratio * 1.01]
    if not costs:
        return ""
    dear = next((one for one in costs if one[1] > _DEAR), None)
    if dear is None:
        return f"Even oversubscription {costs[-1][0]:g} would cost less than {percent(_DEAR)}, {_ALONE}."
    cheap = [one for one in costs if one[0] < dear[0]][-1:]
    said = []
    for o, more in [*cheap, dear]:
        share = f"{duration(more * step_s)} ({signed_percent(more, int(more < 0.1))})"
        said.append(f"{o:g} would cost {share if more > LEAST else 'nothing'} a step")
    return f"Oversubscription {', '.join(said)}, {_ALONE}."


def _called(name: str) -> str:
    """A part as people call it."""
    kind, _, rest = name.removeprefix("switch:").partition(":")
    if kind == "nic":
        node, _, number = rest.rpartition("-")
        return f"NIC {number} of node {node}"
    if kind == "link":
        return f"a cable between leaf {rest.replace('-', ' and spine ')}"
    return f"{kind} {rest}"


def _axis(one: AxisTraffic, used: list[LinkLoad], step_s: float, fabric: Sized) -> dict[str, Any]:
    """One line of the table of axes."""
    dragonfly, rails = fabric.kind == "dragonfly", fabric.kind.startswith("rail")
    where = {
        "scale-up": "inside the scale-up domain",
        "leaf": "within its rail, one leaf" if rails else f"within one {'router' if dragonfly else 'leaf'}",
        "spine": "inside a group of routers" if dragonfly else "through the spines",
        "core": "between groups" if dragonfly else "through the cores",
    }[one.distance]
    if one.distance != "scale-up" and one.scale_up_bytes > 0:
        where += ", and inside the scale-up domain"
    return {
        "axis": one.axis,
        "name": AXES[one.axis],
        "ranks": one.ranks,
        "distance": one.distance,
        "where": where,
        "nic_bytes": one.nic_bytes,
        "scale_up_bytes": one.scale_up_bytes,
        "spine_bytes": one.beyond("spine"),
        "busy_s": one.busy_s,
        "exposed_s": one.exposed_s,
        "busy_share": one.busy_s / step_s,
        "utilisation": {load.link: load.utilisation.get(one.axis, 0.0) for load in used},
    }


def _link(load: LinkLoad, run: Run) -> dict[str, Any]:
    cluster = run.cluster
    nominal = cluster.scale_up if load.link == "scale-up" else cluster.node.nics
    return {
        "link": load.link,
        "name": LINKS[load.link],
        "rate_bytes_per_s": load.rate_bytes_per_s,
        "bytes": load.by_axis,
        "utilisation": load.utilisation,
        "total": load.total,
        "nominal": float(nominal.rate_bytes_per_s) if nominal else 0.0,
    }


def _step(step: Timed) -> dict[str, Any]:
    ledger = {cause: float(seconds) for cause, seconds in step.ledger.without_zeros().items()}
    return {"step_s": float(step.step_s), "ledger_s": ledger}


def _assumed(run: Run, one: Sized, healthy: Contention) -> list[str]:
    """What the numbers rest on."""
    by = f"{healthy.routing} routing, as `plan fabric` and `predict --fabric` price it"
    if one.nodes > MOST_NODES:
        by = f"by its tiers: flows of more than {MOST_NODES:,} nodes are not followed"
    found = [
        f"The step is that of the fabric as drawn, {by}.",
        "Fewer cables up leave every node on its leaf; the free ports stay empty.",
        "A synchronous step is as slow as its slowest path.",
        "What a dead NIC would carry goes over the others of its node, evenly: GPUs reach them "
        "inside the node. Flows find other ways around dead cables and switches. How a job "
        "survives the failure itself (timeouts, restarts) is not in the step.",
        "Traffic of axes is counted as rings in the order of the nodes.",
        f"Not modelled: {NOT_MODELLED}. Nodes of a group are taken to be neighbours.",
    ]
    if run.cluster.fabric.in_network_reduction:
        found.append("Switches that add on the way send less than is shown.")
    return found


def _command(asked: AskedFabric, one: Sized) -> str:
    """What gives the same counts in a terminal."""
    name, wiring = asked.run.cluster, one.wiring
    said = ["syncwall plan fabric", f"--gpus {int(one.gpus)}"]
    said += [f"--cluster {name}"] if isinstance(name, str) else []
    said += [f"--kind {one.kind}", "--radix " + ",".join(map(str, wiring.radix))]
    ratios = [f"{ratio:.6g}" for ratio in wiring.oversubscription]
    return " ".join([*said, "--oversubscription " + ",".join(ratios)])
