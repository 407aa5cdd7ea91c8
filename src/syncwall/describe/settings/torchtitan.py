"""Settings of torchtitan: the TOML file of a job, as it was until release 0.2.2 (February 2026).

Holds `TABLE`, `read` and `write`. Later releases describe a job in Python; their
`--parallelism.KEY` flags are read from shell scripts as far as the names are the same. Key names
and defaults: torchtitan's `config/job_config.py` and `distributed/` of 2026-02-23.
"""

from typing import Any, Final

from syncwall.describe.choice import Dtype
from syncwall.describe.layout import ContextKind, Dispatcher, Layout, Recompute, Schedule, Shard
from syncwall.describe.settings.models import take_flavor
from syncwall.describe.settings.rows import (
    Keys,
    Kind,
    Rule,
    SettingRow,
    SettingTable,
    WriterContext,
    cpu_offload,
)
from syncwall.describe.settings.settings import Settings
from syncwall.documents import Document

_KNOWN: Final = {
    "parallelism": """
        data_parallel_replicate_degree data_parallel_shard_degree fsdp_reshard_after_forward
        tensor_parallel_degree disable_loss_parallel enable_async_tensor_parallel
        enable_compiled_autograd context_parallel_degree context_parallel_rotate_method
        context_parallel_load_balancer expert_parallel_degree expert_tensor_parallel_degree
        expert_parallel_comm_backend module_fqns_per_model_part
        pipeline_parallel_degree pipeline_parallel_split_points
        pipeline_parallel_first_stage_less_layers pipeline_parallel_last_stage_less_layers
        pipeline_parallel_layers_per_stage pipeline_parallel_schedule
        pipeline_parallel_schedule_csv pipeline_parallel_microbatch_size
        pipeline_parallel_expert_parallel_overlap""",
    "activation_checkpoint": """
        mode selective_ac_option per_op_sac_force_recompute_mm_shapes_by_fqns early_stop
        memory_budget visualize_memory_budget_pareto preserve_rng_state determinism_check debug""",
}
_SCHEDULES: Final = {
    "1F1B": Schedule.ONE_F_ONE_B,
    "GPipe": Schedule.GPIPE,
    "Interleaved1F1B": Schedule.INTERLEAVED,
    "ZBVZeroBubble": Schedule.ZERO_BUBBLE_V,
    "DualPipeV": Schedule.DUALPIPE_V,
    "InterleavedZeroBubble": Schedule.ZERO_BUBBLE,
}
_DTYPES: Final = {"bfloat16": Dtype.BF16, "float32": Dtype.FP32}
_CONVERTERS: Final = {
    Dtype.FP8: ("quantize.linear.float8", "float8", "quantize.dense.float8"),
    Dtype.MXFP8: ("quantize.linear.mx", "mx", "quantize.dense.mx"),
}
_GATHER: Final = "float8.enable_fsdp_float8_all_gather"
"""Below `quantize.linear` since release 0.2."""
_ROTATE: Final = {"allgather": ContextKind.ALL_GATHER, "alltoall": ContextKind.RING}
_DISPATCHERS: Final = {"standard": Dispatcher.ALL_TO_ALL, "deepep": Dispatcher.DEEPEP}
_TP: Final = "parallelism.tensor_parallel_degree"
_ASYNC: Final = "parallelism.enable_async_tensor_parallel"
_CP_KIND: Final = "parallelism.context_parallel_rotate_method"
_DISPATCHER: Final = "parallelism.expert_parallel_comm_backend"
_REPLICAS: Final = "parallelism.data_parallel_replicate_degree"
_SHARDS: Final = "parallelism.data_parallel_shard_degree"
_RESHARD: Final = "parallelism.fsdp_reshard_after_forward"
_POLICIES: Final[dict[bool | int | None, str]] = {True: "always", False: "never", None: "default"}
_PIPELINE: Final = "parallelism.pipeline_parallel_"
_MODE: Final = "activation_checkpoint.mode"
_NTH: Final = "activation_checkpoint.selective_ac_option"
_LOCAL: Final = "training.local_batch_size"
_ORDER: Final = ("model", "training", "parallelism")
"""Tables of a file that come first."""


