"""Fabrics side by side on one screen, and as plain data.

Holds `fabric_page` and `fabric_record`.
"""

from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from syncwall import units
from syncwall.plan.fabric.answer import FabricAnswer
from syncwall.plan.fabric.failures import Loss, losses
from syncwall.plan.fabric.options import Refusal, least_radix, refusal
from syncwall.plan.fabric.sized import Sized
from syncwall.show.fabric_record import fabric_record
from syncwall.units import Dimension

__all__ = ["fabric_page", "fabric_record"]

_NOT_MODELLED = (
    "latency of more switches, hash collisions, other jobs on the same fabric; nodes of a job are "
    "taken to be neighbours"
)


def fabric_page(answer: FabricAnswer) -> RenderableType:
    """Verdict, all kinds in a table, and the chosen one in detail."""
    parts: list[RenderableType] = [
        Text.assemble(("Verdict   ", "bold"), _verdict(answer)),
        Text(),
    ]
    if answer.possible:
        parts += [_table(answer), Text()]
    parts += [_line("Not", f"{one.kind}: {_why_not(one)}") for one in _refused(answer)]
    if answer.chosen is not None:
        parts += _details(answer, answer.chosen)
    parts.append(Text(f"Assumed   {_assumed(answer)}", "dim"))
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


def _table(answer: FabricAnswer) -> Table:
    table = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0), header_style="bold")
    priced, powered = answer.prices.stated, answer.powers.stated
    heads = ["switches", "leaf", "spine", "core", "cables", "optics", "bisection", "hops"]
    heads += ["cost"] * priced + ["power"] * powered + ["step", "slower"] * bool(answer.effects)
    table.add_column("  kind")
    for head in heads:
        table.add_column(head, justify="right")
    for one in answer.possible:
        cells = [f"{one.total_switches:,}", *(_count(one, tier) for tier in heads[1:4])]
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
        _line("Cables", cables),
        _line("Bisection", f"{rate} one way between two halves of the nodes"),
        _line("Wiring", _wiring(one)),
    ]
    for number, loss in enumerate(losses(one)):
        lines.append(_line("If broken" if number == 0 else "", _loss(loss)))
    if one.wiring.growth:
        lines.append(_line("Growth", _growth(answer, one)))
    if answer.prices.stated:
        lines.append(_line("Cost", _bill(answer, one)))
    if answer.free_s is not None:
        lines.append(_line("Effect", _effect(answer, one)))
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
    model = answer.run.model.name if answer.run else ""
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


def _line(head: str, words: str) -> Text:
    return Text.assemble((f"{head:<10}", "bold"), words)
