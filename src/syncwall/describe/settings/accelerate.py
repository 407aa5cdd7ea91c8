"""Settings of Hugging Face accelerate: the YAML file of `accelerate config`.

Holds `read`, for files that say FSDP, DDP, DeepSpeed or Megatron-LM, and `write`, for FSDP (version
2) and DDP. The batch is set in the training script. Names: `commands/launch.py` and
`commands/config/` of July 2026.
"""

from pathlib import Path
from typing import Any, Final

from syncwall.describe.choice import Dtype
from syncwall.describe.layout import ContextKind, Layout, Recompute, Schedule, Shard
from syncwall.describe.names import files_refused
from syncwall.describe.settings import deepspeed
from syncwall.describe.settings.cpu_offload import has_cpu_offload, take_cpu_offload
from syncwall.describe.settings.keys import DeferredSettings, Keys, Settings, Wanted
from syncwall.describe.settings.named_files import named_document
from syncwall.documents import Document

_PRECISIONS: Final = {"no": None, "fp16": Dtype.FP16, "bf16": Dtype.BF16, "fp8": Dtype.FP8}
_TYPES: Final = {
    "FSDP": "fsdp",
    "MULTI_GPU": "ddp",
    **dict.fromkeys(("MULTI_CPU", "MULTI_HPU", "MULTI_MLU", "MULTI_NPU", "MULTI_XPU"), "ddp"),
    "DEEPSPEED": "deepspeed",
    "MEGATRON_LM": "megatron",
    "NO": "ddp",
}
_STRATEGIES: Final = {
    "FULL_SHARD": Shard.FSDP, "1": Shard.FSDP, "SHARD_GRAD_OP": Shard.ZERO2, "2": Shard.ZERO2,
    "NO_SHARD": Shard.DDP, "3": Shard.DDP, "HYBRID_SHARD": Shard.FSDP, "4": Shard.FSDP,
    "HYBRID_SHARD_ZERO2": Shard.ZERO2, "5": Shard.ZERO2,
}  # fmt: skip
_IN_NODE: Final = ("HYBRID_SHARD", "4", "HYBRID_SHARD_ZERO2", "5")
_RESHARD: Final = {
    "true": Shard.FSDP, "false": Shard.ZERO2, "FULL_SHARD": Shard.FSDP,
    "SHARD_GRAD_OP": Shard.ZERO2, "NO_RESHARD": Shard.ZERO2,
}  # fmt: skip
_ROTATE: Final = {"allgather": ContextKind.ALL_GATHER, "alltoall": ContextKind.RING}
_FRAMEWORKS: Final = {"deepspeed": "deepspeed", "megatron": "megatron-core"}


def read(document: Document) -> Settings:
    """What a configuration states."""
    keys = Keys(document)
    kind = keys.word(_TYPES, "distributed_type")
    for name, section in (
        ("fsdp", "fsdp_config"),
        ("deepspeed", "deepspeed_config"),
        ("megatron", "megatron_lm_config"),
    ):
        kind = name if kind is None and keys.value(section) else kind
    _machine(keys)
    keys.take("precision", keys.word(_PRECISIONS, "mixed_precision"), "mixed_precision")
    accumulated = keys.whole("gradient_accumulation_steps")
    in_node = False
    if kind == "fsdp":
        in_node = _fsdp(keys)
    elif kind == "ddp":
        keys.take("shard", Shard.DDP, "distributed_type")
    elif kind == "deepspeed":
        accumulated = _deepspeed(keys, Path(document.file).parent) or accumulated
    elif kind == "megatron":
        accumulated = _megatron(keys) or accumulated
    _parallelism(keys)
    if keys.value("dynamo_config"):
        keys.software["kernels"] = "fused"
    left = DeferredSettings(accumulated=accumulated, shard_in_node=in_node)
    return keys.settings("accelerate", _FRAMEWORKS.get(kind or "", "pytorch"), left)


def _machine(keys: Keys) -> None:
    nodes, processes = keys.whole("num_machines"), keys.whole("num_processes", least=-1)
    keys.take_run("nodes", nodes, "num_machines")
    if processes is None or processes < 1:
        return
    each, odd = divmod(processes, nodes or 1)
    if odd or not each:
        keys.complain(f"{processes} processes do not fit {nodes} machines", "num_processes")
    else:
        keys.take_run("gpus_per_node", each, "num_processes")
        keys.take_run("nodes", nodes or 1, "num_processes")