def read(document: Document) -> Settings:
    """What a job file states."""
    keys = Keys(document)
    TABLE.read(keys)
    return keys.settings("torchtitan", "torchtitan", _KNOWN)


def write(layout: Layout, context: WriterContext) -> str:
    """The tables of a job file for `layout`."""
    tables: dict[str, list[str]] = {name: [] for name in _ORDER}
    for path, value in TABLE.write(layout, context).items():
        table, _, key = path.rpartition(".")
        tables.setdefault(table, []).append(f"{key} = {_toml(value)}\n")
    return "\n".join(f"[{name}]\n" + "".join(lines) for name, lines in tables.items() if lines)


def _toml(value: Any) -> str:
    if isinstance(value, list):
        return f"[{', '.join(map(_toml, value))}]"
    if isinstance(value, bool):
        return str(value).lower()
    return f'"{value}"' if isinstance(value, str) else str(value)


def _read_data_parallel(keys: Keys) -> None:
    replicas, found = keys.whole(_REPLICAS) or 1, keys.whole(_SHARDS, least=-1)
    if found == 0:
        keys.complain('"data_parallel_shard_degree" is 0: write -1 for all that are left', _SHARDS)
    again = keys.word({word: again for again, word in _POLICIES.items()}, _RESHARD)
    shard = Shard.ZERO2 if again is False else Shard.FSDP
    if again and keys.degree("pp") > 1:
        keys.take("reshard_after_forward", True, _RESHARD)
    if found is None or found < 1:
        keys.take("shard", shard, _SHARDS if replicas == 1 else _REPLICAS)
        keys.deferred["copies"] = replicas if replicas > 1 else None
        return
    ranks = found * keys.degree("cp")
    keys.take("dp", replicas * found, _SHARDS)
    keys.take("shard", shard if ranks > 1 else Shard.DDP, _SHARDS)
    if replicas > 1 and ranks > 1:
        keys.take("shard_degree", ranks, _SHARDS)


def _write_data_parallel(layout: Layout, _: WriterContext) -> dict[str, Any]:
    """Replicas and sharding ranks; -1 for what is left."""
    replicas, sharded = 1, -1
    if layout.dp and layout.shard == Shard.DDP:
        replicas, sharded = int(layout.dp), 1
    elif layout.dp:
        ranks = layout.dp * layout.cp
        copies = ranks // (layout.shard_degree or ranks)
        replicas = 1 if layout.dp % copies else copies
        sharded = layout.dp // replicas
    found: dict[str, Any] = {_REPLICAS: replicas, _SHARDS: sharded}
    if layout.shard != Shard.DDP:
        again = layout.reshard_after_forward if layout.pp > 1 else True
        found[_RESHARD] = _POLICIES.get(again, "always") if layout.shard == Shard.FSDP else "never"
    return found


def _read_pipeline(keys: Keys) -> None:
    if keys.degree("pp") == 1:
        return
    key = f"{_PIPELINE}schedule"
    name = keys.value(key)
    if name is not None and str(name).lower() not in {word.lower() for word in _SCHEDULES}:
        keys.note(f'schedule "{str(name)[:40]}" is not modelled: the schedule is left open', key)
        return
    schedule = keys.word(_SCHEDULES, key) if name is not None else Schedule.ONE_F_ONE_B
    keys.take("schedule", schedule, key)
    if schedule == Schedule.DUALPIPE_V and keys.degree("ep") > 1:
        overlap = keys.flag(f"{_PIPELINE}expert_parallel_overlap")
        overlap = True if overlap is None else overlap
        keys.take("overlap_ep", overlap, f"{_PIPELINE}expert_parallel_overlap")
    if schedule != Schedule.INTERLEAVED:
        keys.take("virtual_stages", 1, key)
        return
    keys.deferred["chunk_layers"] = keys.whole(f"{_PIPELINE}layers_per_stage")
    if keys.deferred["chunk_layers"] is None:
        keys.take("virtual_stages", 2, key)  # what it does where nobody says
    less = [keys.whole(f"{_PIPELINE}{end}_stage_less_layers", 0) for end in ("first", "last")]
    keys.deferred["end_layers"] = sum(1 if layers is None else layers for layers in less)


