"""Why a run was not as fast as predicted, and what may differ between it and its description.

What changes nothing is not there.

Every suspect is the run predicted again with one thing changed (`answer.gap`); it is the
likelier the nearer its price comes to the gap, seen with the doubt of the prediction, and the more
often it is met (`catalogue/validation/suspects.yaml`).
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import lru_cache
from math import exp, hypot, log, pi, sqrt
from pathlib import Path
from typing import Any, Final

from pydantic import ValidationError

from syncwall.answer.improvements import not_offered_in
from syncwall.answer.interval import Z80
from syncwall.answer.prediction import Prediction, predict
from syncwall.answer.priced import may_fit
from syncwall.answer.pricing import with_nics, with_power, with_scale_up
from syncwall.catalogue import BUILT_IN, catalogue_overlay
from syncwall.cost.framework_costs import ResolvedSoftware, framework_or_default
from syncwall.describe import Run
from syncwall.describe.choice import Dtype, text_of
from syncwall.describe.layout import Schedule, Shard
from syncwall.describe.run import MeasuredSpeed
from syncwall.documents import read_document
from syncwall.public import Answer, published
from syncwall.timeline.ledger import Ledger
from syncwall.units import Dimension, parse

Variants = Iterator[tuple[str, Run]]
_ETHERNET: Final = ("100 Gb/s", "25 Gb/s")
_POWERS: Final = (0.86, 0.71, 0.57)
"""600, 500 and 400 of 700 W, as far as makers let a limit be set."""
_IMBALANCES: Final = (1.25, 1.5, 2.0, 3.0)
_FORMATS: Final = (Dtype.FP32, Dtype.BF16, Dtype.FP8)
_BESIDE: Final = ("overlap", "async")
_KERNELS: Final = ("flash-3", "flash-2", "flash-1", "unfused")


def _tcp(run: Run) -> Variants:
    nics = run.cluster.node.nics
    if nics is None or nics.transport != "rdma" or run.gpus <= run.cluster.domain_gpus:
        return
    yield from _machine("TCP over its own adapters", with_nics(run, transport="tcp"))
    for rate in _ETHERNET:
        other = with_nics(run, 1, parse(rate, Dimension.BYTES_PER_S), "tcp", gpu_direct=False)
        yield from _machine(f"TCP over one adapter of {rate}", other)


def _adapters(run: Run) -> Variants:
    nics = run.cluster.node.nics
    if nics is None or run.gpus <= run.cluster.domain_gpus:
        return
    for count in sorted({nics.count // 2, 1} - {0, nics.count}, reverse=True):
        yield from _machine(f"{count} of {nics.count} adapters", with_nics(run, count))


def _gpu_direct(run: Run) -> Variants:
    nics = run.cluster.node.nics
    if nics is not None and nics.gpu_direct and run.gpus > run.cluster.domain_gpus:
        yield from _machine("through host memory", with_nics(run, gpu_direct=False))


def _nvlink(run: Run) -> Variants:
    if run.cluster.domain_gpus > 1:
        yield from _machine("over PCIe", with_scale_up(run, 0.0))


def _power(run: Run) -> Variants:
    device = run.cluster.device
    for share in _POWERS:
        watts = round(float(device.power_limit_w or device.tdp_w or 0.0) * share, -1)
        yield from _machine(f"as if limited to {watts:.0f} W", with_power(run, share))


def _machine(words: str, changed: Run | None) -> Variants:
    if changed is not None:
        yield words, changed


def _kernels(run: Run) -> Variants:
    family = framework_or_default(run.software.framework)
    if ResolvedSoftware.of(run.software).kernels == "eager":
        yield from _software(run, kernels="fused")
    elif "kernels" in family.untuned or family.kernels != "fused":  # it depends on torch.compile
        yield from _software(run, kernels="eager")


def _launch_blocking(run: Run) -> Variants:
    if not run.software.launch_blocking:
        names = (name for name in type(run.layout).model_fields if name.startswith(_BESIDE))
        waits = {name: False for name in names if getattr(run.layout, name)}
        yield from _changed(run, {"launch_blocking": True}, waits, "CUDA_LAUNCH_BLOCKING=1")


def _experts_loop(run: Run) -> Variants:
    setting = ResolvedSoftware.of(run.software)
    if run.model.moe is not None and run.layout.ep == 1:
        other = "loop" if setting.expert_kernels == "grouped" else "grouped"
        yield from _software(run, expert_kernels=other)


def _graphs(run: Run) -> Variants:
    now = ResolvedSoftware.of(run.software).graphs
    for other in ("none", "full"):
        if other != now:
            yield from _software(run, graphs=other)


def _attention(run: Run) -> Variants:
    now = ResolvedSoftware.of(run.software).attention
    had = framework_or_default(run.software.framework).attention.values()
    oldest = max(map(_KERNELS.index, had))
    for other in _KERNELS[: oldest + 1]:
        if other != now:
            scores = {"kept_attention_scores": other == "unfused"}
            yield from _changed(run, {"attention": other}, scores, f"attention {other}")


def _scaling(run: Run) -> Variants:
    if run.layout.precision == Dtype.FP8:
        for other in ("tensor", "block", "row"):
            if other != run.software.fp8_scaling:
                yield from _software(run, fp8_scaling=other)


def _overlap(run: Run) -> Variants:
    sharded = run.layout.shard != Shard.DDP
    fields = ("overlap_gradients", *(("overlap_parameters",) if sharded else ()))
    now = any(getattr(run.layout, name) for name in fields)
    yield from _layout(run, **dict.fromkeys(fields, not now))


def _overlap_tp(run: Run) -> Variants:
    layout = run.layout
    if layout.tp > 1 and (layout.overlap_tp or layout.async_tp):
        yield from _layout(run, overlap_tp=False, async_tp=False)
    elif layout.tp > 1:
        yield from _layout(run, overlap_tp=True)


def _overlap_ep(run: Run) -> Variants:
    if run.layout.ep > 1:
        yield from _layout(run, overlap_ep=not run.layout.overlap_ep)


def _recompute(run: Run) -> Variants:
    family = framework_or_default(run.software.framework)
    for other in family.available(family.recomputes, run.software.date):
        if other != run.layout.recompute:
            yield from _layout(run, recompute=other, recompute_layers=None)


def _offload(run: Run) -> Variants:
    yield from _layout(run, offload_optimizer=not run.layout.offload_optimizer)


def _buckets(run: Run) -> Variants:
    if run.layout.shard == Shard.DDP:
        yield from _layout(run, bucket_bytes=float(2**20))


def _precision(run: Run) -> Variants:
    for other in _FORMATS:
        if other != run.layout.precision and other in run.cluster.device.peak_flop_per_s:
            yield from _layout(run, precision=other)


def _schedule(run: Run) -> Variants:
    if run.layout.pp == 1:
        return
    for schedule in framework_or_default(run.software.framework).schedules:
        if schedule not in (Schedule.INTERLEAVED, run.layout.schedule):
            yield from _layout(run, schedule=schedule, virtual_stages=1)


def _imbalance(run: Run) -> Variants:
    for other in _IMBALANCES:
        if run.model.moe is not None and run.layout.ep > 1 and other > run.layout.expert_imbalance:
            yield from _layout(run, expert_imbalance=other)


def _micro_batch(run: Run) -> Variants:
    for other in (1, run.layout.micro_batch * 2):
        if other != run.layout.micro_batch:
            yield from _layout(run, micro_batch=other)


def _accumulation(run: Run) -> Variants:
    if run.layout.microbatches > 1 and run.layout.pp == 1:
        yield from _layout(run, global_batch=run.layout.dp * run.layout.micro_batch)


def _software(run: Run, **fields: Any) -> Variants:
    yield from _changed(run, fields, {})


def _layout(run: Run, **fields: Any) -> Variants:
    yield from _changed(run, {}, fields)


def _changed(run: Run, software: dict[str, Any], layout: dict[str, Any], words: str = "") -> Variants:
    """The run with these fields, if that is possible."""
    said = {**software, **layout}.items()
    words = words or ", ".join(f"{key} {text_of(value)}" for key, value in said if value is not None)
    try:
        changed = run.changed(**layout)
    except ValidationError:
        return
    yield words, changed.model_copy(update={"software": run.software.model_copy(update=software)})


SUSPECTS: Final[dict[str, Callable[[Run], Variants]]] = {
    "tcp": _tcp,
    "adapters": _adapters,
    "gpu-direct": _gpu_direct,
    "nvlink": _nvlink,
    "power": _power,
    "kernels": _kernels,
    "launch-blocking": _launch_blocking,
    "experts-loop": _experts_loop,
    "graphs": _graphs,
    "attention": _attention,
    "overlap": _overlap,
    "overlap-tp": _overlap_tp,
    "overlap-ep": _overlap_ep,
    "recompute": _recompute,
    "offload": _offload,
    "buckets": _buckets,
    "precision": _precision,
    "scaling": _scaling,
    "schedule": _schedule,
    "imbalance": _imbalance,
    "micro-batch": _micro_batch,
    "no-accumulation": _accumulation,
}
UNPRICED: Final = ("data", "slow-rank")
"""They add what they add: any size is possible, small ones are likelier."""


TABLE: Final = BUILT_IN / "validation" / "suspects.yaml"
WRONG_FROM: Final = 0.3
"""Gap, as a share of the prediction, from which on the description or the machine is wrong: sites
with the same description differ by 5 to 10%."""
DESCRIBED: Final = 0.15 / Z80
"""Deviation of published runs that are fully described, of sources that the model has had in view: four of
five are within 16% (catalogue/validation/residuals.csv)."""
PRICE_DOUBT: Final = 0.3
"""Deviation of the price of a change over the price, both as logarithms; assumed."""
UNPRICED_MEAN: Final = 0.2
"""Mean slowdown, as a logarithm, of what no description can say; assumed."""
ENOUGH: Final = 0.7
"""Share of the gap that a suspect must explain to be enough."""
STATED: Final = 1 / 3
"""Weight of what contradicts the description over that of what nobody stated; assumed."""
OPT_IN: Final = ("offload",)
"""What nobody has who did not switch it on."""
LEAST: Final = 0.01
"""Change of the step, as a logarithm, below which it explains nothing."""


@published("key what detail step_s explained probability seen tell")
@dataclass(frozen=True, slots=True)
class Suspect:
    """One thing that may be otherwise than described."""

    key: str
    """tcp, power, kernels, recompute, data, ..."""
    what: str
    detail: str
    """What it is then, in the words of a run file; empty if no description can say it."""
    tell: str
    """The cheapest experiment that tells."""
    seen: str
    """Where it was met."""
    step_s: float
    """Predicted step of `run`; that measured if there is none."""
    run: Run | None
    """The run with this one thing changed."""
    ledger: Ledger | None
    """Seconds of its step by cause."""
    probability: float
    """Among all that was tried and nothing at all, if one of them is true."""
    explained: float
    """Share of the gap that it explains."""

    def __repr__(self) -> str:
        return f"<Suspect {self.key}: {self.detail or self.what}: step {self.step_s:.4g} s>"


@published("measured_s gap_s ratio usual=is_usual wrong=is_wrong suspects unpriced")
@dataclass(frozen=True)
class Gap(Answer):
    """A measured step beside the prediction."""

    predicted: Prediction
    measured_s: float
    """The measured step."""
    suspects: tuple[Suspect, ...]
    """What would explain it, each the run predicted with one thing changed, the likeliest first."""
    unpriced: tuple[Suspect, ...]
    """What no description can say, and may cost anything; empty if the run was faster."""

    def __repr__(self) -> str:
        times = f"measured {self.measured_s:.3g} s, predicted {self.predicted.step_s:.3g} s"
        usual = "as far apart as is usual" if self.is_usual else "slower or faster than is usual"
        return f"<Gap: {times}: {'description or machine is wrong' if self.is_wrong else usual}>"

    @property
    def gap_s(self) -> float:
        """What it takes longer than predicted; less if negative."""
        return self.measured_s - self.predicted.step_s

    @property
    def ratio(self) -> float:
        """Measured over predicted."""
        return self.measured_s / self.predicted.step_s

    @property
    def is_usual(self) -> bool:
        """True if the measured step is no farther off than four of five published runs are."""
        return abs(log(self.ratio)) <= Z80 * _usual_deviation(self.predicted)

    @property
    def is_wrong(self) -> bool:
        """True if it is so far off that the description or the machine is wrong."""
        return is_wrong(self.ratio)

    @property
    def exit_code(self) -> int:
        """1 if description or machine is wrong, 3 if it is slower or faster than is usual."""
        return 1 if self.is_wrong else 0 if self.is_usual else 3

    @property
    def ranked(self) -> list[Suspect]:
        """All of them, the likeliest first."""
        return sorted((*self.suspects, *self.unpriced), key=lambda one: -one.probability)

    @property
    def is_explained(self) -> bool:
        """True if one of the suspects alone explains most of it."""
        return any(one.explained >= ENOUGH for one in self.suspects)

    def explained(self, one: Suspect) -> float:
        """Share of the gap that `one` explains."""
        return one.explained


def is_wrong(ratio: float) -> bool:
    """True if a measured over a predicted time is too far from 1 to be a property of a site."""
    return abs(log(ratio)) > log(1 + WRONG_FROM)


def gap_of(prediction: Prediction) -> Gap | None:
    """The gap of a run that says how fast it was; None if it does not."""
    return None if prediction.run.measured is None else gap(prediction, prediction.run.measured)


def gap(predicted: Prediction | Run | str | Path, measured: MeasuredSpeed | str | float) -> Gap:
    """What would explain that a run, predicted or not yet, was as fast as `measured`.

    Examples:
        >>> import syncwall as sw
        >>> layout = sw.Layout(shard="fsdp", micro_batch=1, global_batch=256, recompute="none")
        >>> run = sw.Run(model="llama-3.1-8b", cluster="dgx-h100", nodes=16, layout=layout,
        ...              software=sw.Software(framework="torchtitan"))
        >>> found = sw.gap(run, "300 tok/s/gpu")
        >>> found
        <Gap: measured 54.6 s, predicted 1.98 s: description or machine is wrong>
        >>> found.is_wrong, found.suspects[0].key
        (True, 'tcp')
        >>> first = found.suspects[0]
        >>> first.run is not None and sw.predict(first.run).step_s == first.step_s
        True
    """
    prediction = predicted if isinstance(predicted, Prediction) else predict(predicted)
    measured_s = prediction.seconds_of(prediction.run.speed(measured))
    with catalogue_overlay(prediction.pricing.catalogue):
        tried = [*_priced(prediction, measured_s), *_unpriced(prediction, measured_s)]
    seen = log(measured_s / prediction.step_s)
    whole = sum(score for _, score in tried) + _density(seen, 0.0, _usual_deviation(prediction))
    ranked = sorted(tried, key=lambda one: -one[1])
    before_s, gap_s = prediction.step_s, measured_s - prediction.step_s
    found = [
        _suspect(fields, score / whole, (fields["step_s"] - before_s) / gap_s) for fields, score in ranked
    ]
    priced = tuple(one for one in found if one.run is not None)
    return Gap(prediction, measured_s, priced, tuple(one for one in found if one.run is None))


def _suspect(fields: dict[str, Any], probability: float, explained: float) -> Suspect:
    known = _table()[fields["key"]]
    words = {name: known[name] for name in ("what", "tell", "seen")}
    return Suspect(**fields, **words, probability=probability, explained=explained)


def _priced(prediction: Prediction, measured_s: float) -> Iterator[tuple[dict[str, Any], float]]:
    """Every suspect that goes the right way, at its best variant, with how well all of them fit."""
    seen, doubt = log(measured_s / prediction.step_s), _usual_deviation(prediction)
    before = not_offered_in(prediction.run).keys()
    for key, variants in SUSPECTS.items():
        fits: list[tuple[float, dict[str, Any]]] = []
        for detail, run in variants(prediction.run):
            if not_offered_in(run).keys() - before:
                continue
            other = prediction.again(run)
            step_s, price = other.step_s, log(other.step_s / prediction.step_s)
            if price * seen > 0 and abs(price) >= LEAST and _could_run(other, prediction):
                fit = _density(seen, price, hypot(doubt, PRICE_DOUBT * price))
                fits.append(
                    (
                        fit,
                        {"key": key, "detail": detail, "step_s": step_s, "run": run, "ledger": other.ledger},
                    )
                )
        if fits:
            best = max(fits, key=lambda one: one[0])[1]
            often = _table()[key]["often"] * (STATED if _is_deliberate(key, best["run"], prediction) else 1.0)
            yield best, often * sum(fit for fit, _ in fits) / len(fits)


def _is_deliberate(key: str, run: Run, prediction: Prediction) -> bool:
    """True if it contradicts what somebody stated, or nobody has it who did not switch it on."""
    asked = prediction.settled.asked
    parts = ((asked.layout, run.layout), (asked.software, run.software))
    return key in OPT_IN or any(
        getattr(said, name) not in (None, getattr(tried, name), type(said).model_fields[name].default)
        for said, tried in parts
        for name in type(said).model_fields
    )


def _could_run(other: Prediction, prediction: Prediction) -> bool:
    """True if it may fit, or needs no more memory than the run, which ran."""
    least = other.memory_bytes <= prediction.memory_bytes
    return least or bool(may_fit(other.memory_bytes, other.cluster.device))


def _unpriced(prediction: Prediction, measured_s: float) -> Iterator[tuple[dict[str, Any], float]]:
    """What may cost anything, if the run is slower than predicted."""
    seen = log(measured_s / prediction.step_s)
    for key in UNPRICED:
        if seen > 0:
            likely = exp(-seen / UNPRICED_MEAN) / UNPRICED_MEAN
            fields = {"key": key, "detail": "", "step_s": measured_s, "run": None, "ledger": None}
            yield fields, _table()[key]["often"] * likely


def _usual_deviation(prediction: Prediction) -> float:
    """What a run that is described as it is differs by; the interval of a stranger is wider, because
    it also allows for what a gap is to be explained by.
    """
    return min(prediction.interval.deviation, DESCRIBED)


def _density(seen: float, expected: float, deviation: float) -> float:
    return exp(-(((seen - expected) / deviation) ** 2) / 2) / (deviation * sqrt(2 * pi))


@lru_cache(maxsize=1)
def _table() -> dict[str, dict[str, Any]]:
    found: dict[str, dict[str, Any]] = read_document(TABLE).value
    return found
