"""Settings of NeMo and Megatron-Bridge: recipes in YAML.

Holds `read`. Their keys are those of Megatron-LM with underscores, sorted into sections, so they
are read as its arguments; a few have other names. Names: `nemo-megatron-launcher` 23.11 (`trainer`,
`model`) and Megatron-Bridge's `ConfigContainer` of 2026 (`model`, `train`, `ddp`, `dataset`, ...).
"""

from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Any, Final

from syncwall.describe.settings import megatron
from syncwall.describe.settings.models import take_named
from syncwall.describe.settings.rows import Keys
from syncwall.describe.settings.settings import Settings
from syncwall.documents import Document, KeyPath

_OTHERWISE: Final = {
    "encoder_seq_length": "seq-length",
    "sequence_length": "seq-length",
    "virtual_pipeline_model_parallel_size": "num-virtual-stages-per-pipeline-rank",
    "num_moe_experts": "num-experts",
    "activations_checkpoint_granularity": "recompute-granularity",
    "activations_checkpoint_method": "recompute-method",
    "activations_checkpoint_num_layers": "recompute-num-layers",
    "ub_tp_comm_overlap": "tp-comm-overlap",
    "moe_router_topk": "moe-router-topk",
    "num_nodes": "nnodes",
    "devices": "nproc-per-node",
    "kv_channels": "kv-channels",
    "multi_latent_attention": "multi-latent-attention",
}
"""Keys that Megatron-LM calls otherwise."""
_SECTIONS: Final = """
    model train ddp optimizer dataset comm_overlap trainer data tokenizer parallelism strategy
"""
_MODELS: Final = (
    "model.hf_path",
    "model.hf_model_id",
    "model.pretrained_model_name_or_path",
    "hf_path",
    "hf_model_id",
    "checkpoint.hf_path",
    "model.restore_from_path",
)
_GATED: Final = ("swiglu", "fast-swiglu", "silu")
_PRECISIONS: Final = {
    **dict.fromkeys(("bf16", "bf16-mixed", "bf16_mixed"), "--bf16"),
    **dict.fromkeys(("16", "16-mixed", "16_mixed"), "--fp16"),
}


def read(document: Document) -> Settings:
    """What a recipe states."""
    arguments: dict[str, list[str]] = {}
    places: dict[KeyPath, tuple[int, int]] = {(): (1, 1)}
    for name, value, path in _arguments(document.value):
        arguments[name] = value
        places[name,] = document.place(path)
    found = megatron.read(Document(document.file, arguments, places))
    keys = Keys(document)
    for key in _MODELS:
        if "model" not in found.run and "model" not in keys.run and _has(document.value, key):
            take_named(keys, key)
    named = keys.settings("nemo", "megatron-core")
    return replace(
        found,
        format="nemo",
        run={**found.run, **named.run},
        places={**found.places, **named.places},
        notes=(*found.notes, *named.notes),
    )


def _has(value: Any, path: str) -> bool:
    for key in path.split("."):
        value = value.get(key) if isinstance(value, Mapping) else None
    return value is not None


def _arguments(value: Mapping[str, Any]) -> Iterator[tuple[str, list[str], KeyPath]]:
    """Every setting as the argument of Megatron-LM that means the same."""
    for section in _SECTIONS.split():
        inner = value.get(section)
        if isinstance(inner, Mapping):
            for key, stated in inner.items():
                yield from _argument(str(key), stated, (section, key))
    precision = value.get("mixed_precision", (value.get("trainer") or {}).get("precision"))
    for word, argument in _PRECISIONS.items():
        if str(precision).lower() == word:
            yield argument, [], ("mixed_precision",)
    if isinstance(precision, str) and "fp8" in precision:
        yield "--bf16", [], ("mixed_precision",)
        yield "--fp8-format", ["hybrid"], ("mixed_precision",)
        if "mxfp8" in precision:
            yield "--fp8-recipe", ["mxfp8"], ("mixed_precision",)


def _argument(key: str, stated: Any, path: KeyPath) -> Iterator[tuple[str, list[str], KeyPath]]:
    name = "--" + _OTHERWISE.get(key, key.replace("_", "-"))
    if key == "optim" and isinstance(stated, Mapping):
        if "distributed" in str(stated.get("name")):
            yield "--use-distributed-optimizer", [], path
    elif key == "activation" and str(stated).lower() in _GATED:
        yield "--swiglu", [], path
    elif key in ("bias", "add_bias_linear") and stated is False:
        yield "--disable-bias-linear", [], path
    elif key == "share_embeddings_and_output_weights" and stated is False:
        yield "--untie-embeddings-and-output-weights", [], path
    elif key == "normalization" and str(stated).lower() == "rmsnorm":
        yield name, ["RMSNorm"], path
    elif key == "fp8" and stated:
        yield "--fp8-format", ["hybrid"], path
    elif key == "precision" or isinstance(stated, Mapping) or stated in (None, False):
        return
    else:
        yield name, [] if stated is True else [str(stated)], path
