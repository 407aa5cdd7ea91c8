"""The constants of the catalogue that training runs decide.

Holds `Parameter`, `PARAMETERS`, `patched` (predict with other values) and `written` (put them into
the catalogue's files).
"""

import re
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from math import log
from pathlib import Path
from typing import Any

from bench.fit.search import Values
from syncwall.catalogue import BUILT_IN
from syncwall.cost import calibration, software
from syncwall.cost.calibration import Calibration
from syncwall.describe.choice import Dtype
from syncwall.describe.framework import Framework

DGXC, MOSAIC, HF = "dgxc-benchmarking", "mosaic-llm-foundry", "hf-ultrascale-playbook"
A100 = ("mosaic-llm-foundry", "bloom-prequel", "internevo", "vtrain-ground-truth",
        "aleph-alpha-layouts-2023")  # fmt: skip
H100 = ("dgxc-benchmarking", "hf-ultrascale-playbook", "mosaic-llm-foundry")
ALL = tuple(dict.fromkeys((*A100, *H100, "stas-ml-engineering")))
MEGATRON = ("dgxc-benchmarking", "bloom-prequel", "vtrain-ground-truth")
TRAINED = {
    "Hopper": ("h100-sxm", "h200-sxm"),
    "Blackwell": ("b200", "gb200", "b300", "gb300"),
}
"""Devices that share what is reached inside a training step."""
TORCH = ("llm-foundry", "pytorch", "torchtitan", "deepspeed")
"""Frameworks whose products are those of plain PyTorch."""


@dataclass(frozen=True)
class Parameter:
    """One constant: where it starts, how unsure that is, and what it may be."""

    start: float
    spread: float
    """Uncertainty of the start, as a standard deviation of its logarithm."""
    limits: tuple[float, float]
    sources: tuple[str, ...]
    """Sources whose predictions it changes."""

    def moved(self, value: float) -> float:
        """How far `value` is from the start, in standard deviations."""
        return log(value / self.start) / self.spread


PARAMETERS: dict[str, Parameter] = {
    "training of Hopper": Parameter(0.90, 0.1, (0.6, 1.05), H100),
    "training of Blackwell": Parameter(0.90, 0.1, (0.5, 1.05), (DGXC,)),
    "fp8 over its peak": Parameter(0.9, 0.1, (0.6, 1.05), (DGXC, MOSAIC)),
    "nic": Parameter(0.8, 0.1, (0.4, 0.95), ALL),
    "contention": Parameter(0.2, 0.5, (0.01, 0.5), ALL),
    "flash-1": Parameter(0.62, 0.2, (0.3, 1.0), (MOSAIC,)),
    "megatron traffic": Parameter(1.8, 0.3, (0.8, 4.0), MEGATRON),
    "megatron-deepspeed efficiency": Parameter(1.0, 0.1, (0.7, 1.1), MEGATRON[1:]),
    "internevo efficiency": Parameter(1.0, 0.1, (0.7, 1.1), ("internevo",)),
    "torch efficiency on ampere": Parameter(1.0, 0.1, (0.7, 1.1), (MOSAIC,)),
    "torch efficiency on hopper": Parameter(1.0, 0.1, (0.7, 1.1), (MOSAIC,)),
    "llm-foundry traffic": Parameter(1.05, 0.3, (0.5, 4.0), (MOSAIC,)),
    "megatron-core wait": Parameter(1.5, 0.5, (0.1, 10.0), (DGXC,)),
    "nanotron ring rank": Parameter(35.0, 0.3, (1.0, 100.0), (HF,)),
    "nanotron traffic": Parameter(2.4, 0.3, (0.8, 5.0), (HF,)),
    "nanotron host": Parameter(195.0, 0.3, (20.0, 500.0), (HF,)),
    "nanotron pipelined host": Parameter(115.0, 0.3, (5.0, 300.0), (HF,)),
    "nanotron pipelined node": Parameter(20.0, 0.5, (1.0, 100.0), (HF,)),
}  # fmt: skip
"""Times in microseconds, the wait of Megatron-Core in milliseconds."""


def _calibrated(name: str, fit: Calibration, values: Values) -> Calibration:
    """`fit` of device `name` with `values`."""
    network = fit.network.model_copy(
        update={"nic": values["nic"], "contention": values["contention"]}
    )
    attention = fit.attention.model_copy(update={"flash_1_ratio": values["flash-1"]})
    update: dict[str, Any] = {"network": network, "attention": attention}
    if "fp8" in fit.gemm.low_precision:
        narrow = fit.gemm.low_precision | dict.fromkeys(
            (Dtype.FP8, Dtype.MXFP8), values["fp8 over its peak"]
        )
        update["gemm"] = fit.gemm.model_copy(update={"low_precision": narrow})
    for kind, devices in TRAINED.items():
        if name in devices:
            update["training"] = fit.training | {"2020-01": values[f"training of {kind}"]}
    return fit.model_copy(update=update)


def efficiency(name: str, family: Framework, values: Values) -> dict[str, dict[str, float]] | None:
    """Of the products of the framework called `name`, by architecture; None if it is not fitted.

    The first date of each is fitted, later ones stay.
    """
    fitted = {one: values[f"torch efficiency on {one}"] for one in ("ampere", "hopper")}
    if name not in TORCH:
        found = values.get(f"{name} efficiency")
        if found is None:
            return None
        fitted = {"ampere": found}
    return {one: known | {min(known): fitted[one]} for one, known in family.efficiency.items()}


