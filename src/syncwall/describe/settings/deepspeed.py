"""Settings of DeepSpeed: its JSON configuration.

Holds `read`, `write` and `take_offload`. Pipeline stages, experts and what is recomputed are set in
the training script, not here; "auto" leaves a value to the script too. Names and defaults:
`runtime/config.py` and `runtime/zero/config.py` of August 2026, which no longer have MiCS; it is
read, never written.
"""

import json
from typing import Any, Final

from syncwall.describe.choice import Dtype
from syncwall.describe.layout import ContextKind, Layout, Shard
from syncwall.describe.settings.keys import DeferredSettings, Keys, Settings, Wanted
from syncwall.documents import Document

_ZERO: Final = "zero_optimization"
_DTYPES: Final = {"fp32": Dtype.FP32, "fp16": Dtype.FP16, "bf16": Dtype.BF16}
_STAGES: Final = {0: Shard.DDP, 1: Shard.ZERO1, 2: Shard.ZERO2, 3: Shard.ZERO3}


def read(document: Document) -> Settings:
    """What a configuration states."""
    keys = Keys(document)
    left = DeferredSettings(accumulated=read_into(keys))
    return keys.settings("deepspeed", "deepspeed", left)


def read_into(keys: Keys, *inside: str) -> int | None:
    """State what the mapping at `inside` says; micro batches of a replica, if it says them."""
    for field, key in (
        ("micro_batch", "train_micro_batch_size_per_gpu"),
        ("global_batch", "train_batch_size"),
    ):
        keys.take(field, keys.whole(*inside, key), *inside, key)
    _sharding(keys, *inside)
    _precision(keys, *inside)
    autotp = (*inside, "tensor_parallel", "autotp_size")
    keys.take("tp", keys.whole(*autotp, least=0) or None, *autotp)
    ranks = keys.whole(*inside, "sequence_parallel_size")
    keys.take("cp", ranks, *inside, "sequence_parallel_size")
    if ranks is not None and ranks > 1:
        keys.take("cp_kind", ContextKind.ULYSSES, *inside, "sequence_parallel_size")
    return keys.whole(*inside, "gradient_accumulation_steps")


def _sharding(keys: Keys, *inside: str) -> None:
    stage = keys.whole(*inside, _ZERO, "stage", least=0)
    at = (*inside, _ZERO, "stage")
    if stage is not None and stage not in _STAGES:
        keys.complain(f'"stage" is {stage}: write 0, 1, 2 or 3', *at)
    elif stage is not None:
        keys.take("shard", _STAGES[stage], *at)
    overlap = keys.flag(*inside, _ZERO, "overlap_comm")
    keys.take("overlap_gradients", overlap, *inside, _ZERO, "overlap_comm")
    if stage == 3:
        keys.take("overlap_parameters", overlap, *inside, _ZERO, "overlap_comm")
        degree = keys.whole(*inside, _ZERO, "mics_shard_size", least=-1)
        if degree is not None and degree > 0:
            keys.take("shard_degree", degree, *inside, _ZERO, "mics_shard_size")
        secondary = keys.whole(*inside, _ZERO, "zero_hpz_partition_size", least=0)
        if secondary is not None and secondary > 1:
            at = (*inside, _ZERO, "zero_hpz_partition_size")
            keys.take("reshard_after_forward", secondary, *at)
        if keys.flag(*inside, _ZERO, "zero_quantized_weights"):
            keys.take("gather_dtype", Dtype.INT8, *inside, _ZERO, "zero_quantized_weights")
        if keys.flag(*inside, _ZERO, "zero_quantized_gradients"):
            keys.take("quantized_gradients", True, *inside, _ZERO, "zero_quantized_gradients")
    for part in ("optimizer", "param"):
        section = (*inside, _ZERO, f"offload_{part}")
        if keys.value(*section):
            take_offload(keys, part, stage, *section, "device")
    if keys.value(*inside, "pipeline"):
        keys.note('"pipeline" is not modelled: ignored', *inside, "pipeline")


def take_offload(keys: Keys, part: str, stage: int | None, *at: str) -> None:
    """State that "optimizer" or "param" is on the device named at `at`, unless that is none.

    From stage 2 on, gradients are where the optimizer is. NVMe is priced as the host's memory.
    """
    device = keys.value(*at)
    if device in (None, "none"):
        return
    if device == "nvme":
        keys.note("nvme is priced as the memory of the host", *at)
    if part == "param" and stage != 3:
        keys.note("parameters are offloaded with stage 3 only: ignored", *at)
        return
    keys.take("offload_weights" if part == "param" else "offload_optimizer", True, *at)
    if part == "optimizer" and (stage or 0) >= 2:
        keys.take("offload_gradients", True, *at)


def _precision(keys: Keys, *inside: str) -> None:
    spelled = "bf16" if keys.value(*inside, "bf16") is not None else "bfloat16"
    brain = keys.flag(*inside, spelled, "enabled")
    half = keys.flag(*inside, "fp16", "enabled")
    if brain and half:
        keys.complain("bf16 and fp16 are both enabled", *inside, spelled, "enabled")
    at = (*inside, "fp16" if half else spelled, "enabled")
    if brain or half:
        keys.take("precision", Dtype.BF16 if brain else Dtype.FP16, *at)
    elif brain is False and half is False:
        keys.take("precision", Dtype.FP32, *at)
    at = (*inside, "communication_data_type")
    keys.take("gradient_dtype", keys.word(_DTYPES, *at), *at)


def write(layout: Layout, wanted: Wanted) -> str:
    """The configuration for `layout`."""
    told: dict[str, Any] = {}
    if layout.global_batch:
        told["train_batch_size"] = int(layout.global_batch)
    told["train_micro_batch_size_per_gpu"] = int(layout.micro_batch)
    if layout.global_batch and layout.dp:
        told["gradient_accumulation_steps"] = int(layout.microbatches)
    told[_ZERO] = _zero(layout)
    told["bf16"] = {"enabled": layout.precision not in (Dtype.FP16, Dtype.FP32)}
    told["fp16"] = {"enabled": layout.precision == Dtype.FP16}
    if layout.gradient_dtype in _DTYPES.values():
        told["communication_data_type"] = str(layout.gradient_dtype)
    if layout.tp > 1:
        told["tensor_parallel"] = {"autotp_size": int(layout.tp)}
    if layout.cp > 1 and layout.cp_kind == ContextKind.ULYSSES:
        told["sequence_parallel_size"] = int(layout.cp)
    return json.dumps(told, indent=2) + "\n"


def _zero(layout: Layout) -> dict[str, Any]:
    told: dict[str, Any] = {"stage": int(layout.shard)}
    told["overlap_comm"] = bool(layout.overlap_gradients)
    if layout.offload_optimizer:
        told["offload_optimizer"] = {"device": "cpu"}
    if layout.offload_weights:
        told["offload_param"] = {"device": "cpu"}
    if layout.shard == Shard.ZERO3:
        second = layout.reshard_after_forward
        if second is not None and not isinstance(second, bool):
            told["zero_hpz_partition_size"] = second
        if layout.gather_dtype == Dtype.INT8:
            told["zero_quantized_weights"] = True
        if layout.quantized_gradients:
            told["zero_quantized_gradients"] = True
    return told
