"""Fabrics as plain data, for JSON.

Holds `fabric_record`.
"""

from dataclasses import asdict
from typing import Any

from syncwall.plan.fabric.answer import FabricAnswer
from syncwall.plan.fabric.effect import fabric_of
from syncwall.plan.fabric.failures import losses
from syncwall.plan.fabric.options import refusal
from syncwall.plan.fabric.sized import Sized


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
        "cost_usd": _bill(answer.prices, answer, one),
        "power_w": _bill(answer.powers, answer, one),
        "fabric": fabric_of(one).model_dump(mode="json"),
        "step_s": effect.step_s if effect else None,
        "slower": effect.slower if effect else None,
        "forwarded": effect.forwarded if effect else None,
    }


def _bill(rates: Any, answer: FabricAnswer, one: Sized) -> dict[str, Any] | None:
    if not rates.stated:
        return None
    bill = rates.bill(one, answer.copper)
    return {"total": float(bill.total), "without": list(bill.left_out)}
