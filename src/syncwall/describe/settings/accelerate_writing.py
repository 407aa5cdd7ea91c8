"""A layout as the YAML file of Hugging Face accelerate, for FSDP (version 2) or DDP.

Holds `write`.
"""

from typing import Any

from syncwall.describe.choice import Dtype
from syncwall.describe.layout import ContextKind, Layout, Recompute, Shard
from syncwall.describe.settings.wanted import Wanted


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
    sizes = _sizes(layout)
    if sizes:
        told["parallelism_config"] = {f"parallelism_config_{k}": v for k, v in sizes.items()}
    return _yaml(told)


def _sizes(layout: Layout) -> dict[str, Any]:
    """Sizes of the device mesh, if there is more to it than one axis."""
    if layout.dp is None or layout.shard == Shard.DDP:
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
