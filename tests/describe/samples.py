"""Small valid descriptions for tests, varied by keyword."""

from typing import Any

from syncwall.describe import Cluster, Device, Model

DEVICE: dict[str, Any] = {
    "name": "test-gpu",
    "vendor": "acme",
    "architecture": "roadrunner",
    "peak": {"bf16": "1 PFLOP/s", "fp32": "60 TFLOP/s"},
    "memory": {"size": "80 GB", "rate": "3 TB/s"},
}
MODEL: dict[str, Any] = {
    "name": "test-model",
    "layers": 32,
    "hidden": 4096,
    "vocab": 32000,
    "attention": {"heads": 32, "kv_heads": 8},
    "mlp": {"hidden": 14336},
    "train_seq": 4096,
}
MOE: dict[str, Any] = {"experts": 8, "top_k": 2, "hidden": 2048}


def device(**changes: Any) -> Device:
    return Device.model_validate(DEVICE | changes)


def model(**changes: Any) -> Model:
    return Model.model_validate(MODEL | changes)


def cluster(**changes: Any) -> Cluster:
    """8 test GPUs a node behind a switch, one NIC each."""
    gpus = changes.pop("gpus", 8)
    fields: dict[str, Any] = {
        "name": "test-cluster",
        "node": {
            "device": device(),
            "gpus": gpus,
            "nics": changes.pop("nics", {"count": gpus, "rate": "400 Gb/s"}),
        },
        "scale_up": {"gpus": gpus, "topology": "switch", "rate": "450 GB/s"},
    }
    return Cluster.model_validate(fields | changes)
