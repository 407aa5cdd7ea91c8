"""What a framework overlaps, and in what format it reduces, where a run does not say.

Holds `switches` and `with_switches`.
"""

from typing import Any

from syncwall.describe.base import is_open
from syncwall.describe.choice import Dtype
from syncwall.describe.framework import Framework, Month, at
from syncwall.describe.layout import Layout, Shard


def switches(family: Framework, date: Month | None, shard: Shard) -> dict[str, Any]:
    """Fields of a layout that follow from the framework and its date, unless a run states them."""
    found: dict[str, Any] = {
        name: at(getattr(family, name), date)
        for name in (
            "overlap_gradients", "overlap_parameters", "overlap_tp", "overlap_pp",
            "balanced_stages", "async_tp",
        )
    }  # fmt: skip
    found |= {"tp_left": family.tp_left, "whole_inputs": family.whole_inputs}
    if family.fused_loss:
        found["fused_loss"] = True
    if shard == Shard.DDP:
        return found
    found["overlap_gradients"] = found["overlap_gradients"] and family.overlap_sharded_gradients
    return found | {"gradient_dtype": family.gradient_dtype}


def with_switches(layout: Layout, family: Framework, date: Month | None) -> Layout:
    """`layout`, whose sharding is known, with the framework's choice where it states none."""
    usual = switches(family, date, layout.shard)
    update = {name: value for name, value in usual.items() if is_open(layout, name)}
    if layout.precision is Dtype.FP16:
        update.pop("gradient_dtype", None)
    for switch, other in family.needs.items():
        if update.get(switch) and not update.get(other, getattr(layout, other)):
            update[switch] = False
    return layout.model_copy(update=update)
