"""The sentences of a fabric.

Holds `verdict`, `why_not`, `wiring`, `loss`, `growth`, `bill`, `effect` and `assumed` with
`NOT_MODELLED`; `bisection`, `step_time` and `nic_rate`.
"""

from typing import Final

from syncwall import units
from syncwall.plan.fabric.answer import FabricAnswer
from syncwall.plan.fabric.broken import FailureEffect
from syncwall.plan.fabric.options import Refusal, least_radix, refusal
from syncwall.plan.fabric.question import Wiring
from syncwall.plan.fabric.sized import Sized
from syncwall.show.numbers import percent, plural
from syncwall.units import Dimension

NOT_MODELLED: Final = "latency of more switches, hash collisions, other jobs on the same fabric"


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


def bisection(one: Sized) -> str:
    """How much of the NICs' rate there is between two halves of the nodes."""
    share = "full" if one.bisection_share >= 1 else percent(one.bisection_share)
    return f"{share} bisection"


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


def effect(answer: FabricAnswer, one: Sized) -> str:
    """How much longer a step takes on it."""
    found = answer.effects[one.kind]
    model = answer.prediction.run.model.name if answer.prediction else ""
    said = (
        f"a step of {model} takes {step_time(found.step_s)}, {percent(found.slower, 1)} more than "
        f"the {step_time(answer.free_s or 0.0)} on a non-blocking network"
    )
    if found.forwarded:
        said += "; experts talk across rails, forwarded over scale-up links, which is not priced: "
        said += "8 to 11% more for that all-to-all (arXiv:2307.12169)"
    return said


def step_time(seconds: float) -> str:
    """Four figures: fabrics often differ by little."""
    return units.format(seconds, Dimension.SECONDS, digits=4)


def nic_rate(wired: Wiring) -> str:
    """The rate of one NIC as it is sold."""
    return units.format(wired.nic_bytes_per_s, Dimension.BYTES_PER_S, unit="Gb/s")


def assumed(answer: FabricAnswer) -> str:
    """What the counts, and the step, rest on."""
    wired = answer.wiring
    ports = "/".join(map(str, dict.fromkeys(wired.radix)))
    said = (
        f"{plural(wired.nics_per_node, 'NIC')} of {nic_rate(wired)} a node of "
        f"{plural(wired.gpus_per_node, 'GPU')}; switches with {ports} ports of that rate; two "
        "transceivers a cable"
    )
    nodes = "nodes of a job are taken to be neighbours"
    return f"{said}; not modelled: {NOT_MODELLED}; {nodes}" if answer.effects else said
