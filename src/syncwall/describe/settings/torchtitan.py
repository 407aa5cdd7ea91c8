"""Settings of torchtitan: the TOML file of a job, as it was until release 0.2.2 (February 2026).

Holds `read` and `write`. Later releases describe a job in Python; their `--parallelism.KEY` flags
are read from shell scripts as far as the names are the same. Key names and defaults: torchtitan's
`config/job_config.py` and `distributed/` of 2026-02-23.
"""

from typing import Any, Final

from syncwall.describe.choice import Dtype
from syncwall.describe.layout import ContextKind, Dispatcher, Layout, Recompute, Schedule, Shard
from syncwall.describe.settings.cpu_offload import has_cpu_offload, take_cpu_offload
from syncwall.describe.settings.keys import DeferredSettings, Keys, Settings, Wanted
from syncwall.describe.settings.models import flavored
from syncwall.documents import Document

TABLE: Final = "parallelism"
SCHEDULES: Final = {
    "1F1B": Schedule.ONE_F_ONE_B,
    "GPipe": Schedule.GPIPE,
    "Interleaved1F1B": Schedule.INTERLEAVED,
    "ZBVZeroBubble": Schedule.ZERO_BUBBLE_V,
    "DualPipeV": Schedule.DUALPIPE_V,
    "InterleavedZeroBubble": Schedule.ZERO_BUBBLE,
}
BACKENDS: Final = {"standard": Dispatcher.ALL_TO_ALL, "deepep": Dispatcher.DEEPEP}
ROTATE: Final = {"allgather": ContextKind.ALL_GATHER, "alltoall": ContextKind.RING}
_DTYPES: Final = {"bfloat16": Dtype.BF16, "float32": Dtype.FP32}
FLOAT8: Final = ("float8", "quantize.linear.float8", "quantize.dense.float8")
MX: Final = ("mx", "quantize.linear.mx", "quantize.dense.mx")


def read(document: Document) -> Settings:
    """What a job file states."""
    keys = Keys(document)
    for field, key in (
        ("tp", "tensor_parallel_degree"),
        ("pp", "pipeline_parallel_degree"),
        ("cp", "context_parallel_degree"),
        ("ep", "expert_parallel_degree"),
        ("etp", "expert_tensor_parallel_degree"),
    ):
        keys.take(field, keys.whole(TABLE, key), TABLE, key)
    if keys.layout.get("tp", 1) > 1:  # its models always split norms along tp
        keys.take("sp", True, TABLE, "tensor_parallel_degree")
    if keys.layout.get("cp", 1) > 1:
        rotate = keys.word(ROTATE, TABLE, "context_parallel_rotate_method")
        kind = ContextKind.ALL_GATHER if rotate is None else rotate
        keys.take("cp_kind", kind, TABLE, "context_parallel_rotate_method")
    async_tp = keys.flag(TABLE, "enable_async_tensor_parallel")
    keys.take("overlap_tp", async_tp, TABLE, "enable_async_tensor_parallel")
    keys.take_run("seq", keys.whole("training", "seq_len"), "training", "seq_len")
    flavored(keys)
    compiled = keys.flag("compile", "enable")
    if compiled is not None:
        keys.software["kernels"] = "fused" if compiled else "eager"
    _precision(keys)
    every_nth = _recompute(keys)
    copies = _data_parallel(keys)
    chunk_layers, ends = _pipeline(keys)
    _experts(keys)
    if keys.flag("training", "enable_cpu_offload"):
        take_cpu_offload(keys, "training", "enable_cpu_offload")
    left = DeferredSettings(
        replica_batch=_batch(keys),
        copies=copies,
        chunk_layers=chunk_layers,
        end_layers=ends,
        every_nth=every_nth,
    )
    return keys.settings("torchtitan", "torchtitan", left)