def _fsdp(keys: Keys) -> bool:
    """State what FSDP shards; True if every node holds a copy."""
    at = ("fsdp_config", "fsdp_sharding_strategy")
    strategy = keys.word(_STRATEGIES, *at)
    reshard = keys.word(_RESHARD, "fsdp_config", "fsdp_reshard_after_forward")
    second = keys.whole("fsdp_config", "fsdp_version") == 2
    if strategy is not None and not second:
        keys.take("shard", strategy, *at)
    else:
        at = ("fsdp_config", "fsdp_reshard_after_forward")
        keys.take("shard", Shard.FSDP if reshard is None else reshard, *at)
    again = keys.flag("fsdp_config", "fsdp_activation_checkpointing")
    if again is not None:
        what = Recompute.FULL if again else Recompute.NONE
        keys.take("recompute", what, "fsdp_config", "fsdp_activation_checkpointing")
    prefetch = keys.value("fsdp_config", "fsdp_backward_prefetch")
    if str(prefetch).upper() == "NO_PREFETCH":
        keys.take("overlap_parameters", False, "fsdp_config", "fsdp_backward_prefetch")
    if keys.flag("fsdp_config", "fsdp_offload_params"):
        take_cpu_offload(keys, "fsdp_config", "fsdp_offload_params")
    named = str(keys.value("fsdp_config", "fsdp_sharding_strategy")).upper()
    return named in _IN_NODE and not second


def _deepspeed(keys: Keys, directory: Path) -> int | None:
    at = ("deepspeed_config", "deepspeed_config_file")
    file = keys.value(*at)
    if file is None:
        stage = keys.whole("deepspeed_config", "zero_stage", least=0)
        if stage is not None and stage > 3:
            keys.complain(
                f'"zero_stage" is {stage}: write 0, 1, 2 or 3', "deepspeed_config", "zero_stage"
            )
        elif stage is not None:
            keys.take("shard", Shard(stage), "deepspeed_config", "zero_stage")
        for part in ("optimizer", "param"):
            where = ("deepspeed_config", f"offload_{part}_device")
            deepspeed.take_offload(keys, part, stage, *where)
        return keys.whole("deepspeed_config", "gradient_accumulation_steps")
    try:
        inner = deepspeed.read(named_document(str(file), directory))
    except (ValueError, OSError) as error:  # also a name that cannot be one
        say = keys.note if files_refused() else keys.complain
        say(f"the DeepSpeed file has problems: {error}", *at)
        return None
    for field, value in inner.layout.items():
        keys.take(field, value, *at)
    return inner.left.accumulated


def _megatron(keys: Keys) -> int | None:
    """State what `megatron_lm_config` says; micro batches of a replica, if it says them."""
    section, prefix = "megatron_lm_config", "megatron_lm_"
    for field, key in (
        ("tp", "tp_degree"),
        ("pp", "pp_degree"),
        ("cp", "context_parallel_size"),
        ("ep", "expert_model_parallel_size"),
        ("etp", "expert_tensor_parallel_size"),
    ):
        keys.take(field, keys.whole(section, prefix + key), section, prefix + key)
    keys.take("sp", keys.flag(section, f"{prefix}sequence_parallelism"), section)
    sharded = keys.flag(section, f"{prefix}use_distributed_optimizer")
    if sharded is not None:
        keys.take("shard", Shard.ZERO1 if sharded else Shard.DDP, section)
    if keys.flag(section, f"{prefix}use_custom_fsdp"):
        keys.take("shard", Shard.FSDP, section)
    full = keys.word({"full": True, "selective": False}, section, f"{prefix}recompute_granularity")
    some = keys.flag(section, f"{prefix}recompute_activations")
    if full is not None or some is not None:
        what = Recompute.SELECTIVE if some or full is False else Recompute.NONE
        keys.take("recompute", Recompute.FULL if full else what, section)
    if keys.layout.get("pp", 1) > 1:  # accelerate offers no other
        keys.take("schedule", Schedule.ONE_F_ONE_B, section)
        keys.take("virtual_stages", 1, section)
    return keys.whole(section, f"{prefix}num_micro_batches")


