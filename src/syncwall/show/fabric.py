"""Fabrics side by side, and the proposed one in detail and as a picture."""

from collections.abc import Iterator
from functools import partial
from typing import Final

import numpy as np

from syncwall import units
from syncwall.answer.contention import UNPROVEN, Contention
from syncwall.network.graph import Links
from syncwall.plan.fabric.degraded_step import MOST_NODES, Degraded, TakenOut
from syncwall.plan.fabric.fabric_answer import FabricAnswer
from syncwall.plan.fabric.options import Refusal, least_radix, refusal
from syncwall.plan.fabric.sized import FailureEffect, Sized, losses
from syncwall.show.blocks import Block, Figure, Lines, Verdict, View, table
from syncwall.show.contention import drawn_words
from syncwall.show.draw.fabric import bisection, fabric_drawing, nic_rate
from syncwall.show.layout import run_words
from syncwall.show.numbers import duration, money, percent, plural, signed_percent
from syncwall.units import Dimension

LEAST: Final = 1e-3
"""A step that is longer by less than this share is called the same."""
PLURALS: Final = {"leaf": "leaves"}
NOT_MODELLED: Final = "latency of more switches, other jobs on the same fabric"


def verdict(answer: FabricAnswer) -> str:
    """What to build, or why nothing can be."""
    one = answer.chosen
    if one is None:
        most = max(found.most_gpus for found in answer.found.values())
        return (
            f"no fabric of these switches connects {_sized_for(answer):,} GPUs (at most {most:,}): "
            "take switches with more ports (--radix, --switch) or a larger --oversubscription"
        )
    tiers = " + ".join(f"{count:,} {tier}" for tier, count in one.switches.items() if count)
    noun = "switch" if one.total_switches == 1 else "switches"
    said = f"{tiers} {noun} for {plural(answer.gpus, 'GPU')}"
    kept = "" if one.joins_all else "; GPUs forward between rails"
    kept += "; one node alone needs none" if one.nodes == 1 and one.wiring.scale_up else ""
    return f"{one.kind}: {said}, {bisection(one)}{kept}"


def why_not(one: Sized) -> str:
    """Why a kind is not offered, and what it would need."""
    why = refusal(one)
    if why is Refusal.TOO_MANY:
        grown = one.wiring.grown_nodes(one.gpus) * one.wiring.gpus_per_node
        ports = least_radix(one.kind, one.wiring, one.gpus)
        needed = f"; {grown:,} need switches with {ports:,} ports" if ports else ""
        return f"reaches {one.most_gpus:,} GPUs with these switches{needed}"
    if why is Refusal.NOT_NEEDED:
        return "not needed, two tiers are enough"
    if why is Refusal.NO_RAILS:
        return "one NIC a node makes no rails"
    return "needs scale-up links in the node, to forward between rails"


def wiring(one: Sized) -> str:
    """How the ports of a switch are used."""
    shape = one.shape
    if one.kind == "dragonfly":
        return (
            f"{plural(shape['pods'], 'group')} of up to {plural(shape['group'], 'router')}: "
            f"{shape['down']} ports to NICs, {shape['group'] - 1} inside the group, "
            f"{shape['up']} to other groups"
        )
    said = [f"a leaf has {shape['down']} ports down, {shape['up']} up"]
    if one.tiers == 3:
        said.append(f"a spine {shape['spine_down']} and {shape['spine_up']}")
        said.append(f"{plural(shape['pods'], 'pod')} of {plural(shape['pod_nodes'], 'node')}")
    said += [f"{shape['rails']} rails"] if shape["rails"] > 1 else []
    nodes = max(1, min(shape["leaf_nodes"], one.nodes))
    return "; ".join([*said, f"{plural(nodes, 'node')} on one leaf"])


def loss(one: FailureEffect) -> str:
    """What one broken part takes away."""
    is_cable = "-" in one.part or one.part in ("local", "global")
    whom = f"{'cable ' * is_cable}{one.part}: {plural(one.gpus, 'GPU')}"
    if one.beyond:
        return f"{whom} lose {percent(one.share, 2)} of their rate to {one.beyond}"
    if one.share >= 1:
        return f"{whom} cut off"
    return f"{whom} lose {percent(one.share, 1)} of their NIC rate"


def growth(answer: FabricAnswer, one: Sized) -> str:
    """What is bought now and what later."""
    later = {tier: count - one.switches[tier] for tier, count in one.grown_switches.items()}
    more = " + ".join(f"{count:,} {tier}" for tier, count in later.items() if count > 0)
    return (
        f"sized for {_sized_for(answer):,} GPUs; the counts above are bought now, with the highest "
        f"tier already complete; later {more or 'no switch'} and their cables"
    )


def _sized_for(answer: FabricAnswer) -> int:
    grown = answer.wiring.grown_nodes(answer.gpus) * answer.wiring.gpus_per_node
    return int(grown) if answer.wiring.growth else answer.gpus


def bill(answer: FabricAnswer, one: Sized) -> str:
    """What it costs, as far as prices are stated."""
    found = answer.prices.bill(one, answer.copper)
    missing = f"; without {', '.join(found.left_out)}: no price stated" if found.left_out else ""
    return f"${found.total:,.0f}, ${found.total / answer.gpus:,.0f} a GPU{missing}"