def _data_parallel(keys: Keys) -> int | None:
    """State how data parallelism shards; the copies of the state, if only they are known."""
    replicas = keys.whole(TABLE, "data_parallel_replicate_degree") or 1
    found = keys.whole(TABLE, "data_parallel_shard_degree", least=-1)
    at = (TABLE, "data_parallel_shard_degree")
    if found == 0:
        keys.complain('"data_parallel_shard_degree" is 0: write -1 for all that are left', *at)
    policies = {"always": Shard.FSDP, "never": Shard.ZERO2, "default": None}
    policy = keys.word(policies, TABLE, "fsdp_reshard_after_forward")
    usual = Shard.ZERO2 if keys.layout.get("pp", 1) > 1 else Shard.FSDP
    shard = usual if policy is None else policy
    if found is None or found < 1:
        at = at if replicas == 1 else (TABLE, "data_parallel_replicate_degree")
        keys.take("shard", shard, *at)
        return replicas if replicas > 1 else None
    cp = keys.layout.get("cp", 1)
    keys.take("dp", replicas * found, *at)
    keys.take("shard", shard if found * cp > 1 else Shard.DDP, *at)
    if replicas > 1 and found * cp > 1:
        keys.take("shard_degree", found * cp, *at)
    return None


def _pipeline(keys: Keys) -> tuple[int | None, int]:
    """State the schedule; layers of a virtual stage and of both ends, if it is cut by them."""
    if keys.layout.get("pp", 1) == 1:
        return None, 0
    at = (TABLE, "pipeline_parallel_schedule")
    name = keys.value(*at)
    known = {word.lower() for word in SCHEDULES}
    if name is not None and str(name).lower() not in known:
        keys.note(f'schedule "{str(name)[:40]}" is not modelled: the schedule is left open', *at)
        return None, 0
    schedule = keys.word(SCHEDULES, *at) if name is not None else Schedule.ONE_F_ONE_B
    keys.take("schedule", schedule, *at)
    if schedule != Schedule.INTERLEAVED:
        keys.take("virtual_stages", 1, *at)
        return None, 0
    layers = keys.whole(TABLE, "pipeline_parallel_layers_per_stage")
    first = keys.whole(TABLE, "pipeline_parallel_first_stage_less_layers", least=0)
    last = keys.whole(TABLE, "pipeline_parallel_last_stage_less_layers", least=0)
    if layers is None:
        keys.take("virtual_stages", 2, *at)  # what it does where nobody says
    return layers, (1 if first is None else first) + (1 if last is None else last)


def _batch(keys: Keys) -> int | None:
    """State the micro batch and the batch; sequences of a replica where a pipeline takes more."""
    key = "local_batch_size" if keys.value("training", "local_batch_size") else "batch_size"
    local = keys.whole("training", key)
    at = ("training", "global_batch_size")
    batch = keys.whole(*at, least=-1)
    if batch is not None and batch > 0:
        keys.take("global_batch", batch, *at)
    if keys.layout.get("pp", 1) == 1:
        keys.take("micro_batch", local, "training", key)
        return None
    micro = keys.whole(TABLE, "pipeline_parallel_microbatch_size")
    keys.take("micro_batch", micro or 1, TABLE, "pipeline_parallel_microbatch_size")
    return local


def _precision(keys: Keys) -> None:
    at = ("training", "mixed_precision_param")
    dtype = keys.word(_DTYPES, *at)
    if dtype is None and keys.word(_DTYPES, "training", "dtype") == Dtype.BF16:
        dtype = Dtype.BF16
    keys.take("precision", dtype, *at)
    converters = keys.value("model", "converters") or []
    names = [str(name) for name in converters] if isinstance(converters, list) else []
    for words, low in ((FLOAT8, Dtype.FP8), (MX, Dtype.MXFP8)):
        if any(name in words for name in names):
            keys.take("precision", low, "model", "converters")
    reduce = keys.word(_DTYPES, "training", "mixed_precision_reduce")
    keys.take("gradient_dtype", reduce, "training", "mixed_precision_reduce")
    recipe = keys.value("quantize", "linear", "float8", "recipe_name")
    if keys.layout.get("precision") == Dtype.FP8 and str(recipe).startswith("rowwise"):
        keys.software["fp8_scaling"] = "row"


def _recompute(keys: Keys) -> int | None:
    """State what is recomputed; n if it is every n-th layer."""
    at = ("activation_checkpoint", "mode")
    modes = {
        "none": Recompute.NONE,
        "full": Recompute.FULL,
        "selective": None,
        "memory_budget": None,
    }
    keys.take("recompute", keys.word(modes, *at), *at)
    if keys.value(*at) == "memory_budget":
        keys.note("memory_budget is not modelled: recomputation is left open", *at)
    if str(keys.value(*at)).lower() != "selective":
        return None
    option = str(keys.value("activation_checkpoint", "selective_ac_option") or "2")
    if option == "op":
        keys.take("recompute", Recompute.OPERATIONS, *at)
        return None
    if not (option.isascii() and option.isdigit()) or not 0 < int(option[:9]) < 10**6:
        at = ("activation_checkpoint", "selective_ac_option")
        keys.complain('"selective_ac_option" must be "op" or a whole number', *at)
        return None
    keys.take("recompute", Recompute.FULL, *at)
    return int(option[:9]) if int(option[:9]) > 1 else None


