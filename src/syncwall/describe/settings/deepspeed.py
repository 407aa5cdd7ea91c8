"""Settings of DeepSpeed: its JSON configuration.

Holds `TABLE`, `read`, `write` and `take_offload`. Pipeline stages, experts and what is recomputed
are set in the training script, not here; "auto" leaves a value to the script too. Names and
defaults: `runtime/config.py` and `runtime/zero/config.py` of August 2026, which no longer have
MiCS; it is read, never written.
"""

import json
from typing import Any, Final

from syncwall.describe.choice import Dtype
from syncwall.describe.layout import ContextKind, Layout, Shard
from syncwall.describe.settings.rows import (
    Keys,
    Kind,
    Rule,
    SettingRow,
    SettingTable,
    WriterContext,
    nested_mapping,
)
from syncwall.describe.settings.settings import Settings
from syncwall.documents import Document

_KNOWN: Final = {
    "zero_optimization": """
        stage contiguous_gradients reduce_scatter reduce_bucket_size
        use_multi_rank_bucket_allreduce allgather_partitions allgather_bucket_size overlap_comm
        load_from_fp32_weights elastic_checkpoint offload_param offload_optimizer sub_group_size
        cpu_offload cpu_offload_param cpu_offload_use_pin_memory prefetch_bucket_size
        param_persistence_threshold model_persistence_threshold max_live_parameters
        max_reuse_distance gather_16bit_weights_on_model_save module_granularity_threshold
        use_all_reduce_for_fetch_params ignore_unused_parameters legacy_stage1
        round_robin_gradients zero_hpz_partition_size zero_quantized_weights
        zero_quantized_nontrainable_weights zero_quantized_gradients zeropp_loco_param
        mics_shard_size mics_hierarchical_params_gather memory_efficient_linear
        pipeline_loading_checkpoint override_module_apply log_trace_cache_warnings leaf_module
        enable_sanity_checks compute_grad_norm zenflow parameter_alignment
        save_muon_momentum_buffer_in_memory allgather_sequential
        stage3_prefetch_bucket_size stage3_param_persistence_threshold
        stage3_model_persistence_threshold stage3_max_live_parameters stage3_max_reuse_distance
        stage3_gather_16bit_weights_on_model_save stage3_gather_fp16_weights_on_model_save
        stage3_module_granularity_threshold stage3_use_all_reduce_for_fetch_params
        stage3_allgather_sequential"""
}
_ZERO: Final = "zero_optimization"
_SEQUENCE: Final = "sequence_parallel_size"
_DTYPES: Final = {"fp32": Dtype.FP32, "fp16": Dtype.FP16, "bf16": Dtype.BF16}


def read(document: Document) -> Settings:
    """What a configuration states."""
    keys = Keys(document)
    TABLE.read(keys)
    return keys.settings("deepspeed", "deepspeed", _KNOWN)


def write(layout: Layout, context: WriterContext) -> str:
    """The configuration for `layout`."""
    return json.dumps(nested_mapping(TABLE.write(layout, context)), indent=2) + "\n"


def read_stage(keys: Keys, key: str) -> Shard | None:
    """What the stage of ZeRO at `key` shards."""
    stage = keys.whole(key, least=0)
    if stage is not None and stage > 3:
        keys.complain(f'"{key.rpartition(".")[2]}" is {stage}: write 0, 1, 2 or 3', key)
        return None
    return None if stage is None else _STAGES[stage]


_STAGES: Final = (Shard.DDP, Shard.ZERO1, Shard.ZERO2, Shard.ZERO3)


def take_offload(keys: Keys, part: str, key: str) -> None:
    """State that "optimizer" or "param" is on the device named at `key`, unless that is none.

    From stage 2 on, gradients are where the optimizer is. NVMe is priced as the host's memory.
    """
    device, shard = keys.value(key), keys.layout.get("shard", Shard.DDP)
    if device in (None, "none"):
        return
    if device == "nvme":
        keys.note("nvme is priced as the memory of the host", key)
    if part == "param" and shard != Shard.ZERO3:
        keys.note("parameters are offloaded with stage 3 only: ignored", key)
        return
    keys.take("offload_weights" if part == "param" else "offload_optimizer", True, key)
    if part == "optimizer" and shard in (Shard.ZERO2, Shard.ZERO3):
        keys.take("offload_gradients", True, key)


