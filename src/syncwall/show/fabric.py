"""Fabrics side by side on one screen, and as plain data.

Holds `fabric_page` and `fabric_record`.
"""

from dataclasses import asdict
from typing import Any

from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from syncwall import units
from syncwall.plan.fabric.answer import FabricAnswer
from syncwall.plan.fabric.broken import Loss, losses
from syncwall.plan.fabric.effect import fabric_of
from syncwall.plan.fabric.options import Refusal, least_radix, refusal
from syncwall.plan.fabric.sized import Sized
from syncwall.show.headed import Fitting, Headed, plain_table
from syncwall.show.layout_words import run_words
from syncwall.units import Dimension


def fabric_record(answer: FabricAnswer) -> dict[str, Any]:
    """Everything, in SI units."""
    return {
        "gpus": answer.gpus,
        "chosen": answer.chosen.kind if answer.chosen else None,
        "wiring": asdict(answer.wiring),
        "copper": list(answer.copper),
        "non_blocking_step_s": answer.free_s,
        "fabrics": [_fabric(answer, one) for one in answer.found.values()],
    }


def _fabric(answer: FabricAnswer, one: Sized) -> dict[str, Any]:
    why = refusal(one)
    record: dict[str, Any] = {
        "kind": one.kind, "possible": bool(one.possible), "most_gpus": one.most_gpus,
        "why_not": str(why) if why else None,
    }  # fmt: skip
    if not one.possible:
        return record
    effect = answer.effects.get(one.kind)
    return record | {
        "tiers": one.tiers,
        "switches": one.switches,
        "switches_after_growth": one.grown_switches,
        "cables": one.cables,
        "optics": int(one.optics(answer.copper)),
        "bisection_share": one.bisection_share,
        "bisection_bytes_per_s": float(one.bisection_bytes_per_s),
        "hops": one.hops,
        "joins_all": one.joins_all,
        "losses": [asdict(loss) for loss in losses(one)],
        "cost_usd": _bill_record(answer.prices, answer, one),
        "power_w": _bill_record(answer.powers, answer, one),
        "fabric": fabric_of(one).model_dump(mode="json"),
        "step_s": effect.step_s if effect else None,
        "slower": effect.slower if effect else None,
        "forwarded": effect.forwarded if effect else None,
    }


def _bill_record(rates: Any, answer: FabricAnswer, one: Sized) -> dict[str, Any] | None:
    if not rates.stated:
        return None
    bill = rates.bill(one, answer.copper)
    return {"total": float(bill.total), "without": list(bill.left_out)}


__all__ = ["fabric_page", "fabric_record"]

_NOT_MODELLED = (
    "latency of more switches, hash collisions, other jobs on the same fabric; nodes of a job are "
    "taken to be neighbours"
)


def fabric_page(answer: FabricAnswer) -> RenderableType:
    """Verdict, all kinds in a table, and the chosen one in detail."""
    parts: list[RenderableType] = [Headed("Verdict", _verdict(answer)), Text()]
    if answer.possible:
        parts += [Fitting(_table(answer), _table(answer, narrow=True)), Text()]
    parts += [Headed("Not", f"{one.kind}: {_why_not(one)}") for one in _refused(answer)]
    if answer.chosen is not None:
        parts += _details(answer, answer.chosen)
    parts.append(Headed("Assumed", _assumed(answer), "dim"))
    return Group(*parts)


def _verdict(answer: FabricAnswer) -> str:
    one = answer.chosen
    if one is None:
        most = max(found.most_gpus for found in answer.found.values())
        return (
            f"no fabric of these switches connects {_sized_for(answer)} GPUs (at most {most:,}): "
            "take switches with more ports (--radix, --switch) or a larger --oversubscription"
        )
    tiers = " + ".join(f"{count:,} {tier}" for tier, count in one.switches.items() if count)
    share = "full bisection" if one.bisection_share >= 1 else f"{one.bisection_share:.0%} bisection"
    kept = "" if one.joins_all else "; GPUs forward between rails"
    several = "es" * (one.total_switches != 1)
    kept += "; one node alone needs none" if one.nodes == 1 and one.wiring.scale_up else ""
    return f"{one.kind}: {tiers} switch{several} for {answer.gpus:,} GPUs, {share}{kept}"


def _table(answer: FabricAnswer, *, narrow: bool = False) -> Table:
    """A row for each kind; a `narrow` table does not count the switches of each tier."""
    priced, powered = answer.prices.stated, answer.powers.stated
    tiers = [] if narrow else ["leaf", "spine", "core"]
    heads = ["switches", *tiers, "cables", "optics", "bisection", "hops"]
    heads += ["cost"] * priced + ["power"] * powered + ["step", "slower"] * bool(answer.effects)
    table = plain_table("  kind", *heads)
    for one in answer.possible:
        cells = [f"{one.total_switches:,}", *(_count(one, tier) for tier in tiers)]
        cells += [f"{one.total_cables:,}", f"{one.optics(answer.copper):,}"]
        cells += [f"{one.bisection_share:.0%}", f"{one.hops}"]
        cells += [_money(answer, one)] * priced + [_power(answer, one)] * powered
        if answer.effects:
            effect = answer.effects[one.kind]
            cells += [_time(effect.step_s), f"{effect.slower:.1%}"]
        chosen = answer.chosen is not None and one.kind == answer.chosen.kind
        mark, style = ("▸ ", "bold") if chosen else ("  ", "")
        table.add_row(mark + one.kind, *cells, style=style)
    return table


