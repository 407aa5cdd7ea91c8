"""Fits software constants to training runs: only calibration rows are read, none in doubt.

`PARAMETERS` are the constants, `patched` predicts with other values, `written` puts them into the
files of catalogue/frameworks and catalogue/calibrations, `Problem` says how well they do.
"""

import re
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cached_property
from math import log
from pathlib import Path

import numpy as np

from bench import Dirs
from bench.fit.files import readable, rows_of, update
from bench.fit.search import Values, search
from syncwall.catalogue import BUILT_IN, catalogue_overlay
from syncwall.cost.framework_costs import framework_or_default
from syncwall.describe.software import Framework
from syncwall.validate.evaluation import ValidatedRun, outcomes
from syncwall.validate.mapping import ValidationCase, cases_of
from syncwall.validate.score import evenly
from syncwall.validate.table import RunRow

DGXC, MOSAIC, HF = "dgxc-benchmarking", "mosaic-llm-foundry", "hf-ultrascale-playbook"
A100 = (MOSAIC, "bloom-prequel", "internevo", "vtrain-ground-truth", "aleph-alpha-layouts-2023")
H100 = (DGXC, HF, MOSAIC)
ALL = tuple(dict.fromkeys((*A100, *H100, "stas-ml-engineering")))
MEGATRON = (DGXC, "bloom-prequel", "vtrain-ground-truth")
SMALL = ("csabapalfi", "denfujita", "noviorlu", "padraig-obrien", "sara-kothari", "languini", "baraql")
"""Organisations with plain PyTorch and models small enough for the host to matter."""
SPLIT = "pigeon23"
"""Tensor parallelism by DTensor without compilation."""
TRAINED = {
    "Hopper": ("h100-sxm",),
    "Blackwell": ("b200", "gb200", "b300", "gb300"),
}
"""Devices that share what is reached inside a training step."""
TORCH = ("llm-foundry", "pytorch", "torchtitan", "deepspeed")
"""Frameworks whose products are those of plain PyTorch."""
NOT_FITTED = ("cpu-laptop",)
"""Calibrations that no published run says anything about."""
CLIP = 0.7
"""Largest |ln(predicted / measured)| that counts: a broken run is not worth more than that."""
STIFFNESS = 0.018
"""Loss of moving a constant by its own uncertainty away from where it started, beside the mean error
of every source."""
MOST_ROWS = 60
"""Rows of a source that a fit reads, evenly spread; sources count the same however long."""


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
    "torch host": Parameter(60.0, 0.3, (10.0, 200.0), SMALL),
    "torch split operation": Parameter(150.0, 0.5, (10.0, 600.0), (SPLIT,)),
    "nanotron ring rank": Parameter(35.0, 0.3, (1.0, 100.0), (HF,)),
    "nanotron traffic": Parameter(2.4, 0.3, (0.8, 5.0), (HF,)),
    "nanotron host": Parameter(195.0, 0.3, (20.0, 500.0), (HF,)),
    "nanotron pipelined host": Parameter(115.0, 0.3, (5.0, 300.0), (HF,)),
    "nanotron pipelined node": Parameter(20.0, 0.5, (1.0, 100.0), (HF,)),
}
"""Times in microseconds, the wait of Megatron-Core in milliseconds."""


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


@contextmanager
def patched(values: Values) -> Iterator[None]:
    """Predict with `values` inside a `with` block: files with them are searched first."""
    with tempfile.TemporaryDirectory() as folder:
        for path, text in texts_of(values).items():
            own = Path(folder, path.parent.name, path.name)
            own.parent.mkdir(exist_ok=True)
            own.write_text(text)
        with catalogue_overlay(Path(folder)):
            yield


def texts_of(values: Values) -> dict[Path, str]:
    found = {}
    for folder, text_of in (("calibrations", _calibration_text), ("frameworks", _framework_text)):
        for path in sorted((BUILT_IN / folder).glob("*.yaml")):
            if path.stem not in NOT_FITTED:
                found[path] = text_of(path.stem, path.read_text(), values)
    return found


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
    if (found := efficiency(name, framework_or_default(name), values)) is not None:
        pairs = ", ".join(f"{one}: {_dated(known)}" for one, known in found.items())
        text = re.sub(r"^efficiency: .*$", f"efficiency: {{{pairs}}}", text, flags=re.MULTILINE)
    if name in ("megatron-core", "megatron-bridge"):
        wait = values["megatron-core wait"]
        text = re.sub(r"\bper_wait: [\d.]+ ms", f"per_wait: {wait:g} ms", text)
    if name in ("pytorch", "torchtitan"):
        for key, word in (("per_operation", "host"), ("per_split_operation", "split operation")):
            text = re.sub(rf"\b{key}: [\d.]+ us", f"{key}: {values[f'torch {word}']:g} us", text)
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


class Problem:
    def __init__(self, rows: Sequence[RunRow]) -> None:
        self._known: dict[tuple[str, Values | tuple[tuple[str, float], ...]], float] = {}
        self.cases: dict[str, list[ValidationCase]] = {}
        for case in cases_of(row for some in readable(rows).values() for row in some):
            self.cases.setdefault(case.row.source, []).append(case)

    @cached_property
    def read(self) -> dict[str, list[ValidationCase]]:
        """The cases that count in the loss."""
        return {source: evenly(cases, MOST_ROWS) for source, cases in self.cases.items()}

    def loss(self, values: Values) -> float:
        moved = sum(PARAMETERS[name].moved(value) ** 2 for name, value in values.items())
        errors = [self._error(source, values) for source in self.read]
        return float(np.sum(errors)) + STIFFNESS * moved

    def _error(self, source: str, values: Values) -> float:
        """Mean error of one source; only constants that it can see make it count anew."""
        seen = tuple((n, v) for n, v in values.items() if source in PARAMETERS[n].sources)
        if (source, seen) not in self._known:
            with patched(values):
                found = outcomes(self.read[source])
            logs = np.abs(np.log([outcome.ratio for outcome in found]))
            self._known[source, seen] = float(np.minimum(logs, CLIP).mean())
        return self._known[source, seen]


def _residuals(found: list[ValidatedRun]) -> str:
    ratios = np.array([outcome.ratio for outcome in found])
    errors = np.abs(ratios - 1)
    return f"mean {errors.mean():.1%}, median {np.median(errors):.1%} ({np.median(ratios):.2f})"


def fit(directories: Dirs, check: bool = False) -> int:
    """Fit the constants named in `PARAMETERS` to the published runs of DIR...

    Prints the residuals of every source before and after. With --check nothing is written: 1 if a
    file would change.
    """
    problem = Problem(rows_of(directories))
    start = {name: parameter.start for name, parameter in PARAMETERS.items()}
    limits = {name: parameter.limits for name, parameter in PARAMETERS.items()}
    values = search(problem.loss, start, limits, pairs=False)
    for name, value in values.items():
        parameter = PARAMETERS[name]
        print(f"{name:34} {parameter.start:8g} -> {value:8g}   {', '.join(parameter.sources)}")
    for source, cases in problem.cases.items():
        with patched(start):
            before = _residuals(outcomes(cases))
        with patched(values):
            after = _residuals(outcomes(cases))
        print(f"{source:26} {len(cases):5} rows   {before}  ->  {after}")
    return update(texts_of(values), check=check)
