"""Memory of runs with weights, gradients or optimizer on the host beside what people report.

`tests/data/offload/reports.csv` has settings and measured peaks, in GB a GPU, of runs with offload
and of the same without; `SOURCES` says where they were read. Nothing is fitted to them. Peaks that
count PyTorch's allocator are compared without the CUDA context. Empty peaks are runs that are only
said to fit; `OOM` did not.
"""

import csv
from pathlib import Path
from statistics import median
from typing import Any

import pytest

from syncwall.describe import Layout, Model, lookup
from syncwall.describe.framework_switches import with_switches
from syncwall.describe.software import Software
from syncwall.work.memory import Memory, fits, step_memory

FILE = Path(__file__).parents[1] / "data" / "offload" / "reports.csv"
ROWS = list(csv.DictReader(FILE.read_text().splitlines()))


def t5(heads: int, width: int) -> dict[str, Any]:
    """T5 of the first release, with 128 tokens in and out."""
    part = {"layers": 24, "hidden": 1024, "mlp": {"hidden": width, "gated": False},
            "relative_positions": 32, "train_seq": 128}  # fmt: skip
    attention = {"heads": heads, "head_dim": 128}
    return {
        **part, "vocab": 32128, "norm": {"per_layer": 3}, "tied_embeddings": True,
        "attention": {**attention, "cross": True},
        "encoder": {**part, "attention": {**attention, "causal": False}},
    }  # fmt: skip


MODELS: dict[str, dict[str, Any]] = {
    "yi-34b": {
        "layers": 60, "hidden": 7168, "vocab": 64000, "train_seq": 4096,
        "attention": {"heads": 56, "kv_heads": 8}, "mlp": {"hidden": 20480},
    },
    "gpt-10b": {
        "layers": 50, "hidden": 4096, "vocab": 50304, "train_seq": 1024,
        "attention": {"heads": 32}, "mlp": {"hidden": 16384, "gated": False},
        "tied_embeddings": True, "learned_positions": 1024,
    },
    "vit-giant": {
        "layers": 40, "hidden": 1536, "patches": {"image": 224, "size": 14, "extra_tokens": 1},
        "attention": {"heads": 24, "causal": False, "qkv_bias": True, "output_bias": True},
        "mlp": {"hidden": 4096, "bias": True}, "classes": 45, "learned_positions": 257,
    },
    "t5-3b": t5(32, 16384),
    "t5-11b": t5(128, 65536),
}  # fmt: skip


def described(name: str) -> Model:
    if name not in MODELS:
        return lookup.model(name)
    return Model.model_validate({"name": name, **MODELS[name]})


def predicted(row: dict[str, str]) -> Memory:
    model = described(row["model"])
    said: dict[str, Any] = {key: row[key] for key in ("precision", "shard", "recompute", "master_weights")}
    said["micro_batch"] = int(row["micro_batch"])
    if row["rank"]:
        said["lora"] = {"rank": int(row["rank"]), "targets": row["targets"].split()}
        said["lora"] |= {"weights": row["weights"]} if row["weights"] else {}
    for part in row["host"].split():
        said |= {"offload_layers": model.layers} if part == "activations" else {f"offload_{part}": True}
    family = lookup.framework(row["framework"])
    software = Software.model_validate({"kernels": row["kernels"]})
    layout = with_switches(Layout.model_validate(said), family, row["date"], software)
    return step_memory(model, layout.resolved(int(row["gpus"])), int(row["seq"])).as_floats()


def error(row: dict[str, str]) -> float:
    """Predicted over measured peak, less one."""
    found = predicted(row)
    outside = found.cuda_and_nccl if row["counts"] == "allocator" else 0.0
    return float(found.total - outside) / 1e9 / float(row["peak_gb"]) - 1
