"""Keys of a run in words, for those who do not write run files.

Holds `key_words` and `field_words`, and the tables that pages read, too: `KEYS` and `VALUES`.
"""

from typing import Any, Final

from syncwall.describe.choice import text_of

KEYS: Final = {
    "gpus": "GPUs",
    "gpus_per_node": "GPUs a node",
    "seq": "sequence",
    "tp": "tp (tensor parallel)",
    "pp": "pp (pipeline)",
    "cp": "cp (context parallel)",
    "ep": "ep (expert parallel)",
    "etp": "tp inside experts",
    "dp": "data-parallel replicas",
    "sp": "sequence parallelism",
    "shard": "data-parallel sharding",
    "shard_degree": "ranks that share the states",
    "global_batch": "batch",
    "recompute": "recomputation",
    "recompute_layers": "layers that are recomputed",
    "gradient_dtype": "gradients in",
    "schedule": "pipeline schedule",
    "virtual_stages": "virtual stages a rank",
    "balanced_stages": "stages balanced with embedding and head",
    "overlap_gradients": "gradients move beside backward",
    "overlap_parameters": "weights are gathered ahead",
    "overlap_tp": "tp traffic overlaps GEMMs",
    "overlap_pp": "pipeline sends overlap",
    "overlap_ep": "expert traffic overlaps",
    "dispatcher": "exchange of tokens",
    "cp_kind": "kind of context parallelism",
    "order": "order of ranks",
}
"""By the last part of a key; others are their own words."""
VALUES: Final = {
    "shard": {
        "ddp": "shard with DDP (nothing is sharded)",
        "zero1": "shard with ZeRO-1",
        "zero2": "shard with ZeRO-2",
        "fsdp": "shard with FSDP (ZeRO-3)",
    },
    "recompute": {
        "none": "recompute nothing",
        "selective": "recompute attention scores only",
        "operations": "recompute every second GEMM",
        "full": "recompute whole layers",
    },
    "sp": {"true": "sequence parallelism", "false": "no sequence parallelism"},
    "overlap_gradients": {
        "true": "gradients move beside the backward pass",
        "false": "gradients move after the backward pass",
    },
    "overlap_parameters": {
        "true": "gather weights one layer ahead",
        "false": "gather weights only when they are needed",
    },
    "overlap_tp": {"true": "overlap tp traffic with GEMMs", "false": "do not overlap tp traffic"},
    "async_tp": {"true": "async tp", "false": "no async tp"},
    "overlap_pp": {"true": "overlap pipeline sends", "false": "do not overlap pipeline sends"},
    "overlap_ep": {"true": "overlap expert traffic", "false": "do not overlap expert traffic"},
    "balanced_stages": {
        "true": "count embedding and head when stages are cut",
        "false": "cut stages by layers alone",
    },
    "fused_loss": {"true": "fused loss", "false": "no fused loss"},
    "shard_degree": {"": "share the states among {} ranks only (HSDP)"},
    "virtual_stages": {"1": "do not interleave stages", "": "interleave {} virtual stages a rank"},
    "schedule": {"": "pipeline schedule {}"},
    "dispatcher": {"": "exchange tokens with {}"},
    "order": {"": "place ranks in the order {}"},
    "cp_kind": {"": "context parallelism by {}"},
}
"""What a value of a field means; "" for every other, whose text takes the place of {}."""


def key_words(key: str) -> str:
    """A key in words: "layout.tp" is "tp (tensor parallel)"."""
    name = key.rpartition(".")[2]
    return KEYS.get(name, name.replace("_", " "))


def field_words(key: str, value: Any) -> str:
    """A field with its value, in words."""
    text = str(value).lower() if isinstance(value, bool) else text_of(value)
    known = VALUES.get(key, {})
    name, bracket, more = key_words(key).partition(" (")
    said = known.get(text) or known.get("") or f"{name} {{}}{bracket}{more}"
    return said.replace("{}", text)
