"""Random runs that a framework can express in its settings."""

from collections.abc import Iterator
from random import Random
from typing import Any

from syncwall.answer import Prediction, predict
from syncwall.describe import Layout, Run, Software
from syncwall.describe.choice import Dtype
from syncwall.describe.layout import ContextKind, Dispatcher, Recompute, Schedule, Shard
from tests.describe.settings.layouts import UNWRITTEN

FRAMEWORKS = {
    "torchtitan": "torchtitan",
    "megatron": "megatron-core",
    "deepspeed": "deepspeed",
    "accelerate": "pytorch",
}
"""What each format is for."""
MODELS = ("llama-3.1-8b", "mixtral-8x7b")
CLUSTERS = ("dgx-h100", "dgx-a100", "gb200-nvl72", "l40s-8")
_AXES = ("tp", "pp", "cp", "ep", "etp")
_SWITCH = [True, False]
_COMMON: dict[str, list[Any]] = {
    "micro_batch": [1, 2, 4],
    "global_batch": [64, 128, 512],
    "shard_degree": [2, 4, 8],
}
WORDS: dict[str, dict[str, list[Any]]] = {
    "torchtitan": _COMMON
    | {
        "tp": [1, 2, 8],
        "pp": [1, 1, 2, 4],
        "cp": [1, 1, 2],
        "ep": [1, 2, 8],
        "etp": [1, 2],
        "cp_kind": [ContextKind.RING, ContextKind.ALL_GATHER],
        "shard": [Shard.DDP, Shard.ZERO2, Shard.FSDP],
        "schedule": [s for s in Schedule if s not in UNWRITTEN],
        "virtual_stages": [1, 2, 4],
        "recompute": [Recompute.NONE, Recompute.OPERATIONS, Recompute.FULL],
        "recompute_layers": [4, 8],
        "precision": [Dtype.BF16, Dtype.BF16, Dtype.FP32, Dtype.FP8],
        "overlap_tp": _SWITCH,
        "dispatcher": [Dispatcher.ALL_TO_ALL, Dispatcher.DEEPEP],
    },
    "megatron": _COMMON
    | {
        "tp": [1, 2, 8],
        "pp": [1, 1, 2, 4],
        "cp": [1, 1, 2],
        "ep": [1, 2, 8],
        "etp": [1, 2],
        "cp_kind": list(ContextKind),
        "shard": list(Shard),
        "virtual_stages": [1, 2, 4],
        "recompute": [Recompute.NONE, Recompute.SELECTIVE, Recompute.FULL],
        "recompute_layers": [2, 4],
        "precision": [Dtype.BF16, Dtype.BF16, Dtype.FP16, Dtype.FP8],
        "gradient_dtype": [Dtype.FP32, Dtype.BF16],
        "balanced_stages": _SWITCH,
        "overlap_pp": _SWITCH,
        "overlap_tp": _SWITCH,
        "overlap_gradients": _SWITCH,
        "overlap_parameters": _SWITCH,
        "dispatcher": list(Dispatcher),
        "overlap_ep": _SWITCH,
        "order": [("tp", "cp", "ep", "pp", "dp"), ("tp", "cp", "ep", "dp", "pp")],
        "bucket_bytes": [4e6, 4e8],
    },
    "deepspeed": _COMMON
    | {
        "tp": [1, 2, 8],
        "cp": [1, 1, 2],
        "cp_kind": [ContextKind.ULYSSES],
        "shard": list(Shard),
        "precision": [Dtype.BF16, Dtype.FP16, Dtype.FP32],
        "gradient_dtype": [Dtype.FP32, Dtype.BF16],
        "recompute": list(Recompute),
        "overlap_gradients": _SWITCH,
    },
    "accelerate": _COMMON
    | {
        "tp": [1, 2, 8],
        "cp": [1, 1, 2, 4],
        "cp_kind": list(ContextKind),
        "shard": [Shard.DDP, Shard.ZERO2, Shard.FSDP],
        "precision": [Dtype.BF16, Dtype.FP16, Dtype.FP8],
        "recompute": [Recompute.NONE, Recompute.FULL],
    },
}
"""Values that each format has words for, some of them only beside certain others."""


def runs(name: str, seed: int = 0) -> Iterator[tuple[dict[str, Any], Prediction]]:
    """What was asked and the prediction, with nothing open, of random runs of a framework."""
    random = Random(f"{name} {seed}")
    while True:
        asked = _asked(name, random)
        try:
            yield asked, predict(Run(**asked))
        except ValueError:  # breaks a rule, or the device has no such number format
            continue


def _asked(name: str, random: Random) -> dict[str, Any]:
    model = random.choice(MODELS)
    words = dict(WORDS[name])
    if model == MODELS[0]:
        words.pop("ep", None)
        words.pop("etp", None)
    axes = {axis: random.choice(words[axis]) for axis in _AXES if axis in words}
    some = {f: random.choice(v) for f, v in words.items() if f not in axes and random.random() < 0.5}
    if random.random() < 0.8:  # few degrees fit
        some.pop("shard_degree", None)
    fields = {"global_batch": 128, **axes, **some, "sp": _sp(name, axes)}
    if axes["cp"] > 1:  # there is no plain kind that all of them have
        fields["cp_kind"] = random.choice(words["cp_kind"])
    return {
        "model": model,
        "cluster": random.choice(CLUSTERS),
        "nodes": random.choice([1, 2, 4, 8]),
        "gpus_per_node": random.choice([2, 4, 4]),
        "layout": Layout(**fields),
        "software": Software(framework=FRAMEWORKS[name], **_software(name, random)),
    }


def _software(name: str, random: Random) -> dict[str, Any]:
    """What else is said of the software in settings, and the date, which changes what is usual."""
    found: dict[str, Any] = {"date": random.choice([None, "2024-06", "2025-06"])}
    if name == "torchtitan":
        found["kernels"] = random.choice([None, "fused", "eager"])
        found["fp8_scaling"] = random.choice(["tensor", "row"])
    if name == "accelerate":
        found["kernels"] = random.choice([None, "fused", "eager"])
    return found


def _sp(name: str, axes: dict[str, int]) -> bool:
    return axes["tp"] > 1 and name in ("torchtitan", "megatron")
