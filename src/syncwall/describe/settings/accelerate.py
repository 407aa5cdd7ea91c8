"""Settings of Hugging Face accelerate: the YAML file of `accelerate config`.

Holds `read`, for files that say FSDP, DDP, DeepSpeed or Megatron-LM, and `write`, for FSDP (version
2) and DDP. The batch is set in the training script. Names: `commands/launch.py` and
`commands/config/` of July 2026.
"""

from typing import Any, Final

from syncwall.describe.choice import Dtype
from syncwall.describe.layout import ContextKind, Layout, Recompute, Schedule, Shard
from syncwall.describe.names import files_refused
from syncwall.describe.settings import deepspeed
from syncwall.describe.settings.models import named_document
from syncwall.describe.settings.rows import (
    Keys,
    Kind,
    Rule,
    SettingRow,
    SettingTable,
    WriterContext,
    cpu_offload,
    nested_mapping,
)
from syncwall.describe.settings.settings import Settings
from syncwall.documents import Document

_KNOWN: Final = {
    "fsdp_config": """
        fsdp_version fsdp_sharding_strategy fsdp_reshard_after_forward fsdp_auto_wrap_policy
        fsdp_transformer_layer_cls_to_wrap fsdp_min_num_params fsdp_backward_prefetch
        fsdp_backward_prefetch_policy fsdp_forward_prefetch fsdp_offload_params
        fsdp_state_dict_type fsdp_cpu_ram_efficient_loading fsdp_sync_module_states
        fsdp_use_orig_params fsdp_activation_checkpointing fsdp_ignored_modules"""
}
_PRECISIONS: Final = {"no": None, "fp16": Dtype.FP16, "bf16": Dtype.BF16, "fp8": Dtype.FP8}
_TYPES: Final = {
    "FSDP": "fsdp",
    **{f"MULTI_{kind}": "ddp" for kind in ("GPU", "CPU", "HPU", "MLU", "NPU", "XPU")},
    "DEEPSPEED": "deepspeed",
    "MEGATRON_LM": "megatron",
    "NO": "ddp",
}
_SECTIONS: Final = {
    "fsdp": "fsdp_config",
    "deepspeed": "deepspeed_config",
    "megatron": "megatron_lm_config",
}
_FRAMEWORKS: Final = {"deepspeed": "deepspeed", "megatron": "megatron-core"}
_IN_NODE: Final = {
    "HYBRID_SHARD": Shard.FSDP,
    "4": Shard.FSDP,
    "HYBRID_SHARD_ZERO2": Shard.ZERO2,
    "5": Shard.ZERO2,
}
"""Strategies in which every node holds a copy."""
_STRATEGIES: Final = {
    "FULL_SHARD": Shard.FSDP,
    "1": Shard.FSDP,
    "SHARD_GRAD_OP": Shard.ZERO2,
    "2": Shard.ZERO2,
    "NO_SHARD": Shard.DDP,
    "3": Shard.DDP,
    **_IN_NODE,
}
_RESHARD: Final = {
    "true": Shard.FSDP,
    "false": Shard.ZERO2,
    "FULL_SHARD": Shard.FSDP,
    "SHARD_GRAD_OP": Shard.ZERO2,
    "NO_RESHARD": Shard.ZERO2,
}
_ROTATE: Final = {"allgather": ContextKind.ALL_GATHER, "alltoall": ContextKind.RING}
_MESH: Final = "parallelism_config"


def read(document: Document) -> Settings:
    """What a configuration states."""
    keys = Keys(document)
    kind = keys.word(_TYPES, "distributed_type")
    for name, section in _SECTIONS.items():
        kind = name if kind is None and keys.value(section) else kind
    _read_machine(keys)
    keys.take("precision", keys.word(_PRECISIONS, "mixed_precision"), "mixed_precision")
    keys.deferred["accumulated"] = keys.whole("gradient_accumulation_steps")
    if kind == "fsdp":
        _FSDP.read(keys)
    elif kind == "ddp":
        keys.take("shard", Shard.DDP, "distributed_type")
    elif kind == "deepspeed":
        _read_deepspeed(keys)
    elif kind == "megatron":
        _MEGATRON.read(keys)
    _read_mesh(keys)
    if keys.value("dynamo_config"):
        keys.software["kernels"] = "fused"
    return keys.settings("accelerate", _FRAMEWORKS.get(kind or "", "pytorch"), _KNOWN)


