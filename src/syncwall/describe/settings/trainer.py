"""Settings of the Hugging Face Trainer and of scripts that take its arguments.

Holds `read`: `TrainingArguments` in YAML or JSON, or behind `accelerate launch` and `torchrun` in a
shell script, whose accelerate and DeepSpeed files are read, too. TRL, LLaMA-Factory and Axolotl
have the same keys or near ones. Names: `training_args.py` of transformers 5, Axolotl's and
LLaMA-Factory's examples of 2026.
"""

from dataclasses import replace
from pathlib import Path
from typing import Any, Final

from syncwall.describe.choice import Dtype
from syncwall.describe.layout import Recompute, Shard
from syncwall.describe.settings import accelerate, deepspeed
from syncwall.describe.settings.cpu_offload import take_cpu_offload
from syncwall.describe.settings.keys import DeferredSettings, Keys, Settings
from syncwall.describe.settings.models import named
from syncwall.describe.settings.named_files import named_document
from syncwall.documents import Document

_MODELS: Final = ("model_name_or_path", "base_model", "model_name", "config_name")
_MICRO: Final = ("per_device_train_batch_size", "micro_batch_size")
_LENGTHS: Final = ("max_seq_length", "max_length", "block_size", "cutoff_len", "sequence_len")
_STRATEGIES: Final = {
    "full_shard": Shard.FSDP, "shard_grad_op": Shard.ZERO2, "no_shard": Shard.DDP,
    "hybrid_shard": Shard.FSDP, "hybrid_shard_zero2": Shard.ZERO2,
}  # fmt: skip
_ATTENTION: Final = {"flash_attention_3": "flash-3", "flash_attention_2": "flash-2",
                     "sdpa": "flash-2", "eager": "unfused"}  # fmt: skip
_ADAPTERS: Final = (("use_peft", "true"), ("finetuning_type", "lora"), ("adapter", "lora"))


def read(document: Document) -> Settings:
    """What the arguments state, with the files that they name."""
    flat = Document(document.file, _flat(document.value), _flat_places(document))
    keys, directory = Keys(flat), Path(document.file).parent
    beside = _named_file(keys, directory)
    for key in _MODELS:
        if "model" not in keys.run and keys.value(key) is not None:
            named(keys, directory, key)
    for key in _LENGTHS:
        keys.take_run("seq", keys.whole(key), key)
    _machine(keys)
    for key in _MICRO:
        keys.take("micro_batch", keys.whole(key), key)
    _precision(keys)
    in_node = _sharding(keys, beside)
    again = keys.flag("gradient_checkpointing")
    if again is not None:
        what = Recompute.FULL if again else Recompute.NONE
        keys.take("recompute", what, "gradient_checkpointing")
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
    left = DeferredSettings(accumulated=accumulated or 1, shard_in_node=in_node)
    framework = "deepspeed" if _runs_deepspeed(keys, beside) else "pytorch"
    return _laid_over(keys.settings("trainer", framework, left), beside)


def _flat(value: dict[str, Any]) -> dict[str, Any]:
    """Arguments of a shell script without their dashes; what is no script, as it is."""
    if not any(key.startswith("--") for key in value):
        return value
    return {
        key.removeprefix("--").replace("-", "_"): words[0] if words else True
        for key, words in value.items()
    }


def _flat_places(document: Document) -> dict[Any, tuple[int, int]]:
    return {
        tuple(str(part).removeprefix("--").replace("-", "_") for part in path): place
        for path, place in document.places.items()
    }


def _named_file(keys: Keys, directory: Path) -> Settings | None:
    """Settings of accelerate or DeepSpeed that the arguments name, or hold."""
    for key, reader in (("config_file", accelerate.read), ("deepspeed", deepspeed.read)):
        file = keys.value(key)
        if isinstance(file, dict):
            return reader(Document(keys.file, file, {}))
        if not isinstance(file, str):
            continue
        try:
            return reader(named_document(file, directory))
        except (ValueError, OSError) as error:
            keys.note(f"{file[:60]} is not read: {str(error).splitlines()[0]}", key)
    return None


def _runs_deepspeed(keys: Keys, beside: Settings | None) -> bool:
    """True if DeepSpeed's settings were read, or are named where they could not be read."""
    if beside is None:
        return keys.value("deepspeed") is not None
    return beside.format == "deepspeed"


def _machine(keys: Keys) -> None:
    nodes = keys.whole("num_machines") or keys.whole("nnodes")
    processes, each = keys.whole("num_processes"), keys.whole("nproc_per_node")
    keys.take_run("nodes", nodes, "num_machines" if keys.value("num_machines") else "nnodes")
    if processes is not None and processes % (nodes or 1) == 0:
        each = processes // (nodes or 1)
        keys.take_run("nodes", nodes or 1, "num_processes")
    keys.take_run("gpus_per_node", each, "num_processes" if processes else "nproc_per_node")


def _precision(keys: Keys) -> None:
    for key, dtype in (("bf16", Dtype.BF16), ("fp16", Dtype.FP16)):
        if str(keys.value(key)).lower() in ("true", "auto"):
            keys.take("precision", dtype, key)


def _sharding(keys: Keys, beside: Settings | None) -> bool:
    """State what `fsdp` says; True if every node holds a copy."""
    stated = keys.value("fsdp")
    words = stated if isinstance(stated, list) else str(stated or "").split()
    for word in words:
        if str(word) in _STRATEGIES:
            keys.take("shard", _STRATEGIES[str(word)], "fsdp")
    if stated and str(stated).lower() == "true":
        keys.take("shard", Shard.FSDP, "fsdp")
    if "offload" in words:
        take_cpu_offload(keys, "fsdp")
    elsewhere = any(keys.value(key) is not None for key in ("config_file", "deepspeed"))
    if "shard" not in keys.layout and not elsewhere:
        keys.take("shard", Shard.DDP, _MICRO[0])
    inside = isinstance(keys.value("fsdp_config"), dict)
    if inside and keys.flag("fsdp_config", "activation_checkpointing"):
        keys.take("recompute", Recompute.FULL, "fsdp_config", "activation_checkpointing")
    return any(str(word).startswith("hybrid") for word in words)


def _laid_over(found: Settings, beside: Settings | None) -> Settings:
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