def _details(answer: FabricAnswer, one: Sized) -> list[RenderableType]:
    cables = " · ".join(
        f"{count:,} {name}{' copper' * (name in answer.copper)}"
        for name, count in one.cables.items() if count
    )  # fmt: skip
    rate = units.format(one.bisection_bytes_per_s, Dimension.BYTES_PER_S, digits=4)
    lines = [
        Headed("Cables", cables),
        Headed("Bisection", f"{rate} one way between two halves of the nodes"),
        Headed("Wiring", _wiring(one)),
    ]
    for number, loss in enumerate(losses(one)):
        lines.append(Headed("If broken" if number == 0 else "", _loss(loss)))
    if one.wiring.growth:
        lines.append(Headed("Growth", _growth(answer, one)))
    if answer.prices.stated:
        lines.append(Headed("Cost", _bill(answer, one)))
    if answer.free_s is not None:
        lines.append(Headed("Effect", _effect(answer, one)))
    if answer.prediction is not None:
        lines.append(Headed("Run", run_words(answer.prediction.run)))
    return list(lines)


def _wiring(one: Sized) -> str:
    shape = one.shape
    if one.kind == "dragonfly":
        return (
            f"{shape['pods']:,} groups of up to {shape['group']} routers: {shape['down']} ports to "
            f"NICs, {shape['group'] - 1} inside the group, {shape['up']} to other groups"
        )
    ports = f"a leaf has {shape['down']} ports down, {shape['up']} up"
    if one.tiers == 3:
        ports += f"; a spine {shape['spine_down']} and {shape['spine_up']}; {shape['pods']:,} pods"
        ports += f" of {shape['pod_nodes']:,} nodes"
    rails = f"; {shape['rails']} rails" if shape["rails"] > 1 else ""
    nodes = max(1, min(shape["leaf_nodes"], one.nodes))
    return f"{ports}{rails}; {nodes:,} node{'s' * (nodes > 1)} on one leaf"


def _loss(loss: Loss) -> str:
    what = "cable " * ("-" in loss.part or loss.part in ("local", "global")) + loss.part
    gpus = f"{loss.gpus:,} GPU{'s' * (loss.gpus != 1)}"
    if loss.share >= 1 and not loss.beyond:
        return f"{what}: {gpus} cut off"
    if loss.beyond:
        return f"{what}: {gpus} lose {loss.share:.2%} of their rate to {loss.beyond}"
    return f"{what}: {gpus} lose {loss.share:.1%} of their NIC rate"


def _growth(answer: FabricAnswer, one: Sized) -> str:
    later = {
        tier: count - one.switches[tier]
        for tier, count in one.grown_switches.items() if count > one.switches[tier]
    }  # fmt: skip
    more = " + ".join(f"{count:,} {tier}" for tier, count in later.items()) or "no switch"
    return (
        f"sized for {_sized_for(answer)} GPUs; the counts above are bought now, with the highest "
        f"tier already complete; later {more} and their cables"
    )


def _sized_for(answer: FabricAnswer) -> str:
    grown = answer.wiring.grown_nodes(answer.gpus) * answer.wiring.gpus_per_node
    return f"{grown if answer.wiring.growth else answer.gpus:,}"


def _bill(answer: FabricAnswer, one: Sized) -> str:
    bill = answer.prices.bill(one, answer.copper)
    missing = f"; without {', '.join(bill.left_out)}: no price stated" if bill.left_out else ""
    return f"${bill.total:,.0f}, ${bill.total / answer.gpus:,.0f} a GPU{missing}"


def _effect(answer: FabricAnswer, one: Sized) -> str:
    effect = answer.effects[one.kind]
    model = answer.prediction.run.model.name if answer.prediction else ""
    free = _time(answer.free_s)
    said = f"a step of {model} takes {_time(effect.step_s)}, {effect.slower:.1%} more than the "
    said += f"{free} on a non-blocking network"
    if effect.forwarded:
        said += "; experts talk across rails, forwarded over scale-up links, which is not priced: "
        said += "8 to 11 % more for that all-to-all (arXiv:2307.12169)"
    return said


def _refused(answer: FabricAnswer) -> list[Sized]:
    return [one for one in answer.found.values() if not one.possible]


def _why_not(one: Sized) -> str:
    why = refusal(one)
    if why is Refusal.TOO_MANY:
        grown = one.wiring.grown_nodes(one.gpus) * one.wiring.gpus_per_node
        ports = least_radix(one.kind, one.wiring, one.gpus)
        needed = f"; {grown:,} need switches with {ports} ports" if ports else ""
        return f"reaches {one.most_gpus:,} GPUs with these switches{needed}"
    if why is Refusal.NOT_NEEDED:
        return "not needed, two tiers are enough"
    if why is Refusal.NO_RAILS:
        return "one NIC a node makes no rails"
    return "needs scale-up links in the node, to forward between rails"


def _assumed(answer: FabricAnswer) -> str:
    wiring = answer.wiring
    rate = units.format(wiring.nic_bytes_per_s, Dimension.BYTES_PER_S, unit="Gb/s")
    radix = "/".join(map(str, dict.fromkeys(wiring.radix)))
    said = (
        f"{wiring.nics_per_node} NICs of {rate} a node of {wiring.gpus_per_node} GPUs; switches "
        f"with {radix} ports of that rate; two transceivers a cable"
    )
    return f"{said}; not modelled: {_NOT_MODELLED}" if answer.effects else said


def _count(one: Sized, tier: str) -> str:
    count = one.switches.get(tier, 0)
    return f"{count:,}" if count else "–"


def _money(answer: FabricAnswer, one: Sized) -> str:
    return units.format(answer.prices.bill(one, answer.copper).total, Dimension.USD, digits=4)


def _power(answer: FabricAnswer, one: Sized) -> str:
    return units.format(answer.powers.bill(one, answer.copper).total, Dimension.WATTS, digits=4)


def _time(seconds: float | None) -> str:
    return units.format(float(seconds or 0.0), Dimension.SECONDS, digits=4)