def write(layout: Layout, context: WriterContext) -> str:
    """The configuration for `layout`."""
    sharded = layout.shard != Shard.DDP
    spelt = {Dtype.FP32: "no", Dtype.FP16: "fp16", Dtype.FP8: "fp8"}
    found: dict[str, Any] = {
        "compute_environment": "LOCAL_MACHINE",
        "distributed_type": "FSDP" if sharded else "MULTI_GPU",
        "mixed_precision": f"'{spelt.get(layout.precision, 'bf16')}'",
    }
    if context.nodes and context.gpus_per_node:
        found["num_machines"] = int(context.nodes)
        found["num_processes"] = int(context.nodes * context.gpus_per_node)
    if sharded:
        found |= _FSDP.write(layout, context)
    if context.software.kernels == "fused":
        found["dynamo_config.dynamo_backend"] = "INDUCTOR"
    if sharded:
        found |= {f"{_MESH}.{_MESH}_{key}": it for key, it in _mesh_sizes(layout).items()}
    return _yaml(nested_mapping(found))


def _yaml(mapping: dict[str, Any], indent: str = "") -> str:
    lines = []
    for key, value in mapping.items():
        if isinstance(value, dict):
            lines += [f"{indent}{key}:\n", _yaml(value, indent + "  ")]
        else:
            word = str(value).lower() if isinstance(value, bool) else value
            lines.append(f"{indent}{key}: {word}\n")
    return "".join(lines)


def _read_machine(keys: Keys) -> None:
    nodes, processes = keys.whole("num_machines"), keys.whole("num_processes", least=-1)
    keys.take("run.nodes", nodes, "num_machines")
    if processes is None or processes < 1:
        return
    each, odd = divmod(processes, nodes or 1)
    if odd or not each:
        keys.complain(f"{processes} processes do not fit {nodes} machines", "num_processes")
    else:
        keys.take("run.gpus_per_node", each, "num_processes")
        keys.take("run.nodes", nodes or 1, "num_processes")


def _read_fsdp(keys: Keys) -> None:
    at = "fsdp_config.fsdp_sharding_strategy"
    strategy = keys.word(_STRATEGIES, at)
    reshard = keys.word(_RESHARD, "fsdp_config.fsdp_reshard_after_forward")
    second = keys.whole("fsdp_config.fsdp_version") == 2
    keys.deferred["shard_in_node"] = not second and str(keys.value(at)).upper() in _IN_NODE
    if strategy is not None and not second:
        keys.take("shard", strategy, at)
    else:
        at = "fsdp_config.fsdp_reshard_after_forward"
        keys.take("shard", Shard.FSDP if reshard is None else reshard, at)
    prefetch = keys.value("fsdp_config.fsdp_backward_prefetch")
    if str(prefetch).upper() == "NO_PREFETCH":
        keys.take("overlap_parameters", False, "fsdp_config.fsdp_backward_prefetch")


def _write_fsdp(layout: Layout, _: WriterContext) -> dict[str, Any]:
    return {
        "fsdp_config.fsdp_version": 2,
        "fsdp_config.fsdp_auto_wrap_policy": "TRANSFORMER_BASED_WRAP",
        "fsdp_config.fsdp_reshard_after_forward": layout.shard == Shard.FSDP,
    }


RECOMPUTES_ALL: Final = Kind.flag(Recompute.FULL, Recompute.NONE)
_FSDP: Final = SettingTable(
    Rule(_read_fsdp, _write_fsdp),
    SettingRow("recompute", "fsdp_config.fsdp_activation_checkpointing", RECOMPUTES_ALL),
    cpu_offload("fsdp_config.fsdp_offload_params"),
)
"""What `fsdp_config` says of a layout."""