def _software(name: str, family: Framework, values: Values) -> Framework:
    """`family` called `name` with `values`."""
    update: dict[str, Any] = {}
    if name.startswith("megatron"):
        update["traffic"] = values["megatron traffic"]
    if (found := efficiency(name, family, values)) is not None:
        update["efficiency"] = found
    if f"{name} traffic" in values:
        update["traffic"] = values[f"{name} traffic"]
    if name in ("megatron-core", "megatron-bridge"):
        host = {"per_wait_s": values["megatron-core wait"] * 1e-3}
        update["host"] = family.host.model_copy(update=host)
    if name == "nanotron":
        host = {
            "per_operation_s": values["nanotron host"] * 1e-6,
            "pipelined_per_tensor_rank_s": values["nanotron pipelined host"] * 1e-6,
            "pipelined_per_tensor_node_s": values["nanotron pipelined node"] * 1e-6,
        }
        update["host"] = family.host.model_copy(update=host)
        update["ring_rank_s"] = values["nanotron ring rank"] * 1e-6
    return family.model_copy(update=update)


@contextmanager
def patched(values: Values) -> Iterator[None]:
    """Predict with `values` inside a `with` block."""
    plain, plain_family = calibration._calibration, software._framework
    fits: dict[str, Calibration] = {}
    families: dict[str, Framework] = {}

    def changed(name: str, like: str | None, directories: str) -> Calibration:
        if name not in fits:
            found = plain(name, like, directories)
            fits[name] = _calibrated(found.name, found, values)
        return fits[name]

    def changed_family(name: str, directories: str) -> Framework:
        if name not in families:
            families[name] = _software(name, plain_family(name, directories), values)
        return families[name]

    places = ((calibration, "_calibration", changed), (software, "_framework", changed_family))
    before = [getattr(module, name) for module, name, _ in places]
    for module, name, function in places:
        setattr(module, name, function)
    try:
        yield
    finally:
        for (module, name, _), function in zip(places, before, strict=True):
            setattr(module, name, function)


NOT_FITTED = ("cpu-laptop",)
"""Calibrations that no published run says anything about."""


def written(values: Values, *, write: bool) -> list[Path]:
    """Files that `values` change; they are written unless told otherwise."""
    changed = []
    for path in sorted((BUILT_IN / "calibrations").glob("*.yaml")):
        if path.stem in NOT_FITTED:
            continue
        changed += _rewritten(path, _calibration_text(path.stem, path.read_text(), values), write)
    for path in sorted((BUILT_IN / "frameworks").glob("*.yaml")):
        changed += _rewritten(path, _framework_text(path.stem, path.read_text(), values), write)
    return changed


def _rewritten(path: Path, text: str, write: bool) -> list[Path]:
    if text == path.read_text():
        return []
    if write:
        path.write_text(text)
    return [path]


def _calibration_text(name: str, text: str, values: Values) -> str:
    text = _with(text, "  nic", values["nic"])
    text = _with(text, "  contention", values["contention"])
    if "  flash_1_ratio" in text:
        text = _with(text, "  flash_1_ratio", values["flash-1"])
    fp8 = values["fp8 over its peak"]
    text = re.sub(r"\b(mx)?fp8: [\d.]+", rf"\g<1>fp8: {fp8:g}", text)
    for kind, devices in TRAINED.items():
        if name in devices:
            value = values[f"training of {kind}"]
            text = re.sub(r"training: \{2020-01: [\d.]+", f"training: {{2020-01: {value:g}", text)
    return text


def _framework_text(name: str, text: str, values: Values) -> str:
    if name.startswith("megatron"):
        text = _with(text, "traffic", values["megatron traffic"])
    if f"{name} traffic" in values:
        text = _with(text, "traffic", values[f"{name} traffic"])
    if (found := efficiency(name, software.framework(name), values)) is not None:
        pairs = ", ".join(f"{one}: {_dated(known)}" for one, known in found.items())
        text = re.sub(r"^efficiency: .*$", f"efficiency: {{{pairs}}}", text, flags=re.MULTILINE)
    if name in ("megatron-core", "megatron-bridge"):
        wait = values["megatron-core wait"]
        text = re.sub(r"\bper_wait: [\d.]+ ms", f"per_wait: {wait:g} ms", text)
    if name == "nanotron":
        for key, word in (
            ("per_operation", "host"),
            ("pipelined_per_tensor_rank", "pipelined host"),
            ("pipelined_per_tensor_node", "pipelined node"),
            ("ring_rank", "ring rank"),
        ):
            text = re.sub(rf"\b{key}: [\d.]+ us", f"{key}: {values[f'nanotron {word}']:g} us", text)
    return text


def _dated(known: dict[str, float]) -> str:
    return "{" + ", ".join(f"{month}: {value:g}" for month, value in known.items()) + "}"


def _with(text: str, key: str, value: float) -> str:
    return re.sub(rf"^{re.escape(key)}: [\d.]+$", f"{key}: {value:g}", text, flags=re.MULTILINE)