def _write_pipeline(layout: Layout, context: WriterContext) -> dict[str, Any]:
    if layout.pp == 1:
        return {}
    found: dict[str, Any] = {f"{_PIPELINE}microbatch_size": int(layout.micro_batch)}
    found |= {f"{_PIPELINE}schedule": w for w, kind in _SCHEDULES.items() if kind == layout.schedule}
    if layout.virtual_stages > 2 and context.layers:
        found |= _write_chunks(context.layers, layout.pp * layout.virtual_stages)
    if layout.schedule == Schedule.DUALPIPE_V and layout.ep > 1:
        found[f"{_PIPELINE}expert_parallel_overlap"] = bool(layout.overlap_ep)
    return found


def _write_chunks(layers: int, stages: int) -> dict[str, Any]:
    """Layers a virtual stage that make so many stages; embedding and output layer may count."""
    for ends in (1, 0):
        each = -(-(layers + 2 * ends) // stages)
        if -(-(layers + 2 * ends) // each) == stages:
            less = {} if ends else {f"{_PIPELINE}{e}_stage_less_layers": 0 for e in ("first", "last")}
            return {f"{_PIPELINE}layers_per_stage": each, **less}
    return {}


def _read_batch(keys: Keys) -> None:
    """A pipeline takes several micro batches of the local batch."""
    key = _LOCAL if keys.value(_LOCAL) else "training.batch_size"
    local, micro = keys.whole(key), keys.whole(f"{_PIPELINE}microbatch_size") or 1
    keys.deferred["pipeline_micro_batch"] = micro if local else None
    if keys.degree("pp") == 1:
        keys.take("micro_batch", local, key)
    else:
        keys.take("micro_batch", micro, f"{_PIPELINE}microbatch_size")
    keys.deferred["replica_batch"] = local


def _write_batch(layout: Layout, _: WriterContext) -> dict[str, Any]:
    if layout.pp == 1:
        return {_LOCAL: int(layout.micro_batch)}
    if not layout.dp or not layout.global_batch:
        return {}
    return {_LOCAL: layout.global_batch // layout.dp}


def _read_precision(keys: Keys) -> None:
    key = "training.mixed_precision_param"
    dtype = keys.word(_DTYPES, key)
    if dtype is None and keys.word(_DTYPES, "training.dtype") == Dtype.BF16:
        dtype = Dtype.BF16
    keys.take("precision", dtype, key)
    converters = keys.value("model.converters") or []
    names = {str(name) for name in converters} if isinstance(converters, list) else set()
    for low, known in _CONVERTERS.items():
        if names & set(known):
            keys.take("precision", low, "model.converters")
    key = "training.mixed_precision_reduce"
    keys.take("gradient_dtype", keys.word(_DTYPES, key), key)
    recipe = keys.value("quantize.linear.float8.recipe_name")
    if keys.layout.get("precision") != Dtype.FP8:
        return
    if str(recipe).startswith("rowwise"):
        keys.software["fp8_scaling"] = "row"
    for key in (f"quantize.linear.{_GATHER}", _GATHER):
        if keys.flag(key):
            keys.take("gather_dtype", Dtype.FP8, key)


def _write_precision(layout: Layout, context: WriterContext) -> dict[str, Any]:
    plain = "float32" if layout.precision == Dtype.FP32 else "bfloat16"
    found: dict[str, Any] = {
        "training.mixed_precision_param": plain,
        "training.mixed_precision_reduce": "float32",
    }
    if layout.precision in _CONVERTERS:
        found["model.converters"] = [_CONVERTERS[layout.precision][0]]
    if layout.precision == layout.gather_dtype == Dtype.FP8:
        found[f"quantize.linear.{_GATHER}"] = True
    return found


def _read_recompute(keys: Keys) -> None:
    modes = {
        "none": Recompute.NONE,
        "full": Recompute.FULL,
        "selective": None,
        "memory_budget": None,
    }
    keys.take("recompute", keys.word(modes, _MODE), _MODE)
    if keys.value(_MODE) == "memory_budget":
        keys.note("memory_budget is not modelled: recomputation is left open", _MODE)
    if str(keys.value(_MODE)).lower() != "selective":
        return
    option = str(keys.value(_NTH) or "2")
    if option == "op":
        keys.take("recompute", Recompute.OPERATIONS, _MODE)
    elif not (option.isascii() and option.isdigit()) or not 0 < int(option[:9]) < 10**6:
        keys.complain('"selective_ac_option" must be "op" or a whole number', _NTH)
    else:
        keys.take("recompute", Recompute.FULL, _MODE)
        keys.deferred["every_nth"] = int(option[:9]) if int(option[:9]) > 1 else None


def _write_recompute(layout: Layout, context: WriterContext) -> dict[str, Any]:
    if layout.recompute == Recompute.OPERATIONS:
        return {_MODE: "selective", _NTH: "op"}
    if layout.recompute == Recompute.FULL and layout.recompute_layers and context.layers:
        each = -(-context.layers // layout.pp)
        nth = each // layout.recompute_layers
        if nth > 1 and each // nth == layout.recompute_layers:
            return {_MODE: "selective", _NTH: str(nth)}
    modes = {Recompute.NONE: "none", Recompute.FULL: "full"}
    return {_MODE: modes[layout.recompute]} if layout.recompute in modes else {}


def _read_compiled(keys: Keys) -> None:
    compiled = keys.flag("compile.enable")
    if compiled is not None:
        keys.software["kernels"] = "fused" if compiled else "eager"


def _write_compiled(layout: Layout, context: WriterContext) -> dict[str, Any]:
    by_row = layout.precision == Dtype.FP8 and context.software.fp8_scaling == "row"
    scaling = {"quantize.linear.float8.recipe_name": "rowwise"} if by_row else {}
    return {"compile.enable": context.software.kernels != "eager", **scaling}


def _has_experts(layout: Layout, _: WriterContext) -> bool:
    return bool(layout.ep > 1 or layout.etp > 1)


TABLE: Final = SettingTable(
    Rule(_read_data_parallel, _write_data_parallel),
    SettingRow("tp", _TP),
    SettingRow("sp", _TP, Kind.implied(True), where=lambda it: it.tp > 1),
    SettingRow("overlap_tp", _ASYNC, Kind.flag(), only=lambda it, _: it.tp > 1),
    SettingRow("pp", "parallelism.pipeline_parallel_degree"),
    Rule(_read_pipeline, _write_pipeline),
    SettingRow("cp", "parallelism.context_parallel_degree"),
    SettingRow("cp_kind", _CP_KIND, Kind.words(_ROTATE), lambda it: it.cp > 1, ContextKind.ALL_GATHER),
    SettingRow("ep", "parallelism.expert_parallel_degree", only=_has_experts),
    SettingRow(
        "etp",
        "parallelism.expert_tensor_parallel_degree",
        only=lambda it, context: _has_experts(it, context) and it.etp in (1, it.tp),
    ),
    SettingRow("dispatcher", _DISPATCHER, Kind.words(_DISPATCHERS), lambda it: it.ep > 1),
    Rule(_read_batch, _write_batch),
    SettingRow("global_batch", "training.global_batch_size", Kind.whole(-1)),
    SettingRow("run.seq", "training.seq_len"),
    cpu_offload("training.enable_cpu_offload"),
    Rule(_read_precision, _write_precision),
    Rule(_read_recompute, _write_recompute),
    Rule(_read_compiled, _write_compiled),
    Rule(take_flavor),
)