def _read_deepspeed(keys: Keys) -> None:
    at = "deepspeed_config.deepspeed_config_file"
    file = keys.value(at)
    if file is None:
        stage = "deepspeed_config.zero_stage"
        keys.take("shard", deepspeed.read_stage(keys, stage), stage)
        for part in ("optimizer", "param"):
            deepspeed.take_offload(keys, part, f"deepspeed_config.offload_{part}_device")
        accumulated = keys.whole("deepspeed_config.gradient_accumulation_steps")
        keys.deferred["accumulated"] = accumulated or keys.deferred["accumulated"]
        return
    try:
        inner = deepspeed.read(named_document(str(file), keys))
    except (ValueError, OSError) as error:  # also a name that cannot be one
        say = keys.note if files_refused() else keys.complain
        say(f"the DeepSpeed file has problems: {error}", at)
        return
    for field, value in inner.layout.items():
        keys.take(field, value, at)
    keys.deferred["accumulated"] = inner.left.accumulated or keys.deferred["accumulated"]


def _read_megatron(keys: Keys) -> None:
    section = "megatron_lm_config"
    prefix = f"{section}.megatron_lm_"
    sharded = keys.flag(f"{prefix}use_distributed_optimizer")
    if sharded is not None:
        keys.take("shard", Shard.ZERO1 if sharded else Shard.DDP, section)
    if keys.flag(f"{prefix}use_custom_fsdp"):
        keys.take("shard", Shard.FSDP, section)
    full = keys.word({"full": True, "selective": False}, f"{prefix}recompute_granularity")
    some = keys.flag(f"{prefix}recompute_activations")
    if full is not None or some is not None:
        what = Recompute.SELECTIVE if some or full is False else Recompute.NONE
        keys.take("recompute", Recompute.FULL if full else what, section)
    if keys.degree("pp") > 1:  # accelerate offers no other
        keys.take("schedule", Schedule.ONE_F_ONE_B, section)
        keys.take("virtual_stages", 1, section)
    accumulated = keys.whole(f"{prefix}num_micro_batches")
    keys.deferred["accumulated"] = accumulated or keys.deferred["accumulated"]


_MEGATRON: Final = SettingTable(
    SettingRow("tp", "megatron_lm_config.megatron_lm_tp_degree"),
    SettingRow("pp", "megatron_lm_config.megatron_lm_pp_degree"),
    SettingRow("cp", "megatron_lm_config.megatron_lm_context_parallel_size"),
    SettingRow("ep", "megatron_lm_config.megatron_lm_expert_model_parallel_size"),
    SettingRow("etp", "megatron_lm_config.megatron_lm_expert_tensor_parallel_size"),
    SettingRow("sp", "megatron_lm_config.megatron_lm_sequence_parallelism", Kind.flag()),
    Rule(_read_megatron),
)
"""What `megatron_lm_config` says of a layout; never written."""


def _read_mesh(keys: Keys) -> None:
    if keys.value(_MESH) is None:
        return
    sizes: dict[str, int | None] = {}
    for size in ("dp_replicate", "dp_shard", "tp", "cp", "sp"):
        prefixed = f"{_MESH}.{_MESH}_{size}_size"
        plain = f"{_MESH}.{size}_size"
        sizes[size] = keys.whole(prefixed if keys.value(prefixed) is not None else plain)
    keys.take("tp", sizes["tp"], _MESH)
    ranks = sizes["cp"]
    if (sizes["sp"] or 1) > 1:
        ranks = sizes["sp"]
        keys.take("cp_kind", ContextKind.ULYSSES, _MESH)
    elif (ranks or 1) > 1:
        at = f"{_MESH}.{_MESH}_cp_comm_strategy"
        rotate = keys.word(_ROTATE, at)
        keys.take("cp_kind", ContextKind.ALL_GATHER if rotate is None else rotate, at)
    keys.take("cp", ranks, _MESH)
    if sizes["dp_replicate"] is None and sizes["dp_shard"] is None:
        return
    copies, sharded = sizes["dp_replicate"] or 1, sizes["dp_shard"] or 1
    keys.take("dp", copies * sharded, _MESH)
    if copies > 1 and keys.layout.get("shard", Shard.DDP) != Shard.DDP:
        keys.take("shard_degree", sharded * (ranks or 1), _MESH)


def _mesh_sizes(layout: Layout) -> dict[str, Any]:
    ranks = layout.dp * layout.cp
    copies = ranks // (layout.shard_degree or ranks)
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