def is_alone(one: Sized, slower: float) -> bool:
    """True if a fabric seems to cost nothing only because what shares its links is not counted."""
    return slower < LEAST / 2 and (one.bisection_share < 1.0 - LEAST or one.nodes > MOST_NODES)


def effect(answer: FabricAnswer, one: Sized) -> str:
    """How much longer a step takes on it."""
    found = answer.effects[one.kind]
    model = answer.prediction.run.model.name if answer.prediction else ""
    said = f"a step of {model} takes {step_time(found.step_s)}, "
    if is_alone(one, found.slower):
        said += "as on a non-blocking network, if no other job is there: neighbours are not counted"
        said += ", nor flows that meet by hashing" * (one.nodes > MOST_NODES)
    else:
        free = step_time(answer.free_s or 0.0)
        said += f"{percent(found.slower, 1)} more than the {free} on a non-blocking network"
    if found.forwarded:
        said += "; experts talk across rails, forwarded over scale-up links"
    return said


def degraded_words(found: Degraded) -> tuple[str, ...]:
    """What slow or dead parts cost the step, the busiest link, and if taking them out pays."""
    before, after = found.before, found.after
    slow = ", ".join(
        f"{name} at {units.format(rate, Dimension.BYTES_PER_S, unit='Gb/s')}" if rate else f"{name} dead"
        for name, rate in found.parts.items()
    )
    steps = f"step {_spread(before.p50_s, before.p90_s)} before, {_spread(after.p50_s, after.p90_s)}"
    draws = after.draws if after.hashed else 0
    how = drawn_words(after.fabric, after.routing, after.qps, draws, after.seed)
    link = f"busiest link {after.busiest}" if after.busiest else "no link is busier than the NICs"
    return (
        f"{slow}: {steps} after, {percent(found.slower, 1)} slower; {link}",
        _out_words(found, found.taken_out),
        f"{how}; {UNPROVEN}",
    )


def _spread(p50_s: float, p90_s: float) -> str:
    wide = p90_s > p50_s * (1.0 + 1e-9)
    return f"{duration(p50_s)}{f' (P90 {duration(p90_s)})' if wide else ''}"


def _out_words(found: Degraded, out: TakenOut) -> str:
    taken = f"draining {plural(out.nodes, 'node')}" if out.nodes else "taking the cables out"
    if out.step_s is None or out.spare_s is None:
        return f"{taken} leaves nothing that could run"
    verdict = "pays" if found.pays else "does not pay"
    if not out.nodes:
        return f"{taken} {verdict}: step {duration(out.step_s)} over the ways that are left"
    left = out.replicas - out.replicas_lost
    sum_ = f"{duration(out.spare_s)} x {out.replicas} / {left} replicas = {duration(out.step_s)}"
    return f"{taken} {verdict}: {sum_}; {duration(out.spare_s)} with spare nodes"


def failure_words(links: Links, hurt: Links, before: Contention, after: Contention) -> str:
    """Why the step is as it is with dead parts: what is left, and whether anything waits for it."""
    left = "; ".join(_what_is_left(links, hurt)) or "nothing that a node needs is lost"
    was = {(one.pattern, one.ranks, one.stride): one.slower for one in before.flows}
    longer = any(
        one.slower > was.get((one.pattern, one.ranks, one.stride), 1.0) * (1 + 1e-9) for one in after.flows
    )
    if not longer:
        return f"{left}: no flow of this run takes longer for it"
    if after.p50_s < before.p50_s * (1.0 + LEAST):
        return f"{left}: the longer transfers hide behind computation"
    return f"{left}, and every group waits for the slowest"


def _what_is_left(links: Links, hurt: Links) -> Iterator[str]:
    """NICs of the nodes that have fewest, and cables up of the switches that lost most."""
    working = hurt.works.sum(1)
    fewest = np.flatnonzero(working == working.min())
    if working.min() < links.nics_per_node:
        many = len(fewest) > 1
        who = f"{len(fewest)} nodes have" if many else f"node {links.nodes[fewest[0]]} has"
        yield f"{who} {working.min()} of {links.nics_per_node} NICs"
    for tier in range(1, int(links.tier.max(initial=1)) + 1):
        each = []
        for one in (links, hurt):
            start, end = one.ends.T
            up = start[(one.tier[start] == tier) & (one.tier[end] >= tier)]
            each.append(np.bincount(up, minlength=len(links.switches)))
        was, now = each
        worst = np.where((now < was) & (now > 0), now / np.maximum(was, 1), 2.0)
        which = np.flatnonzero(worst == worst.min())
        if worst.min() < 1.0:
            name = links.switches[which[0]].replace(":", " ")
            kind = name.partition(" ")[0]
            who = f"{name} has" if len(which) == 1 else f"{len(which)} {PLURALS.get(kind, kind + 's')} have"
            up = " up" if links.tier.max() > 1 else ""
            yield f"{who} {now[which[0]]} of {was[which[0]]} cables{up}"


