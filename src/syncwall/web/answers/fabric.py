"""The numbers of the Fabric page.

Holds `fabric` (the sized fabric, its traffic, and the step when it is narrower or
broken) and `switches`; `sized_kinds`, the fabric that is asked for.
"""

from collections.abc import Callable
from functools import cache, partial
from typing import Any, Final

from syncwall import catalogue
from syncwall.answer.pricing import Timed
from syncwall.describe import Fabric, Run, lookup
from syncwall.describe.link import Switch
from syncwall.describe.names import only_catalogue
from syncwall.plan.choices import FabricKind
from syncwall.plan.fabric.broken import Broken, FabricPart, left, part_of
from syncwall.plan.fabric.effect import fabric_of
from syncwall.plan.fabric.options import options, proposed, refusal
from syncwall.plan.fabric.pace import FabricTimer, degraded, needs, ratios_of
from syncwall.plan.fabric.question import Wiring, wiring_of
from syncwall.plan.fabric.sized import Sized
from syncwall.plan.fabric.traffic import LinkLoad, loads, sent
from syncwall.plan.fabric.wired import Wired, kept
from syncwall.problems import InputError
from syncwall.records import plain
from syncwall.show.records.fabric import counts_record
from syncwall.web.answers import fabric_words as words
from syncwall.web.answers.fabric_graph import graph
from syncwall.web.answers.fabric_words import because
from syncwall.web.answers.fabric_words import part as called
from syncwall.web.answers.prediction import prediction_of
from syncwall.web.questions import AskedFabric, AskedWiring

RATIOS: Final = (1.0, 1.5, 2.0, 3.0, 4.0, 6.0, 8.0, 12.0, 16.0)
"""Oversubscriptions for which the step is shown at once."""
_USUAL_RADIX: Final = 64


def fabric(asked: AskedFabric) -> dict[str, Any]:
    """Switches and cables, the traffic of each axis, and the step beside the healthy one."""
    prediction = prediction_of(asked.run)
    run, ratio = prediction.run, asked.oversubscription
    ratios = ratios_of(run.cluster)
    kind, kinds, made = sized_kinds(run, asked, ratios)
    one = made(ratio or ratios[0])
    wired = Wired(one)
    broken = Broken(wired, frozenset(part_of(name, wired) for name in asked.failed))
    drawn = _priced(run, one)
    base = run.cluster.fabric if ratio is None else drawn
    clock = FabricTimer(prediction)
    healthy, drawn_s = clock.timed(base), clock.timed(drawn).step_s
    now = _broken_step(clock, base, broken)
    shown = now or healthy
    axes = sent(run, wired, shown)
    links = loads(run, wired, axes, shown.step_s)
    sweep = [(o, clock.timed(_priced(run, made(o))).step_s) for o in RATIOS]
    alone = partial(_alone, clock, base, healthy, wired)
    steps = words.Steps(prediction.step_s, drawn_s, healthy, now)
    return {
        "verdict": words.verdict(run, broken, steps, links, sweep),
        "gpus": run.gpus, "nodes": run.nodes, "kind": kind, "kinds": kinds,
        "oversubscription": _oversubscription(wired, ratio, ratios),
        "counts": _counts(one),
        "graph": graph(broken, axes, links, words.rate_of("nic", run) * shown.step_s),
        "axes": [words.axis(one_, links, shown.step_s, wired) for one_ in axes],
        "links": [_link(load, run) for load in links],
        "predicted_s": prediction.step_s,
        "healthy": _step(healthy),
        "now": _step(now) if now else None,
        "goes_on": now is not None,
        "change_s": _change(healthy, now) if now else {},
        "failed": [alone(part) for part in sorted(broken.parts)],
        "if_one_fails": [alone(part) for part in _one_of_each(wired)],
        "sweep": [{"oversubscription": o, "step_s": step_s} for o, step_s in sweep],
        "assumed": words.assumed(run, wired, None if ratio else (healthy.step_s, drawn_s)),
        "command": words.command(asked.run, one),
    }  # fmt: skip


@cache
def switches() -> dict[str, Any]:
    """Names, ports and rates of switches."""
    named = [lookup.switch(name) for name in catalogue.names(catalogue.CatalogueKind.SWITCH)]
    return {
        "switches": [
            {"name": one.name, "title": one.title, "ports": one.ports,
             "rate_bytes_per_s": float(one.rate_bytes_per_s)}
            for one in named
        ]
    }  # fmt: skip


def _wiring(run: Run, name: str | None) -> Wiring:
    radix = _USUAL_RADIX
    nics = run.cluster.node.nics
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


