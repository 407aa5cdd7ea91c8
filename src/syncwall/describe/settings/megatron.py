"""Settings of Megatron-LM: its arguments, in a shell script or as a list of them.

Holds `TABLE`, `read` and `write`. A file with `--micro-batch-size`, without which Megatron-LM does
not start, is a whole command: a switch that it leaves out is off. In any other file it is open.
Names and defaults: `training/arguments.py` and the configurations of `core/`, August 2026; some
older names are read too. Arguments that Megatron-LM would refuse beside another are not written.
"""

import re
from typing import Any, Final, get_args

from syncwall.describe.choice import Dtype
from syncwall.describe.layout import ContextKind, Dispatcher, Layout, Recompute, Schedule, Shard
from syncwall.describe.settings.models import take_shape
from syncwall.describe.settings.rows import (
    WHOLE,
    Keys,
    Kind,
    Rule,
    SettingRow,
    SettingTable,
    WriterContext,
)
from syncwall.describe.settings.settings import Settings
from syncwall.describe.switches import Optimizer, RecomputeModule
from syncwall.documents import Document

STAGES: Final = "--pipeline-model-parallel-layout"
_STRATEGIES: Final = {
    "no_shard": Shard.DDP,
    "optim": Shard.ZERO1,
    "optim_grads": Shard.ZERO2,
    "optim_grads_params": Shard.FSDP,
}
_CONTEXT: Final = {
    "p2p": ContextKind.RING,
    "a2a": ContextKind.ULYSSES,
    "allgather": ContextKind.ALL_GATHER,
}
_DISPATCHERS: Final = {"allgather": Dispatcher.ALL_GATHER, "alltoall": Dispatcher.ALL_TO_ALL}
_MICRO: Final = "--micro-batch-size"
_PP: Final = "--pipeline-model-parallel-size"
_WAITS: Final = "--no-overlap-p2p-communication"
_PP_FIRST: Final = ("tp", "cp", "ep", "pp", "dp")


class Arguments(Keys):
    """Arguments of a command; those whose value is a shell variable that nobody set are open."""

    def __init__(self, document: Document) -> None:
        self.words: dict[str, list[str]] = document.value
        first = {name: values[0] if values else True for name, values in self.words.items()}
        unset = {name: str(it) for name, it in first.items() if "$" in str(it)}
        known = {name: it for name, it in first.items() if name not in unset}
        super().__init__(Document(document.file, known, document.places))
        self.given: Final = frozenset(first)
        self.is_command: Final = _MICRO in first
        counted = {row.key for row in TABLE.rows if row.kind is WHOLE}
        for name in unset.keys() & (counted | {"--nnodes", "--nproc_per_node"}):
            said = f"{name} {unset[name][:40]}: the variable is not set above; left open"
            self.note(said, name)


SWITCH: Final = Kind(
    lambda keys, key: key in keys.given if key in keys.given or keys.is_command else None,
    lambda on: True if on else None,
)


def _given(meant: Any) -> Kind:
    """An argument without a value that says something only where it is given: `meant`."""
    return Kind(
        lambda keys, key: meant if key in keys.given else None,
        lambda value: True if value == meant else None,
    )


def read(document: Document) -> Settings:
    """What the arguments of `document` (see `formats.arguments_document`) state."""
    keys = Arguments(document)
    TABLE.read(keys)
    return keys.settings("megatron", "megatron-core")


def write(layout: Layout, context: WriterContext) -> str:
    """The arguments for `layout`, one a line."""
    found = TABLE.write(layout, context).items()
    return " \\\n".join(name if it is True else f"{name} {it}" for name, it in found) + "\n"


def _has_experts(layout: Layout, context: WriterContext) -> bool:
    return bool(layout.ep > 1 or layout.etp > 1 or context.experts)


def _read_machine(keys: Arguments) -> None:
    for name in ("--nnodes", "--nproc_per_node", "--nproc-per-node"):
        field = "run.nodes" if name == "--nnodes" else "run.gpus_per_node"
        keys.take(field, keys.whole(name), name)
    take_shape(keys, keys.given)
    if keys.layout.get("sp") and keys.layout.get("tp", 1 if keys.is_command else 2) == 1:
        keys.take("sp", False, "--sequence-parallel")  # it turns it off itself


def _read_context(keys: Arguments) -> None:
    name = "--cp-comm-type"
    if name not in keys.given:
        return
    kinds = {word for word in keys.words[name] if word in (*_CONTEXT, "a2a+p2p")}
    if len(kinds) == 1 and kinds <= set(_CONTEXT):
        keys.take("cp_kind", _CONTEXT[kinds.pop()], name)
        return
    stated = " ".join(keys.words[name])[:40]
    keys.note(f"{name} {stated} is not modelled: left open; known: {', '.join(_CONTEXT)}", name)