def _experts(keys: Keys) -> None:
    if keys.layout.get("ep", 1) == 1:
        return
    at = (TABLE, "expert_parallel_comm_backend")
    keys.take("dispatcher", keys.word(BACKENDS, *at), *at)
    if keys.layout.get("schedule") == Schedule.DUALPIPE_V:
        at = (TABLE, "pipeline_parallel_expert_parallel_overlap")
        overlap = keys.flag(*at)
        keys.take("overlap_ep", True if overlap is None else overlap, *at)


def write(layout: Layout, wanted: Wanted) -> str:
    """The tables of a job file for `layout`."""
    tables = {
        "training": _training(layout, wanted),
        TABLE: _parallelism(layout, wanted),
        "activation_checkpoint": _checkpointing(layout, wanted.layers),
        "compile": {"enable": wanted.software.kernels != "eager"},
    }
    if layout.precision in (Dtype.FP8, Dtype.MXFP8):
        words = FLOAT8 if layout.precision == Dtype.FP8 else MX
        tables = {"model": {"converters": [words[1]]}} | tables
    if layout.precision == Dtype.FP8 and wanted.software.fp8_scaling == "row":
        tables["quantize.linear.float8"] = {"recipe_name": "rowwise"}
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
    if has_cpu_offload(layout):
        table["enable_cpu_offload"] = True
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
        backends = {kind: word for word, kind in BACKENDS.items()}
        if layout.dispatcher in backends:
            table["expert_parallel_comm_backend"] = backends[layout.dispatcher]
    return table


def _degrees(layout: Layout) -> tuple[int, int]:
    """Replicas and sharding ranks; -1 for what is left."""
    if layout.dp is None:
        return 1, -1
    if layout.shard == Shard.DDP:
        return int(layout.dp), 1
    whole = layout.dp * layout.cp
    copies = whole // (layout.shard_degree or whole)
    return (1, layout.dp) if layout.dp % copies else (copies, layout.dp // copies)


def _stages(layout: Layout, wanted: Wanted) -> dict[str, Any]:
    names = {schedule: word for word, schedule in reversed(SCHEDULES.items())}
    table: dict[str, Any] = {"pipeline_parallel_microbatch_size": int(layout.micro_batch)}
    if layout.schedule in names:
        table["pipeline_parallel_schedule"] = names[layout.schedule]
    if layout.virtual_stages > 2 and wanted.layers:
        table |= _chunks(wanted.layers, layout.pp * layout.virtual_stages)
    if layout.schedule == Schedule.DUALPIPE_V and layout.ep > 1:
        table["pipeline_parallel_expert_parallel_overlap"] = bool(layout.overlap_ep)
    return table


def _chunks(layers: int, stages: int) -> dict[str, Any]:
    """Layers a virtual stage that make so many stages; embedding and output layer may count."""
    for ends in (1, 0):
        each = -(-(layers + 2 * ends) // stages)
        if -(-(layers + 2 * ends) // each) == stages:
            plain = "pipeline_parallel_{}_stage_less_layers"
            counted = {} if ends else {plain.format(end): 0 for end in ("first", "last")}
            return {"pipeline_parallel_layers_per_stage": each, **counted}
    return {}


def _checkpointing(layout: Layout, layers: int | None) -> dict[str, Any]:
    if layout.recompute == Recompute.OPERATIONS:
        return {"mode": "selective", "selective_ac_option": "op"}
    if layout.recompute == Recompute.FULL and layout.recompute_layers and layers:
        each = -(-layers // layout.pp)
        nth = each // layout.recompute_layers
        if nth > 1 and each // nth == layout.recompute_layers:
            return {"mode": "selective", "selective_ac_option": str(nth)}
    words = {Recompute.NONE: "none", Recompute.FULL: "full"}
    return {"mode": words[layout.recompute]} if layout.recompute in words else {}