def sized_kinds(
    run: Run, asked: AskedWiring, ratios: tuple[float, float], copies: int = 1
) -> tuple[FabricKind, list[dict[str, Any]], Callable[[float], Sized]]:
    """What to draw, every kind that there could be, and the fabric of each oversubscription.

    All for so many `copies` of the run.
    """
    wiring, gpus = _wiring(run, asked.switch), copies * run.nodes * int(run.cluster.node.gpus)
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
    return kind, kinds, lambda ratio: _made(kind, wiring, gpus, (ratio, ratios[1]))


def _likely(run: Run, found: dict[FabricKind, Sized]) -> FabricKind | None:
    """What the cluster says that it has, or else what is proposed."""
    fabric = run.cluster.fabric
    said_tree = fabric.rails == 1 and len(fabric.tiers) > 1
    trees: tuple[FabricKind, ...] = ("fat-tree-2", "fat-tree-3")
    usual = trees if said_tree else ("rail-optimised",)
    best = proposed(found)
    return next((kind for kind in usual if found[kind].possible), best.kind if best else None)


def _made(kind: FabricKind, wiring: Wiring, gpus: int, ratios: tuple[float, float]) -> Sized:
    """The fabric with these ratios of leaf and spine; without cores the leaf has both."""
    one = kept(kind, wiring, gpus, ratios)
    return one if one.switches.get("core") else kept(kind, wiring, gpus, (ratios[0] * ratios[1], 1))


def _priced(run: Run, one: Sized) -> Fabric:
    """The sized fabric as the predictor sees it; what the cluster's switches can add stays."""
    own = run.cluster.fabric
    same = {"rails": own.rails, "in_network_reduction": own.in_network_reduction}
    return fabric_of(one).model_copy(update=same)


def _broken_step(clock: FabricTimer, base: Fabric, broken: Broken) -> Timed | None:
    """The step with what is broken; None if the job stops."""
    if any(part.kind == "node" for part in broken.parts):
        return None
    rates = left(broken)
    share = {"scale-up": 1.0, "leaf": rates.near, "spine": rates.far, "core": rates.core}
    if broken.wired.is_dragonfly:
        share |= {"spine": rates.near, "core": rates.near}
    if any(share[distance] <= 0 for distance in needs(clock.prediction.run, broken.wired).values()):
        return None
    return clock.timed(degraded(base, broken) if broken.parts else base)


def _alone(
    clock: FabricTimer, base: Fabric, healthy: Timed, wired: Wired, part: FabricPart
) -> dict[str, Any]:
    """One part broken, and nothing else."""
    broken = Broken(wired, frozenset({part}))
    step = _broken_step(clock, base, broken)
    return {
        "part": part.name, "kind": part.kind, "name": called(part, wired),
        "step_s": step.step_s if step else None,
        "slower": step.step_s / healthy.step_s - 1.0 if step else None,
        "why": because(clock.prediction.run, broken, healthy, step),
    }  # fmt: skip


def _one_of_each(wired: Wired) -> list[FabricPart]:
    parts = [FabricPart("nic", 0, 0)]
    if wired.spines:
        parts.append(FabricPart("link", 0, wired.spines_of(0)[0]))
    parts.append(FabricPart("leaf", 0))
    parts += [FabricPart("spine", 0)] if wired.spines else []
    parts += [FabricPart("core", 0)] if wired.cores else []
    return [*parts, FabricPart("node", 0)]


def _oversubscription(
    wired: Wired, asked: float | None, ratios: tuple[float, float]
) -> dict[str, Any]:
    down = int(wired.one.shape["down"])
    return {
        "asked": asked, "of_cluster": ratios[0], "up": wired.up, "down": down,
        "ratio": down / wired.up if wired.up else None,
        "of_spines": ratios[1] if wired.cores else None,
        "matters": bool(wired.up),
    }  # fmt: skip


def _link(load: LinkLoad, run: Run) -> dict[str, Any]:
    return {
        "link": load.link, "name": words.LINKS[load.link],
        "rate_bytes_per_s": load.rate_bytes_per_s, "bytes": load.by_axis,
        "utilisation": load.utilisation, "total": load.total,
        "nominal": words.rate_of(load.link, run),
    }  # fmt: skip


def _counts(one: Sized) -> dict[str, Any]:
    totals = {"total_switches": one.total_switches, "total_cables": one.total_cables}
    return dict(plain(counts_record(one) | totals))


def _step(step: Timed) -> dict[str, Any]:
    ledger = {cause: float(seconds) for cause, seconds in step.ledger.items()}
    return {"step_s": step.step_s, "ledger_s": ledger}


def _change(healthy: Timed, now: Timed) -> dict[str, float]:
    """Seconds more, by cause; what hardly changes is left out."""
    causes = dict.fromkeys([*healthy.ledger, *now.ledger])
    more = {cause: float(now.ledger[cause] - healthy.ledger[cause]) for cause in causes}
    return {cause: s for cause, s in more.items() if abs(s) > 1e-5 * healthy.step_s}
