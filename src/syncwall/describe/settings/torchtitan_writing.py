"""A layout as the TOML file of a torchtitan job (until release 0.2.2, February 2026).

Holds `write`.
"""

from typing import Any

from syncwall.describe.choice import Dtype
from syncwall.describe.layout import Layout, Recompute, Schedule, Shard
from syncwall.describe.settings.torchtitan import FLOAT8, MX, ROTATE, SCHEDULES, TABLE
from syncwall.describe.settings.wanted import Wanted


def write(layout: Layout, wanted: Wanted) -> str:
    """The tables of a job file for `layout`."""
    tables = {
        "training": _training(layout, wanted),
        TABLE: _parallelism(layout, wanted),
        "activation_checkpoint": _checkpointing(layout),
        "compile": {"enable": True},
    }
    if layout.precision in (Dtype.FP8, Dtype.MXFP8):
        words = FLOAT8 if layout.precision == Dtype.FP8 else MX
        tables = {"model": {"converters": [words[1]]}} | tables
    return "\n".join(
        f"[{name}]\n" + "".join(f"{key} = {_toml(value)}\n" for key, value in table.items())
        for name, table in tables.items()
        if table
    )


def _toml(value: Any) -> str:
    if isinstance(value, list):
        return f"[{', '.join(map(_toml, value))}]"
    if isinstance(value, bool):
        return str(value).lower()
    return f'"{value}"' if isinstance(value, str) else str(value)


def _training(layout: Layout, wanted: Wanted) -> dict[str, Any]:
    table: dict[str, Any] = {}
    if layout.pp == 1:
        table["local_batch_size"] = int(layout.micro_batch)
    elif layout.dp and layout.global_batch:
        table["local_batch_size"] = layout.global_batch // layout.dp
    if layout.global_batch:
        table["global_batch_size"] = int(layout.global_batch)
    if wanted.seq:
        table["seq_len"] = int(wanted.seq)
    plain = "float32" if layout.precision == Dtype.FP32 else "bfloat16"
    return table | {"mixed_precision_param": plain, "mixed_precision_reduce": "float32"}


def _parallelism(layout: Layout, wanted: Wanted) -> dict[str, Any]:
    replicas, sharded = _degrees(layout)
    table: dict[str, Any] = {
        "data_parallel_replicate_degree": replicas,
        "data_parallel_shard_degree": sharded,
    }
    if layout.shard != Shard.DDP:
        policy = "always" if layout.shard == Shard.FSDP else "never"
        table["fsdp_reshard_after_forward"] = policy
    table["tensor_parallel_degree"] = int(layout.tp)
    if layout.tp > 1:
        table["enable_async_tensor_parallel"] = bool(layout.overlap_tp)
    table["pipeline_parallel_degree"] = int(layout.pp)
    if layout.pp > 1:
        table |= _stages(layout, wanted)
    table["context_parallel_degree"] = int(layout.cp)
    for word, kind in ROTATE.items():
        if layout.cp > 1 and kind == layout.cp_kind:
            table["context_parallel_rotate_method"] = word
    if layout.ep > 1 or layout.etp > 1:
        table["expert_parallel_degree"] = int(layout.ep)
        if layout.etp in (1, layout.tp):  # it allows no other
            table["expert_tensor_parallel_degree"] = int(layout.etp)
        backend = "deepep" if layout.merged_ep else "standard"
        table["expert_parallel_comm_backend"] = backend
    return table


def _degrees(layout: Layout) -> tuple[int, int]:
    """Replicas and sharding ranks; -1 for what is left."""
    if layout.dp is None:
        return 1, -1
    if layout.shard == Shard.DDP:
        return int(layout.dp), 1
    whole = layout.dp * layout.cp
    copies = whole // (layout.shard_degree or whole)
    return copies, layout.dp // copies if layout.dp % copies == 0 else -1


def _stages(layout: Layout, wanted: Wanted) -> dict[str, Any]:
    names = {schedule: word for word, schedule in reversed(SCHEDULES.items())}
    table: dict[str, Any] = {"pipeline_parallel_microbatch_size": int(layout.micro_batch)}
    if layout.schedule in names:
        table["pipeline_parallel_schedule"] = names[layout.schedule]
    if layout.virtual_stages > 2 and wanted.layers:
        table |= _chunks(wanted.layers, layout.pp * layout.virtual_stages)
    if layout.schedule == Schedule.DUALPIPE and layout.ep > 1:
        table["pipeline_parallel_expert_parallel_overlap"] = bool(layout.overlap_ep)
    return table


def _chunks(layers: int, stages: int) -> dict[str, Any]:
    """Layers a virtual stage that make so many stages, embedding and head counted or not."""
    for ends in (1, 0):
        each = -(-(layers + 2 * ends) // stages)
        if -(-(layers + 2 * ends) // each) == stages:
            plain = "pipeline_parallel_{}_stage_less_layers"
            counted = {} if ends else {plain.format(end): 0 for end in ("first", "last")}
            return {"pipeline_parallel_layers_per_stage": each, **counted}
    return {}


def _checkpointing(layout: Layout) -> dict[str, Any]:
    if layout.recompute == Recompute.OPERATIONS:
        return {"mode": "selective", "selective_ac_option": "op"}
    words = {Recompute.NONE: "none", Recompute.FULL: "full"}
    return {"mode": words[layout.recompute]} if layout.recompute in words else {}
