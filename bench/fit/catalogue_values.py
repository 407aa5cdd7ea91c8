"""The constants of the catalogue that training runs decide.

Holds `Parameter`, `PARAMETERS`, `patched` (predict with other values) and `written` (put them into
the catalogue's files).
"""

import re
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from math import log
from pathlib import Path
from typing import Any

from bench.fit.search import Values
from syncwall.catalogue import BUILT_IN
from syncwall.cost import calibration, reached, software
from syncwall.cost.calibration import Calibration
from syncwall.describe.choice import Dtype
from syncwall.describe.framework import Framework

DGXC, MOSAIC, HF = "dgxc-benchmarking", "mosaic-llm-foundry", "hf-ultrascale-playbook"
A100 = ("mosaic-llm-foundry", "bloom-prequel", "internevo", "vtrain-ground-truth")
H100 = ("dgxc-benchmarking", "hf-ultrascale-playbook", "mosaic-llm-foundry")
ALL = tuple(dict.fromkeys((*A100, *H100, "stas-ml-engineering")))
MEGATRON = ("dgxc-benchmarking", "bloom-prequel", "vtrain-ground-truth")
HOPPER = ("h100-sxm", "h200-sxm")
BLACKWELL = ("b200", "gb200", "b300", "gb300")


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
    "contention": Parameter(1.05, 0.03, (1.0, 1.2), ALL),
    "flash-1": Parameter(0.62, 0.2, (0.3, 1.0), (MOSAIC,)),
    "megatron traffic": Parameter(1.8, 0.3, (0.8, 4.0), MEGATRON),
    "megatron-deepspeed efficiency": Parameter(1.0, 0.05, (0.7, 1.1), MEGATRON[1:]),
    "internevo efficiency": Parameter(1.0, 0.05, (0.7, 1.1), ("internevo",)),
    "llm-foundry efficiency": Parameter(1.0, 0.05, (0.7, 1.1), (MOSAIC,)),
    "llm-foundry traffic": Parameter(1.05, 0.3, (0.5, 4.0), (MOSAIC,)),
    "megatron-core wait": Parameter(1.5, 0.5, (0.1, 10.0), (DGXC,)),
    "efa step": Parameter(35.0, 0.3, (1.0, 100.0), (HF,)),
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
    for devices, parameter in (
        (HOPPER, "training of Hopper"),
        (BLACKWELL, "training of Blackwell"),
    ):
        if name in devices:
            update["training"] = fit.training | {"2020-01": values[parameter]}
    return fit.model_copy(update=update)


def _software(name: str, family: Framework, values: Values) -> Framework:
    """`family` called `name` with `values`."""
    update: dict[str, Any] = {}
    if name.startswith("megatron"):
        update["traffic"] = values["megatron traffic"]
    if f"{name} efficiency" in values:
        update["efficiency"] = values[f"{name} efficiency"]
    if f"{name} traffic" in values:
        update["traffic"] = values[f"{name} traffic"]
    if name == "megatron-core":
        host = {"per_wait_s": values["megatron-core wait"] * 1e-3}
        update["host"] = family.host.model_copy(update=host)
    if name == "nanotron":
        host = {
            "per_operation_s": values["nanotron host"] * 1e-6,
            "pipelined_per_tensor_rank_s": values["nanotron pipelined host"] * 1e-6,
            "pipelined_per_tensor_node_s": values["nanotron pipelined node"] * 1e-6,
        }
        update["host"] = family.host.model_copy(update=host)
    return family.model_copy(update=update)


@contextmanager
def patched(values: Values) -> Iterator[None]:
    """Predict with `values` inside a `with` block."""
    plain, plain_family = calibration._calibration, software._framework
    fits: dict[str, Calibration] = {}
    families: dict[str, Framework] = {}

    def changed(name: str, directories: str) -> Calibration:
        if name not in fits:
            fits[name] = _calibrated(name, plain(name, directories), values)
        return fits[name]

    def changed_family(name: str, directories: str) -> Framework:
        if name not in families:
            families[name] = _software(name, plain_family(name, directories), values)
        return families[name]

    efa = reached._transport("efa-v2")
    network = replace(efa, step_s=values["efa step"] * 1e-6)

    def changed_network(link: str) -> reached.TransportFit:
        return network if link.startswith("efa") else plain_network(link)

    plain_network = reached._transport
    places = ((calibration, "_calibration", changed), (software, "_framework", changed_family),
              (reached, "_transport", changed_network))  # fmt: skip
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
    path = BUILT_IN / "tuning" / "transports.yaml"
    text = _with(path.read_text(), "  training_step_us", values["efa step"])
    return changed + _rewritten(path, text, write)


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
    for devices, parameter in (
        (HOPPER, "training of Hopper"),
        (BLACKWELL, "training of Blackwell"),
    ):
        if name in devices:
            text = re.sub(
                r"training: \{2020-01: [\d.]+", f"training: {{2020-01: {values[parameter]:g}", text
            )
    return text


def _framework_text(name: str, text: str, values: Values) -> str:
    if name.startswith("megatron"):
        text = _with(text, "traffic", values["megatron traffic"])
    for word in ("efficiency", "traffic"):
        if f"{name} {word}" in values:
            text = _with(text, word, values[f"{name} {word}"])
    if name == "megatron-core":
        wait = values["megatron-core wait"]
        text = re.sub(r"\bper_wait: [\d.]+ ms", f"per_wait: {wait:g} ms", text)
    if name == "nanotron":
        for key, word in (
            ("per_operation", "host"),
            ("pipelined_per_tensor_rank", "pipelined host"),
            ("pipelined_per_tensor_node", "pipelined node"),
        ):
            text = re.sub(rf"\b{key}: [\d.]+ us", f"{key}: {values[f'nanotron {word}']:g} us", text)
    return text


def _with(text: str, key: str, value: float) -> str:
    return re.sub(rf"^{re.escape(key)}: [\d.]+$", f"{key}: {value:g}", text, flags=re.MULTILINE)