def _write_context(layout: Layout, _: WriterContext) -> dict[str, Any]:
    spelt = {kind: word for word, kind in _CONTEXT.items()}
    return {"--cp-comm-type": spelt[layout.cp_kind]} if layout.cp > 1 else {}


def _read_experts(keys: Arguments) -> None:
    has_experts = keys.degree("ep") > 1 or "--num-experts" in keys.given
    if has_experts and "etp" not in keys.layout and "tp" in keys.layout:
        # what it does where nobody says
        keys.take("etp", keys.layout["tp"], "--tensor-model-parallel-size")
    kind = keys.value("--moe-token-dispatcher-type")
    if kind in _DISPATCHERS or kind == "flex":
        backend = keys.value("--moe-flex-dispatcher-backend")
        flex = Dispatcher.HYBRIDEP if backend == "hybridep" else Dispatcher.DEEPEP
        keys.take("dispatcher", _DISPATCHERS.get(kind, flex), "--moe-token-dispatcher-type")
    if "--moe-pad-expert-input-to-capacity" in keys.given:
        keys.take("dropless", False, "--moe-pad-expert-input-to-capacity")


def _write_experts(layout: Layout, context: WriterContext) -> dict[str, Any]:
    if not _has_experts(layout, context):
        return {}
    spelt = {kind: word for word, kind in _DISPATCHERS.items()}
    flex = f"flex --moe-flex-dispatcher-backend {layout.dispatcher.text}"
    return {"--moe-token-dispatcher-type": spelt.get(layout.dispatcher, flex)}


def _read_shard(keys: Arguments) -> None:
    strategy = keys.word(_STRATEGIES, "--data-parallel-sharding-strategy")
    names = ("--use-megatron-fsdp", "--use-custom-fsdp")
    fsdp = next((name for name in names if name in keys.given), None)
    if "--use-torch-fsdp2" in keys.given:
        kept = "--torch-fsdp2-no-reshard-after-forward" in keys.given
        keys.take("shard", Shard.ZERO2 if kept else Shard.FSDP, "--use-torch-fsdp2")
    elif fsdp:
        keys.take("shard", Shard.FSDP if strategy is None else strategy, fsdp)
    elif "--use-distributed-optimizer" in keys.given:
        keys.take("shard", Shard.ZERO1, "--use-distributed-optimizer")
    elif keys.is_command:
        keys.take("shard", Shard.DDP, _MICRO)
    if keys.layout.get("shard", Shard.DDP) != Shard.DDP:
        copies = keys.whole("--num-distributed-optimizer-instances")
        keys.deferred["copies"] = copies if copies != 1 else None


def _write_shard(layout: Layout, _: WriterContext) -> dict[str, Any]:
    if layout.shard == Shard.DDP:
        return {}
    found: dict[str, Any] = {}
    if layout.shard != Shard.ZERO1:
        spelt = {shard: word for word, shard in _STRATEGIES.items()}
        strategy = f"--data-parallel-sharding-strategy {spelt[layout.shard]}"
        found["--use-megatron-fsdp"] = strategy
    found["--use-distributed-optimizer"] = True
    ranks = (layout.dp or 0) * layout.cp
    if layout.shard_degree and ranks > layout.shard_degree:
        found["--num-distributed-optimizer-instances"] = ranks // layout.shard_degree
    return found