def _parallelism(keys: Keys) -> None:
    section = "parallelism_config"
    if keys.value(section) is None:
        return
    sizes: dict[str, int | None] = {}
    for size in ("dp_replicate", "dp_shard", "tp", "cp", "sp"):
        prefixed = f"{section}_{size}_size"
        key = prefixed if keys.value(section, prefixed) is not None else f"{size}_size"
        sizes[size] = keys.whole(section, key)
    keys.take("tp", sizes["tp"], section)
    ranks = sizes["cp"]
    if (sizes["sp"] or 1) > 1:
        ranks = sizes["sp"]
        keys.take("cp_kind", ContextKind.ULYSSES, section)
    elif (ranks or 1) > 1:
        at = (section, f"{section}_cp_comm_strategy")
        rotate = keys.word(_ROTATE, *at)
        keys.take("cp_kind", ContextKind.ALL_GATHER if rotate is None else rotate, *at)
    keys.take("cp", ranks, section)
    if sizes["dp_replicate"] is None and sizes["dp_shard"] is None:
        return
    copies, sharded = sizes["dp_replicate"] or 1, sizes["dp_shard"] or 1
    keys.take("dp", copies * sharded, section)
    if copies > 1 and keys.layout.get("shard", Shard.DDP) != Shard.DDP:
        keys.take("shard_degree", sharded * (ranks or 1), section)


def write(layout: Layout, wanted: Wanted) -> str:
    """The configuration for `layout`."""
    sharded = layout.shard != Shard.DDP
    words = {Dtype.FP32: "no", Dtype.FP16: "fp16", Dtype.FP8: "fp8"}
    told: dict[str, Any] = {
        "compute_environment": "LOCAL_MACHINE",
        "distributed_type": "FSDP" if sharded else "MULTI_GPU",
        "mixed_precision": f"'{words.get(layout.precision, 'bf16')}'",
    }
    if wanted.nodes and wanted.gpus_per_node:
        told["num_machines"] = int(wanted.nodes)
        told["num_processes"] = int(wanted.nodes * wanted.gpus_per_node)
    if sharded:
        told["fsdp_config"] = {
            "fsdp_version": 2,
            "fsdp_auto_wrap_policy": "TRANSFORMER_BASED_WRAP",
            "fsdp_reshard_after_forward": layout.shard == Shard.FSDP,
        }
        if layout.recompute in (Recompute.NONE, Recompute.FULL):
            again = layout.recompute == Recompute.FULL
            told["fsdp_config"]["fsdp_activation_checkpointing"] = again
        if has_cpu_offload(layout):
            told["fsdp_config"]["fsdp_offload_params"] = True
    if wanted.software.kernels == "fused":
        told["dynamo_config"] = {"dynamo_backend": "INDUCTOR"}
    sizes = _sizes(layout)
    if sizes:
        told["parallelism_config"] = {f"parallelism_config_{k}": v for k, v in sizes.items()}
    return _yaml(told)


def _sizes(layout: Layout) -> dict[str, Any]:
    """Sizes of the device mesh, if there is more to it than one axis."""
    if layout.shard == Shard.DDP:
        return {}
    whole = layout.dp * layout.cp
    copies = whole // (layout.shard_degree or whole)
    if layout.dp % copies:
        copies = 1
    ulysses = layout.cp_kind == ContextKind.ULYSSES
    sizes: dict[str, Any] = {
        "dp_replicate_size": copies,
        "dp_shard_size": int(layout.dp // copies),
        "tp_size": int(layout.tp),
        "cp_size": 1 if ulysses else int(layout.cp),
    }
    if layout.cp > 1 and ulysses:
        return sizes | {"sp_size": int(layout.cp), "sp_backend": "deepspeed"}
    if layout.cp > 1:
        ring = layout.cp_kind == ContextKind.RING
        sizes["cp_comm_strategy"] = "alltoall" if ring else "allgather"
    return sizes


def _yaml(told: dict[str, Any], indent: str = "") -> str:
    lines = []
    for key, value in told.items():
        if isinstance(value, dict):
            lines += [f"{indent}{key}:\n", _yaml(value, indent + "  ")]
        else:
            word = str(value).lower() if isinstance(value, bool) else value
            lines.append(f"{indent}{key}: {word}\n")
    return "".join(lines)
