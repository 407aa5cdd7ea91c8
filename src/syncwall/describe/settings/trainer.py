"""Settings of the Hugging Face Trainer and of scripts that take its arguments.

Holds `read`: `TrainingArguments` in YAML or JSON, or behind `accelerate launch` and `torchrun` in a
shell script, whose accelerate and DeepSpeed files are read, too. TRL, LLaMA-Factory and Axolotl
have the same keys or near ones. Names: `training_args.py` of transformers 5, Axolotl's and
LLaMA-Factory's examples of 2026.
"""

from dataclasses import replace
from typing import Any, Final

from syncwall.describe.choice import Dtype
from syncwall.describe.layout import Recompute, Shard
from syncwall.describe.settings import accelerate, deepspeed
from syncwall.describe.settings.models import named_document, take_named
from syncwall.describe.settings.rows import Keys, SettingRow, SettingTable, take_cpu_offload
from syncwall.describe.settings.settings import Settings
from syncwall.documents import Document, KeyPath, LineColumn

_MODELS: Final = ("model_name_or_path", "base_model", "model_name", "config_name")
_MICRO: Final = "per_device_train_batch_size"
_LENGTHS: Final = ("max_seq_length", "max_length", "block_size", "cutoff_len", "sequence_len")
_TABLE: Final = SettingTable(
    *(SettingRow("run.seq", key) for key in _LENGTHS),
    SettingRow("micro_batch", _MICRO),
    SettingRow("micro_batch", "micro_batch_size"),
    SettingRow("recompute", "gradient_checkpointing", accelerate.RECOMPUTES_ALL),
)
_STRATEGIES: Final = {
    "full_shard": Shard.FSDP,
    "shard_grad_op": Shard.ZERO2,
    "no_shard": Shard.DDP,
    "hybrid_shard": Shard.FSDP,
    "hybrid_shard_zero2": Shard.ZERO2,
}
_ATTENTION: Final = {
    "flash_attention_3": "flash-3",
    "flash_attention_2": "flash-2",
    "sdpa": "flash-2",
    "eager": "unfused",
}
_ADAPTERS: Final = (("use_peft", "true"), ("finetuning_type", "lora"), ("adapter", "lora"))


def read(document: Document) -> Settings:
    """What the arguments state, with the files that they name."""
    keys = Keys(_without_dashes(document))
    beside = _named_file(keys)
    for key in _MODELS:
        if "model" not in keys.run and keys.value(key) is not None:
            take_named(keys, key)
    _read_machine(keys)
    for key, dtype in (("bf16", Dtype.BF16), ("fp16", Dtype.FP16)):
        if str(keys.value(key)).lower() in ("true", "auto"):
            keys.take("precision", dtype, key)
    _read_sharding(keys)
    _TABLE.read(keys)
    if keys.flag("torch_compile") or keys.flag("use_liger_kernel"):
        keys.software["kernels"] = "fused"
    attention = _ATTENTION.get(str(keys.value("attn_implementation")))
    if attention:
        keys.software["attention"] = attention
    for key, word in _ADAPTERS:
        if str(keys.value(key)).lower() == word:
            keys.take("frozen_weights", True, key)
    accumulated = keys.whole("gradient_accumulation_steps")
    if accumulated is None and beside is not None:
        accumulated = beside.left.accumulated
    keys.deferred["accumulated"] = accumulated or 1
    # its settings were read, or are named where they could not be
    runs_deepspeed = beside.format == "deepspeed" if beside else keys.value("deepspeed") is not None
    return _over(keys.settings("trainer", "deepspeed" if runs_deepspeed else "pytorch"), beside)


def _without_dashes(document: Document) -> Document:
    """Arguments of a shell script as keys; what is no script, as it is."""
    value: dict[str, Any] = document.value
    if any(key.startswith("--") for key in value):
        value = {_plain(key): words[0] if words else True for key, words in value.items()}
    places: dict[KeyPath, LineColumn] = {
        tuple(map(_plain, path)): place for path, place in document.places.items()
    }
    return Document(document.file, value, places)


def _plain(key: str | int) -> str:
    return str(key).removeprefix("--").replace("-", "_")


def _named_file(keys: Keys) -> Settings | None:
    """Settings of accelerate or DeepSpeed that the arguments name, or hold."""
    for key, reader in (("config_file", accelerate.read), ("deepspeed", deepspeed.read)):
        file = keys.value(key)
        if isinstance(file, dict):
            return reader(Document(keys.file, file, {}))
        if not isinstance(file, str):
            continue
        try:
            return reader(named_document(file, keys))
        except (ValueError, OSError) as error:
            keys.note(f"{file[:60]} is not read: {str(error).splitlines()[0]}", key)
    return None


def _read_machine(keys: Keys) -> None:
    nodes = keys.whole("num_machines") or keys.whole("nnodes")
    processes, each = keys.whole("num_processes"), keys.whole("nproc_per_node")
    keys.take("run.nodes", nodes, "num_machines" if keys.value("num_machines") else "nnodes")
    if processes is not None and processes % (nodes or 1) == 0:
        each = processes // (nodes or 1)
        keys.take("run.nodes", nodes or 1, "num_processes")
    keys.take("run.gpus_per_node", each, "num_processes" if processes else "nproc_per_node")


def _read_sharding(keys: Keys) -> None:
    stated = keys.value("fsdp")
    words = stated if isinstance(stated, list) else str(stated or "").split()
    for word in words:
        keys.take("shard", _STRATEGIES.get(str(word)), "fsdp")
    if stated and str(stated).lower() == "true":
        keys.take("shard", Shard.FSDP, "fsdp")
    if "offload" in words:
        take_cpu_offload(keys, "fsdp")
    elsewhere = any(keys.value(key) is not None for key in ("config_file", "deepspeed"))
    if "shard" not in keys.layout and not elsewhere:
        keys.take("shard", Shard.DDP, _MICRO)
    inside = isinstance(keys.value("fsdp_config"), dict)
    if inside and keys.flag("fsdp_config.activation_checkpointing"):
        keys.take("recompute", Recompute.FULL, "fsdp_config.activation_checkpointing")
    keys.deferred["shard_in_node"] = any(str(word).startswith("hybrid") for word in words)


def _over(found: Settings, beside: Settings | None) -> Settings:
    """What the arguments say over what the file that they name says."""
    if beside is None:
        return found
    return replace(
        found,
        layout={**beside.layout, **found.layout},
        run={**beside.run, **found.run},
        software={**beside.software, **found.software},
        left=replace(beside.left, accumulated=found.left.accumulated),
        notes=(*beside.notes, *found.notes),
    )