def _read_offload(keys: Keys) -> None:
    for part in ("optimizer", "param"):
        if keys.value(f"{_ZERO}.offload_{part}"):
            take_offload(keys, part, f"{_ZERO}.offload_{part}.device")


def _write_offload(layout: Layout, _: WriterContext) -> dict[str, Any]:
    offloaded = {"optimizer": layout.offload_optimizer, "param": layout.offload_weights}
    return {f"{_ZERO}.offload_{part}.device": "cpu" for part, is_off in offloaded.items() if is_off}


def _note_pipeline(keys: Keys) -> None:
    if keys.value("pipeline"):
        keys.note('"pipeline" is not modelled: ignored', "pipeline")


def _read_precision(keys: Keys) -> None:
    spelt = "bf16" if keys.value("bf16") is not None else "bfloat16"
    brain, half = keys.flag(f"{spelt}.enabled"), keys.flag("fp16.enabled")
    if brain and half:
        keys.complain("bf16 and fp16 are both enabled", f"{spelt}.enabled")
    at = f"{'fp16' if half else spelt}.enabled"
    if brain or half:
        keys.take("precision", Dtype.BF16 if brain else Dtype.FP16, at)
    elif brain is False and half is False:
        keys.take("precision", Dtype.FP32, at)


def _write_precision(layout: Layout, _: WriterContext) -> dict[str, Any]:
    brain = layout.precision not in (Dtype.FP16, Dtype.FP32)
    return {"bf16.enabled": brain, "fp16.enabled": layout.precision == Dtype.FP16}


def _read_partition(keys: Keys, key: str) -> int | None:
    found = keys.whole(key, least=0)
    return found if found is not None and found > 1 else None


def _write_accumulated(layout: Layout, _: WriterContext) -> dict[str, Any]:
    known = layout.global_batch and layout.dp
    return {"gradient_accumulation_steps": int(layout.microbatches)} if known else {}


_INT8: Final = Kind.flag(Dtype.INT8, None)
_ONLY_TRUE: Final = Kind.flag(True, None)


def _shards_weights(stated: Any) -> bool:
    return bool(stated.shard == Shard.ZERO3)


TABLE: Final = SettingTable(
    SettingRow("global_batch", "train_batch_size"),
    SettingRow("micro_batch", "train_micro_batch_size_per_gpu"),
    SettingRow("deferred.accumulated", "gradient_accumulation_steps"),
    Rule(write=_write_accumulated),
    SettingRow("shard", f"{_ZERO}.stage", Kind(read_stage)),
    SettingRow("overlap_gradients", f"{_ZERO}.overlap_comm", Kind.flag()),
    SettingRow("overlap_parameters", f"{_ZERO}.overlap_comm", Kind.flag().unwritten, _shards_weights),
    SettingRow("shard_degree", f"{_ZERO}.mics_shard_size", Kind.whole(-1).unwritten, _shards_weights),
    Rule(_read_offload, _write_offload),
    SettingRow(
        "reshard_after_forward",
        f"{_ZERO}.zero_hpz_partition_size",
        Kind(_read_partition, lambda ranks: None if isinstance(ranks, bool) else ranks),
        _shards_weights,
    ),
    SettingRow("gather_dtype", f"{_ZERO}.zero_quantized_weights", _INT8, _shards_weights),
    SettingRow("quantized_gradients", f"{_ZERO}.zero_quantized_gradients", _ONLY_TRUE, _shards_weights),
    Rule(_read_precision, _write_precision),
    SettingRow("gradient_dtype", "communication_data_type", Kind.words(_DTYPES)),
    SettingRow("tp", "tensor_parallel.autotp_size", Kind.whole(0), only=lambda it, _: it.tp > 1),
    SettingRow("cp", _SEQUENCE, only=lambda it, _: it.cp > 1 and it.cp_kind == ContextKind.ULYSSES),
    SettingRow("cp_kind", _SEQUENCE, Kind.implied(ContextKind.ULYSSES), lambda it: it.cp > 1),
    Rule(_note_pipeline),
)
