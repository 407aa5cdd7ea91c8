"""Fabrics as plain data, in SI units.

Holds `FabricsRecord` with `fabrics_record`, `DegradedRecord`, and `counts_record`, of one fabric.
"""

from typing import Annotated, Any, cast

from typing_extensions import TypedDict

from syncwall.answer.contention import Contention
from syncwall.describe import Fabric
from syncwall.plan.choices import FabricKind
from syncwall.plan.fabric.answer import FabricAnswer
from syncwall.plan.fabric.degraded_step import Degraded
from syncwall.plan.fabric.options import Refusal, refusal
from syncwall.plan.fabric.question import Wiring
from syncwall.plan.fabric.sized import FailureEffect, PartRates, Sized, fabric_of, losses
from syncwall.records import plain
from syncwall.show.fabric import verdict
from syncwall.show.schema import DescribedAs


class BillRecord(TypedDict):
    """A sum over what is bought now."""

    total: float
    without: list[str]
    """Parts that are needed, but of which nothing is stated."""


class FabricRecord(TypedDict):
    """One kind of fabric; all but the first four are null if it is not possible."""

    kind: FabricKind
    possible: bool
    most_gpus: int
    """That the kind can connect with these switches."""
    why_not: Refusal | None
    """Null if it is possible."""
    tiers: int | None
    """Levels of switches; 0 for a dragonfly, which has none."""
    switches: dict[str, int] | None
    """To buy now, by tier."""
    switches_after_growth: dict[str, int] | None
    cables: dict[str, int] | None
    """To buy now, by their two ends."""
    optics: int | None
    """Transceivers to buy now."""
    bisection_share: float | None
    """Rate between two halves of the nodes over that of half of the NICs."""
    bisection_bytes_per_s: float | None
    """The same, one way."""
    hops: int | None
    """Switches between the two NICs that are farthest apart."""
    joins_all: bool | None
    """True if switches join every NIC with every other, without forwarding by GPUs."""
    losses: list[FailureEffect] | None
    """What one broken switch or cable of each kind takes away."""
    cost_usd: BillRecord | None
    """Null if no price is stated."""
    power_w: BillRecord | None
    """Null if no power is stated."""
    fabric: Annotated[dict[str, Any], DescribedAs(Fabric)] | None
    """As a cluster file states it."""
    step_s: float | None
    """The predicted step on it; null without a run."""
    slower: float | None
    """Over the step on a non-blocking network, less 1; null without a run."""
    forwarded: bool | None
    """True if experts talk across rails, forwarded by GPUs; null without a run."""


class TakenOutRecord(TypedDict):
    """The run without slow parts: cables carry nothing, nodes leave the job."""

    nodes: int
    """That leave the job."""
    replicas_lost: int
    """Of the model, since they lose a node."""
    replicas: int
    step_s: float | None
    """spare_step_s x replicas / (replicas - replicas_lost); null if nothing is left to run."""
    spare_step_s: float | None
    """If other nodes take the place of those that leave; null if some GPUs have no way left."""


class DegradedRecord(TypedDict):
    """What slow parts cost the run on the chosen fabric."""

    parts: dict[str, float]
    """What each has left, bytes a second one way; 0 if it is dead."""
    slower: float
    """Median step over that before, less 1."""
    before: Contention
    after: Contention
    taken_out: TakenOutRecord
    pays: bool
    """True if the step is shorter without the slow parts, with no spare nodes."""


class FabricsRecord(TypedDict):
    """Every kind of fabric for so many GPUs, and the one to build."""

    verdict: str
    """In one line."""
    gpus: int
    chosen: FabricKind | None
    """The one to build; null if none is possible."""
    wiring: Wiring
    """What is connected, and with what."""
    copper: list[str]
    """Cables without transceivers."""
    non_blocking_step_s: float | None
    """The step of the run on a non-blocking network; null without a run."""
    fabrics: list[FabricRecord]
    degraded: DegradedRecord | None
    """Null if no part is named as slow."""


def fabrics_record(answer: FabricAnswer) -> FabricsRecord:
    """All kinds that were asked for, the impossible ones too."""
    return {
        "verdict": verdict(answer),
        "gpus": answer.gpus,
        "chosen": answer.chosen.kind if answer.chosen else None,
        "wiring": answer.wiring,
        "copper": list(answer.copper),
        "non_blocking_step_s": answer.free_s,
        "fabrics": [_fabric(answer, one) for one in answer.found.values()],
        "degraded": _degraded(answer.degraded),
    }


def _degraded(found: Degraded | None) -> DegradedRecord | None:
    if found is None:
        return None
    out = found.taken_out
    return {
        "parts": dict(found.parts),
        "slower": found.slower,
        "before": found.before,
        "after": found.after,
        "taken_out": {
            "nodes": out.nodes,
            "replicas_lost": out.replicas_lost,
            "replicas": out.replicas,
            "step_s": out.step_s,
            "spare_step_s": out.spare_s,
        },
        "pays": found.pays,
    }


def _fabric(answer: FabricAnswer, one: Sized) -> FabricRecord:
    found = dict.fromkeys(FabricRecord.__annotations__) | {
        "kind": one.kind,
        "possible": one.possible,
        "most_gpus": one.most_gpus,
        "why_not": refusal(one),
    }
    if one.possible:
        effect = answer.effects.get(one.kind)
        found |= counts_record(one, answer.copper) | {
            "switches_after_growth": one.grown_switches,
            "joins_all": one.joins_all,
            "cost_usd": _bill(answer.prices, answer, one),
            "power_w": _bill(answer.powers, answer, one),
            "fabric": plain(fabric_of(one)),
            **(plain(effect) if effect else {}),
        }
    return cast("FabricRecord", found)


def counts_record(one: Sized, copper: tuple[str, ...] = ()) -> dict[str, Any]:
    """What one fabric is made of, and what is left of it when a part breaks."""
    return {
        "tiers": one.tiers,
        "switches": one.switches,
        "cables": one.cables,
        "optics": one.optics(copper),
        "bisection_share": one.bisection_share,
        "bisection_bytes_per_s": one.bisection_bytes_per_s,
        "hops": one.hops,
        "losses": losses(one),
    }


def _bill(rates: PartRates, answer: FabricAnswer, one: Sized) -> BillRecord | None:
    if not rates.stated:
        return None
    bill = rates.bill(one, answer.copper)
    return {"total": bill.total, "without": list(bill.left_out)}
