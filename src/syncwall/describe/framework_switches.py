"""What a framework overlaps, reduces and keeps, and in what format, where a run does not say.

Holds `switches`, `with_switches`, `kept_formats` and `cut_by_cost`.
"""

from typing import Any

from syncwall.describe.base import is_open
from syncwall.describe.choice import Dtype
from syncwall.describe.framework import Framework, Month, at
from syncwall.describe.layout import Layout, Recompute, Schedule, Shard
from syncwall.describe.software import Software
from syncwall.describe.state_formats import MasterWeights


def switches(
    family: Framework, date: Month | None, shard: Shard, software: Software | None = None
) -> dict[str, Any]:
    """Fields of a layout that follow from the framework and its date, unless a run states them.

    `software` may name other kernels than the framework's.
    """
    found: dict[str, Any] = {
        name: at(getattr(family, name), date)
        for name in (
            "overlap_gradients", "overlap_parameters", "overlap_tp", "overlap_pp",
            "balanced_stages", "async_tp", "overlap_ep", "recompute_stops_early", "dropout",
            "fused_loss", "fsdp_copies",
        )
    }  # fmt: skip
    found |= {
        name: getattr(family, name)
        for name in (
            "tp_exposed_share", "kept_gathered_inputs", "separate_gradients",
            "master_weights", "narrow_activations",
        )
    }  # fmt: skip
    found["dispatcher"] = at(family.dispatchers, date)[0]
    stated = software or Software()
    kernel = at(family.attention, date)
    found["kept_attention_scores"] = (stated.attention or kernel) == "unfused"
    for name in ("fused_norms", "fused_gate"):
        found[name] = stated.kernels == "fused" if stated.kernels else getattr(family, name)
    if shard == Shard.DDP:
        return found
    found["overlap_gradients"] = found["overlap_gradients"] and family.overlap_sharded_gradients
    return found | {"gradient_dtype": family.gradient_dtype}


def with_switches(
    layout: Layout,
    family: Framework,
    date: Month | None,
    software: Software | None = None,
    *,
    further_tokens: bool = False,
) -> Layout:
    """`layout`, whose sharding is known, with the framework's choice where it states none.

    `further_tokens`: the model predicts several tokens (MTP).
    """
    usual = switches(family, date, layout.shard, software)
    usual["balanced_stages"] |= cut_by_cost(layout.schedule, further_tokens=further_tokens)
    update = {name: value for name, value in usual.items() if is_open(layout, name)}
    if layout.precision is Dtype.FP16:
        update.pop("gradient_dtype", None)
    formats = kept_formats(layout.model_copy(update=update), family)
    update |= {name: value for name, value in formats.items() if is_open(layout, name)}
    for switch, other in family.needs.items():
        if update.get(switch) and not update.get(other, getattr(layout, other)):
            update[switch] = False
    if layout.ep == 1 or not layout.dropless:
        update.pop("dispatcher", None)  # nothing is exchanged, or the same number by each rank
    if layout.ep == 1 or layout.recompute == Recompute.FULL:
        update.pop("overlap_ep", None)  # another micro batch must not wait for recomputation
    return layout.model_copy(update=update)


def cut_by_cost(schedule: Schedule | None, *, further_tokens: bool) -> bool:
    """True if stages are dealt out by what they cost, whatever the framework.

    DualPipe puts both ends on one rank to even them out, and nobody puts a prediction layer and two
    heads behind a full share of layers: Megatron's own recipes leave the last stage next to none.
    """
    return further_tokens or schedule == Schedule.DUALPIPE


def kept_formats(layout: Layout, family: Framework) -> dict[str, Dtype]:
    """Formats of kept gradients and moments that follow from the others of `layout`.

    Pure 16-bit training has all in 16 bits; else moments are fp32, and gradients are kept as they
    are reduced where the framework has no format of its own.
    """
    if layout.master_weights == MasterWeights.NONE:
        pure = Dtype.FP16 if layout.precision is Dtype.FP16 else Dtype.BF16
        return {"kept_gradient_dtype": pure, "moment_dtype": pure}
    kept = family.kept_gradient_dtype or layout.gradient_dtype or family.gradient_dtype
    return {"kept_gradient_dtype": kept, "moment_dtype": Dtype.FP32}