def _read_pipeline(keys: Arguments) -> None:
    pp, at = keys.degree("pp"), "--num-virtual-stages-per-pipeline-rank"
    balances = ("--account-for-loss-in-pipeline-split", STAGES)
    balanced = next((name for name in balances if name in keys.given), None)
    if balanced or (keys.is_command and pp > 1):
        is_balanced = balanced is not None and not _is_plain(keys.value(STAGES))
        keys.take("balanced_stages", is_balanced, balanced or _PP)
    virtual = keys.whole(at)
    chunk = keys.whole("--num-layers-per-virtual-pipeline-stage")
    layers = keys.whole("--num-layers")
    ends = (f"--account-for-{end}-in-pipeline-split" for end in ("embedding", "loss"))
    keys.deferred["end_layers"] = end_layers = sum(name in keys.given for name in ends)
    if virtual is None and chunk is not None and layers is not None:
        at = "--num-layers-per-virtual-pipeline-stage"
        virtual = max(1, (layers + end_layers) // (pp * chunk))
        if virtual * pp * chunk != layers + end_layers:
            said = f"{layers} layers are not a multiple of pp {pp} x {chunk} layers a virtual stage"
            keys.complain(said, at)
    stages = keys.value(STAGES)
    if isinstance(stages, str):
        at, virtual = STAGES, _virtual_stages(keys, stages, pp)
    if virtual is None and chunk is None and keys.is_command and pp > 1:
        at, virtual = _PP, 1
    if virtual is None:
        keys.deferred["chunk_layers"] = chunk
        return
    keys.take("virtual_stages", virtual, at)
    keys.take("schedule", Schedule.INTERLEAVED if virtual > 1 else Schedule.ONE_F_ONE_B, at)


def _is_plain(stages: Any) -> bool:
    """True if layers are dealt out evenly, the first stages with one more, whatever else these hold."""
    if not isinstance(stages, str) or not set(stages) <= set("EtmL|"):
        return False
    parts, layers, further = stages.split("|"), stages.count("t"), stages.count("m")
    plain, balanced = (_stages(layers, len(parts), further, balanced=is_on) for is_on in (False, True))
    return stages == plain != balanced


def _virtual_stages(keys: Arguments, stages: str, pp: int) -> int | None:
    """Virtual stages of a rank where stages are listed, as in "Et|(tt|)*30L"."""
    groups: list[tuple[str, str]] = re.findall(r"\(([^()]*)\)\*(\d{1,4})", stages)
    repeated = sum(inner.count("|") * (int(times) - 1) for inner, times in groups)
    count = 1 + stages.count("|") + repeated
    if count % pp:
        keys.complain(f"{count} stages are not a multiple of pp {pp}", STAGES)
        return None
    return count // pp


def _write_pipeline(layout: Layout, context: WriterContext) -> dict[str, Any]:
    if layout.pp == 1:
        return {}
    found: dict[str, Any] = {}
    stages, layers = int(layout.pp * layout.virtual_stages), context.layers
    ends = layout.first_stage_layers is not None or layout.last_stage_layers is not None
    counted = 2 * bool(layout.balanced_stages)
    even = layers is None or ends or (layers + counted) % stages == 0
    if layers is not None and (not even or (counted and not ends and context.further_tokens)):
        found[STAGES] = f"'{_stages(layers, stages, context.further_tokens, balanced=counted > 0)}'"
    elif layout.schedule == Schedule.INTERLEAVED:
        found["--num-virtual-stages-per-pipeline-rank"] = int(layout.virtual_stages)
    if counted and layers is not None and not ends and STAGES not in found:
        found["--account-for-embedding-in-pipeline-split"] = True
        found["--account-for-loss-in-pipeline-split"] = True
    return found


def _stages(layers: int, stages: int, further_tokens: int = 0, *, balanced: bool) -> str:
    """Embedding, layers, layers of further tokens and loss (E, t, m, L) over `stages` stages.

    The first ones get what is left over. Where stages are `balanced`, all of them count as a layer.
    """
    units = [*"E" * balanced, *"t" * layers, *"m" * further_tokens * balanced, *"L" * balanced]
    each, more = divmod(len(units), stages)
    rest = iter(units)
    parts = ["".join(next(rest) for _ in range(each + (stage < more))) for stage in range(stages)]
    return _with_ends("|".join(parts), further_tokens)


def _with_ends(stages: str, further_tokens: int) -> str:
    """`stages` with the ends that stand where Megatron-LM wants them: all further tokens in the last."""
    plain = stages.translate(str.maketrans("", "", "EmL"))
    return f"E{plain}{'m' * further_tokens}L"


def _read_precision(keys: Arguments) -> None:
    """Without a number format, likely set elsewhere, all stay open."""
    dtypes = (Dtype.BF16, Dtype.FP16)
    plain = next((dtype for dtype in dtypes if f"--{dtype}" in keys.given), None)
    keys.take("precision", plain, f"--{plain}")
    if keys.given & {"--fp8-format", "--fp8-hybrid"}:
        recipe = keys.value("--fp8-recipe")
        if recipe == "blockwise":
            keys.software["fp8_scaling"] = "block"
        precision = Dtype.MXFP8 if recipe == "mxfp8" else Dtype.FP8
        keys.take("precision", precision, "--fp8-format")
        if "--fp8-param-gather" in keys.given:
            keys.take("gather_dtype", precision, "--fp8-param-gather")
    if "--fp4-format" in keys.given:
        keys.take("precision", Dtype.NVFP4, "--fp4-format")
    if "--first-last-layers-bf16" in keys.given:
        for end, field in (("start", "first_layers_bf16"), ("end", "last_layers_bf16")):
            name = f"--num-layers-at-{end}-in-bf16"
            found = keys.whole(name, least=0)
            keys.take(field, 1 if found is None else found, name)
    if plain is None:
        return
    reduced = Dtype.FP32
    if "--grad-reduce-in-bf16" in keys.given:
        reduced = Dtype.BF16
    elif plain == Dtype.FP16 and "--accumulate-allreduce-grads-in-fp32" not in keys.given:
        reduced = Dtype.FP16
    keys.take("gradient_dtype", reduced, f"--{plain}")
    elements = keys.whole("--ddp-bucket-size")
    if elements is not None:
        keys.take("bucket", f"{elements * int(reduced.size_bytes)} B", "--ddp-bucket-size")


def _write_precision(layout: Layout, context: WriterContext) -> dict[str, Any]:
    wide = layout.first_layers_bf16 or layout.last_layers_bf16
    some = layout.recompute_modules if layout.recompute == Recompute.SELECTIVE else ()
    current = wide or {"moe_act", "layernorm"} & {*some}  # beside which delayed scaling is refused
    recipe = "tensorwise" if current else None
    recipe = "blockwise" if context.software.fp8_scaling == "block" else recipe
    scaling = f" --fp8-recipe {recipe}" if recipe else ""
    low = {
        Dtype.FP8: ("--fp8-format", f"{'e4m3' if recipe == 'blockwise' else 'hybrid'}{scaling}"),
        Dtype.MXFP8: ("--fp8-format", "e4m3 --fp8-recipe mxfp8"),
        Dtype.NVFP4: ("--fp4-format", "e2m1"),
    }
    found: dict[str, Any] = {}
    half = layout.precision == Dtype.FP16
    if layout.precision != Dtype.FP32:
        found["--fp16" if half else "--bf16"] = True
    if layout.precision in low:
        name, value = low[layout.precision]
        found[name] = value
        if wide:
            found["--first-last-layers-bf16"] = True
            found["--num-layers-at-start-in-bf16"] = layout.first_layers_bf16
            found["--num-layers-at-end-in-bf16"] = layout.last_layers_bf16
    if layout.gather_dtype == layout.precision and layout.precision in (Dtype.FP8, Dtype.MXFP8):
        found["--fp8-param-gather"] = True
    if layout.gradient_dtype == Dtype.BF16 and layout.precision not in (Dtype.FP32, Dtype.FP16):
        found["--grad-reduce-in-bf16"] = True
    elif half and layout.gradient_dtype == Dtype.FP32:
        found["--accumulate-allreduce-grads-in-fp32"] = True
    elements = layout.bucket_bytes / layout.gradient_dtype.size_bytes
    if layout.shard == Shard.DDP and elements.is_integer() and elements >= 1:
        found["--ddp-bucket-size"] = int(elements)
    return found


def _read_recompute(keys: Arguments) -> None:
    at = "--recompute-granularity"
    granularity = keys.word({"full": Recompute.FULL, "selective": Recompute.SELECTIVE}, at)
    if "--recompute-activations" in keys.given:
        at, granularity = "--recompute-activations", Recompute.SELECTIVE
    if granularity is None and keys.is_command:
        at, granularity = _MICRO, Recompute.NONE
    keys.take("recompute", granularity, at)
    method = keys.word({"uniform": "uniform", "block": "block"}, "--recompute-method")
    layers = keys.whole("--recompute-num-layers")
    if granularity == Recompute.FULL and method == "block":  # said of each virtual stage
        layers = (layers or 1) * keys.degree("virtual_stages")
        keys.take("recompute_layers", layers, "--recompute-num-layers")
    modules = keys.words.get("--recompute-modules", [])
    if granularity == Recompute.SELECTIVE and modules:
        known = tuple(word for word in modules if word in get_args(RecomputeModule))
        keys.take("recompute_modules", known or None, "--recompute-modules")
        for word in modules:
            if word not in known:
                keys.note(f"recomputing {word[:40]} is not modelled", "--recompute-modules")


def _write_recompute(layout: Layout, _: WriterContext) -> dict[str, Any]:
    if layout.recompute == Recompute.SELECTIVE:
        modules = {"--recompute-modules": " ".join(layout.recompute_modules)}
        usual = layout.recompute_modules == ("core_attn",)
        return {"--recompute-activations": True, **({} if usual else modules)}
    if layout.recompute != Recompute.FULL:
        return {}
    layers, odd = divmod(layout.recompute_layers or 0, layout.virtual_stages)
    method = "uniform --recompute-num-layers 1"
    if layers and not odd:
        method = f"block --recompute-num-layers {layers}"
    return {"--recompute-granularity": f"full --recompute-method {method}"}


def _read_states(keys: Arguments) -> None:
    """Formats of the optimizer's states."""
    dtypes = {str(dtype): dtype for dtype in (Dtype.FP32, Dtype.BF16, Dtype.FP16, Dtype.FP8)}
    keys.take("moment_dtype", keys.word(dtypes, "--exp-avg-dtype"), "--exp-avg-dtype")
    optimizers = {one.text: one for one in (Optimizer.ADAM, Optimizer.SGD, Optimizer.MUON)}
    keys.take("optimizer", optimizers.get(keys.value("--optimizer")), "--optimizer")


def _write_states(layout: Layout, _: WriterContext) -> dict[str, Any]:
    found: dict[str, Any] = {}
    if layout.optimizer in (Optimizer.SGD, Optimizer.MUON):
        found["--optimizer"] = Optimizer(layout.optimizer).text
    if layout.moment_dtype in (Dtype.BF16, Dtype.FP16, Dtype.FP8):
        both = f"--exp-avg-dtype {layout.moment_dtype} --exp-avg-sq-dtype {layout.moment_dtype}"
        found["--use-precision-aware-optimizer"] = both
    elif layout.offload_optimizer:
        found["--use-precision-aware-optimizer"] = True
    return found


def _write_switches(layout: Layout, context: WriterContext) -> dict[str, Any]:
    split = layout.tp > 1 and (layout.sp or _has_experts(layout, context))  # experts and tp need it
    gathers_beside = layout.overlap_parameters and layout.overlap_gradients
    on = {
        "--sequence-parallel": split,
        "--overlap-grad-reduce": layout.overlap_gradients,
        "--overlap-param-gather": gathers_beside and layout.shard != Shard.DDP,
        "--tp-comm-overlap": layout.overlap_tp and split,
        "--overlap-moe-expert-parallel-comm": (
            layout.overlap_ep and layout.ep > 1 and layout.recompute != Recompute.FULL
        ),
        "--use-tp-pp-dp-mapping": layout.order == _PP_FIRST,
    }
    return {name: True for name, is_on in on.items() if is_on}


def _has_pipeline(layout: Layout, _: WriterContext) -> bool:
    return bool(layout.pp > 1)


def _may_wait_for_messages(layout: Layout, _: WriterContext) -> bool:
    """Pairs of ranks that interleave have no choice."""
    return bool(layout.pp > 1 + (layout.schedule == Schedule.INTERLEAVED))


TABLE: Final = SettingTable(
    SettingRow("tp", "--tensor-model-parallel-size"),
    SettingRow("pp", _PP),
    SettingRow("cp", "--context-parallel-size"),
    SettingRow("ep", "--expert-model-parallel-size", only=_has_experts),
    SettingRow("etp", "--expert-tensor-parallel-size", only=_has_experts),
    SettingRow("micro_batch", _MICRO),
    SettingRow("global_batch", "--global-batch-size"),
    SettingRow("run.seq", "--seq-length"),
    Rule(_read_machine),
    Rule(_read_context, _write_context),
    Rule(_read_experts, _write_experts),
    SettingRow("sp", "--sequence-parallel", SWITCH.unwritten),
    SettingRow("overlap_gradients", "--overlap-grad-reduce", SWITCH.unwritten),
    SettingRow("overlap_parameters", "--overlap-param-gather", SWITCH.unwritten),
    SettingRow("overlap_tp", "--tp-comm-overlap", SWITCH.unwritten),
    SettingRow("overlap_ep", "--overlap-moe-expert-parallel-comm", SWITCH.unwritten),
    SettingRow("order", "--use-tp-pp-dp-mapping", _given(_PP_FIRST).unwritten),
    Rule(write=_write_switches),
    Rule(_read_shard, _write_shard),
    Rule(_read_pipeline, _write_pipeline),
    SettingRow("first_stage_layers", "--decoder-first-pipeline-num-layers", only=_has_pipeline),
    SettingRow("last_stage_layers", "--decoder-last-pipeline-num-layers", only=_has_pipeline),
    SettingRow("overlap_pp", _WAITS, _given(False), only=_may_wait_for_messages),
    Rule(_read_precision, _write_precision),
    Rule(_read_recompute, _write_recompute),
    Rule(_read_states, _write_states),
    SettingRow("offload_optimizer", "--optimizer-cpu-offload", _given(True)),
    SettingRow(
        "offload_layers",
        "--cpu-offloading-num-layers",
        Kind(lambda keys, key: keys.whole(key, least=0), lambda layers: layers or None),
    ),
)
