"""What may differ between a run as described and the run that was measured, as changed runs.

Holds `SUSPECTS`: by key of `catalogue/validation/suspects.yaml` a function that gives every variant
of a settled run in which that one thing is otherwise, with what it then is in words. What changes
nothing is not there. `UNPRICED` are those that no description can say.
"""

from collections.abc import Callable, Iterator
from typing import Any, Final

from pydantic import ValidationError

from syncwall.answer.changed_machine import with_nics, with_power, with_scale_up
from syncwall.cost.software import ResolvedSoftware, framework
from syncwall.describe import Run
from syncwall.describe.choice import Dtype, text_of
from syncwall.describe.layout import Schedule, Shard
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
    other = "eager" if ResolvedSoftware.of(run.software).kernels == "fused" else "fused"
    yield from _software(run, kernels=other)


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
    for other in _KERNELS:
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
    for other in framework(run.software.framework).recomputes:
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
    for schedule in framework(run.software.framework).schedules:
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


def _changed(
    run: Run, software: dict[str, Any], layout: dict[str, Any], words: str = ""
) -> Variants:
    """The run with these fields, if that is possible."""
    said = {**software, **layout}.items()
    words = words or ", ".join(
        f"{key} {text_of(value)}" for key, value in said if value is not None
    )
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