def longer(before_s: float, after_s: float) -> str:
    """A step that became longer, with as many figures as that needs."""
    slower = after_s / before_s - 1.0
    text = duration if slower > 0.02 else step_time
    return f"Step {text(before_s)} → {text(after_s)} ({signed_percent(slower, int(slower < 0.1))})"


def step_time(seconds: float) -> str:
    """Four figures: fabrics often differ by little."""
    return units.format(seconds, Dimension.SECONDS, digits=4) if seconds < 1e3 else duration(seconds)


def assumed(answer: FabricAnswer) -> str:
    """What the counts, and the step, rest on."""
    wired = answer.wiring
    ports = "/".join(map(str, dict.fromkeys(wired.radix)))
    said = (
        f"{plural(wired.nics_per_node, 'NIC')} of {nic_rate(wired)} a node of "
        f"{plural(wired.gpus_per_node, 'GPU')}; switches with {ports} ports of that rate; two "
        "transceivers a cable"
    )
    if not answer.steps:
        return said
    found = next(iter(answer.steps.values()))
    draws = found.draws if found.hashed else 0
    how = drawn_words("steps on shared links", found.routing, found.qps, draws, found.seed)
    if answer.chosen and answer.chosen.nodes > MOST_NODES and not answer.degraded:
        how = f"steps of more than {MOST_NODES:,} nodes by tiers, which adaptive routing comes near"
    nodes = "nodes of a job are taken to be neighbours"
    return f"{said}; {how}; not modelled: {NOT_MODELLED}; {nodes}"


_SPARE = ("core", "spine", "leaf", "hops", "power", "transceivers")
"""What narrow screens leave out, that of least worth first."""


def fabric_view(answer: FabricAnswer) -> View:
    """Verdict, all kinds in a table, and the chosen one in detail."""
    about = run_words(answer.prediction.run) if answer.prediction else ""
    refused = (one for one in answer.found.values() if not one.possible)
    reasons = tuple(f"{one.kind}: {why_not(one)}" for one in refused)
    blocks = [
        Verdict((verdict(answer),), about),
        *_table(answer),
        *([Lines("Left out", reasons)] if reasons else []),
        *(_details(answer, answer.chosen) if answer.chosen else []),
        Lines("Assumed", (assumed(answer),), is_quiet=True),
    ]
    return View(f"A fabric for {plural(answer.gpus, 'GPU')}", tuple(blocks))


def _table(answer: FabricAnswer) -> list[Block]:
    """A row for each kind that is possible."""
    routing = next((found.routing for found in answer.steps.values()), "")
    head = (
        "kind",
        "switches",
        "leaf",
        "spine",
        "core",
        "cables",
        "transceivers",
        "bisection",
        "hops",
        "cost",
        "power",
        f"step, {routing}",
        "slower",
    )
    rows = [tuple(_cells(answer, one)) for one in answer.possible]
    strong = frozenset(n for n, one in enumerate(answer.possible) if one is answer.chosen)
    return table(head, rows, spare=_SPARE, strong=strong)


def _cells(answer: FabricAnswer, one: Sized) -> Iterator[str]:
    yield f"{one.kind}{' (proposed)' * (one is answer.chosen)}"
    yield f"{one.total_switches:,}"
    yield from (
        f"{one.switches[tier]:,}" if one.switches.get(tier) else "" for tier in ("leaf", "spine", "core")
    )
    yield from (f"{one.total_cables:,}", f"{one.optics(answer.copper):,}")
    yield from (percent(one.bisection_share), f"{one.hops}")
    usd, watts = (r.bill(one, answer.copper).total for r in (answer.prices, answer.powers))
    yield money(usd) if answer.prices.stated else ""
    yield units.format(watts, Dimension.WATTS, digits=4) if answer.powers.stated else ""
    effect = answer.effects.get(one.kind)
    yield step_time(effect.step_s) if effect else ""
    alone = effect is not None and is_alone(one, effect.slower)
    yield "none if alone" if alone else percent(effect.slower, 1) if effect else ""


def _details(answer: FabricAnswer, one: Sized) -> Iterator[Block]:
    cables = " · ".join(
        f"{count:,} {name}{' copper' * (name in answer.copper)}"
        for name, count in one.cables.items()
        if count
    )
    rate = units.format(one.bisection_bytes_per_s, Dimension.BYTES_PER_S, digits=4)
    caption = "the proposed fabric; of many equal parts only some are drawn"
    yield Figure(partial(fabric_drawing, one), caption)
    yield Lines("Cables", (cables,))
    yield Lines("Bisection", (f"{rate} one way between two halves of the nodes",))
    yield Lines("Wiring", (wiring(one),))
    yield Lines("If broken", tuple(map(loss, losses(one))))
    if one.wiring.growth:
        yield Lines("Growth", (growth(answer, one),))
    if answer.prices.stated:
        yield Lines("Cost", (bill(answer, one),))
    if answer.free_s is not None:
        yield Lines("Effect", (effect(answer, one),))
    if answer.degraded is not None:
        yield Lines("Degraded", degraded_words(answer.degraded))
