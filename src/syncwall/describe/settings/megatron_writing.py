"""A layout as arguments of Megatron-LM.

Holds `write`.
"""

from collections.abc import Iterator
from typing import Final

from syncwall.describe.choice import Dtype
from syncwall.describe.layout import Layout, Recompute, Schedule, Shard
from syncwall.describe.settings.keys import Wanted
from syncwall.describe.settings.megatron import (
    CONTEXT,
    COUNTS,
    CUTS,
    DISPATCHERS,
    STAGES,
    STRATEGIES,
    SWITCHES,
)
from syncwall.describe.state_formats import Optimizer

_RECIPES: Final = {"tensor": "", "block": " --fp8-recipe blockwise", "row": ""}
_ALWAYS: Final = ("tp", "pp", "cp", "micro_batch", "global_batch")


def write(layout: Layout, wanted: Wanted) -> str:
    """The arguments for `layout`, one a line; none that Megatron-LM would refuse beside another."""
    experts = layout.ep > 1 or layout.etp > 1 or wanted.experts
    arguments = [*_counts(layout, wanted, experts=experts), *_switches(layout, experts=experts)]
    arguments += [
        *_sharding(layout),
        *_pipeline(layout, wanted.layers),
        *_numbers(layout, wanted.software.fp8_scaling),
    ]
    arguments += [*_recompute(layout), *_keeping(layout)]
    return " \\\n".join(arguments) + "\n"


def _counts(layout: Layout, wanted: Wanted, *, experts: bool) -> Iterator[str]:
    for field, name in COUNTS.items():
        value = getattr(layout, field)
        if value is not None and (field in _ALWAYS or experts):
            yield f"{name} {int(value)}"
    if wanted.seq:
        yield f"--seq-length {int(wanted.seq)}"
    if layout.cp > 1:
        words = {kind: word for word, kind in CONTEXT.items()}
        yield f"--cp-comm-type {words[layout.cp_kind]}"
    if experts:
        dispatchers = {kind: word for word, kind in DISPATCHERS.items()}
        flex = f"flex --moe-flex-dispatcher-backend {layout.dispatcher.text}"
        yield f"--moe-token-dispatcher-type {dispatchers.get(layout.dispatcher, flex)}"


def _switches(layout: Layout, *, experts: bool) -> Iterator[str]:
    split = layout.tp > 1 and (layout.sp or experts)  # experts and tp need it
    on = {
        "sp": split,
        "overlap_gradients": layout.overlap_gradients,
        "overlap_parameters": layout.overlap_parameters
        and layout.overlap_gradients
        and layout.shard != Shard.DDP,
        "overlap_tp": layout.overlap_tp and split,
        "overlap_ep": layout.overlap_ep and layout.ep > 1 and layout.recompute != Recompute.FULL,
    }
    yield from (name for field, name in SWITCHES.items() if on[field])
    if layout.order == ("tp", "cp", "ep", "pp", "dp"):
        yield "--use-tp-pp-dp-mapping"


def _sharding(layout: Layout) -> Iterator[str]:
    if layout.shard == Shard.DDP:
        return
    if layout.shard != Shard.ZERO1:
        words = {shard: word for word, shard in STRATEGIES.items()}
        yield f"--use-megatron-fsdp --data-parallel-sharding-strategy {words[layout.shard]}"
    yield "--use-distributed-optimizer"
    whole = (layout.dp or 0) * layout.cp
    if layout.shard_degree and whole > layout.shard_degree:
        yield f"--num-distributed-optimizer-instances {whole // layout.shard_degree}"


def _pipeline(layout: Layout, layers: int | None) -> Iterator[str]:
    if layout.pp == 1:
        return
    stages = int(layout.pp * layout.virtual_stages)
    interleaved = layout.schedule == Schedule.INTERLEAVED
    balanced = layers if layout.balanced_stages else None
    even = balanced is not None and (balanced + 2) % stages == 0
    if balanced is not None and not even:
        yield f"{STAGES} '{_dealt_out(balanced, stages)}'"
    elif interleaved:
        yield f"--num-virtual-stages-per-pipeline-rank {int(layout.virtual_stages)}"
    if even:
        yield "--account-for-embedding-in-pipeline-split"
        yield "--account-for-loss-in-pipeline-split"
    for field, name in CUTS.items():
        if getattr(layout, field) is not None:
            yield f"{name} {getattr(layout, field)}"
    if not layout.overlap_pp and (layout.pp > 2 or not interleaved):
        yield "--no-overlap-p2p-communication"


def _dealt_out(layers: int, stages: int) -> str:
    """Embedding, layers and loss (E, t, L), each as much as a layer, over `stages` stages.

    The first ones get what is left over, as the last has the loss.
    """
    each, more = divmod(layers + 2, stages)
    sizes = [each + (stage < more) for stage in range(stages)]
    units = iter(["E", *["t"] * layers, "L"])
    return "|".join("".join(next(units) for _ in range(size)) for size in sizes)


def _numbers(layout: Layout, scaling: str) -> Iterator[str]:
    """Number formats."""
    low = {
        Dtype.FP8: f"--fp8-format hybrid{_RECIPES[scaling]}",
        Dtype.MXFP8: "--fp8-format e4m3 --fp8-recipe mxfp8",
        Dtype.NVFP4: "--fp4-format e2m1",
    }
    half = layout.precision == Dtype.FP16
    if layout.precision != Dtype.FP32:
        yield "--fp16" if half else "--bf16"
    if layout.precision in low:
        yield low[layout.precision]
        if layout.first_layers_bf16 or layout.last_layers_bf16:
            yield "--first-last-layers-bf16"
            yield f"--num-layers-at-start-in-bf16 {layout.first_layers_bf16}"
            yield f"--num-layers-at-end-in-bf16 {layout.last_layers_bf16}"
    if layout.gradient_dtype == Dtype.BF16 and layout.precision not in (Dtype.FP32, Dtype.FP16):
        yield "--grad-reduce-in-bf16"
    elif half and layout.gradient_dtype == Dtype.FP32:
        yield "--accumulate-allreduce-grads-in-fp32"
    elements = layout.bucket_bytes / layout.gradient_dtype.size_bytes
    if layout.shard == Shard.DDP and elements.is_integer() and elements >= 1:
        yield f"--ddp-bucket-size {int(elements)}"


def _recompute(layout: Layout) -> Iterator[str]:
    if layout.recompute == Recompute.SELECTIVE:
        yield "--recompute-activations"
        if layout.recompute_modules != ("core_attn",):
            yield f"--recompute-modules {' '.join(layout.recompute_modules)}"
    if layout.recompute != Recompute.FULL:
        return
    layers, virtual = layout.recompute_layers, layout.virtual_stages
    if layers and layers % virtual == 0:
        yield (
            f"--recompute-granularity full --recompute-method block "
            f"--recompute-num-layers {layers // virtual}"
        )
    else:
        yield "--recompute-granularity full --recompute-method uniform --recompute-num-layers 1"


def _keeping(layout: Layout) -> Iterator[str]:
    if layout.optimizer in (Optimizer.SGD, Optimizer.MUON):
        yield f"--optimizer {Optimizer(layout.optimizer).text}"
    if layout.moment_dtype in (Dtype.BF16, Dtype.FP16, Dtype.FP8):
        kind = str(layout.moment_dtype)
        yield f"--use-precision-aware-optimizer --exp-avg-dtype {kind} --exp-avg-sq-dtype {kind}"
    if layout.offload_optimizer:
        yield "--optimizer-cpu-offload"
    if layout.offload_layers:
        yield f"--cpu-offloading-num-layers {layout.offload_layers}"
