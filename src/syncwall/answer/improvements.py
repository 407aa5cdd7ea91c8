"""What to change: each proposal is the model run again, never a canned sentence.

Holds `Improvement` and `improvements`.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Final

from pydantic import ValidationError

from syncwall.answer.many import SIZES, Evaluated, evaluated
from syncwall.answer.prediction import Prediction, as_seen_from
from syncwall.describe import Layout, Run
from syncwall.describe.layout import Recompute, Schedule, Shard

_OPEN: Final = {"dp": None, "shard_degree": None}
"""Filled in again for another split."""
_WORTH: Final = 0.005
"""Share of a step that a change must save to be named."""


@dataclass(frozen=True, slots=True)
class Improvement:
    """A change and what it is predicted to bring."""

    change: str
    """In the words of the layout's keys."""
    run: Run
    gained_s: float
    """Seconds of the step that it saves."""
    memory_bytes: float
    """Memory that it needs more (or less, if negative)."""
    fields: dict[str, Any]
    """Fields of the layout that change, with their new values; None: filled in again."""


def improvements(prediction: Prediction, count: int = 3) -> list[Improvement]:
    """The `count` single changes that save most of the step and still fit, best first.

    If the run itself does not fit, the fastest changes that make it fit.
    """
    tried = []
    for change, fields in _changes(prediction.run):
        run = _changed(prediction.run, fields)
        if run is not None:
            tried.append((change, fields, run))
    times = _evaluated(prediction, [run for _, _, run in tried])
    have = prediction.run.cluster.device.memory.size_bytes
    found = []
    for (change, fields, run), other in zip(tried, times, strict=True):
        gained = prediction.step_s - other.step_s * as_seen_from(run, prediction.site).bias
        worth = gained > _WORTH * prediction.step_s or not prediction.fits
        if other.memory_bytes <= have and worth:
            extra = other.memory_bytes - prediction.memory_bytes
            found.append(Improvement(change, run, gained, extra, fields))
    return sorted(found, key=lambda found: -found.gained_s)[:count]


def _evaluated(prediction: Prediction, runs: list[Run]) -> list[Evaluated]:
    """Each run as it would be predicted; those that differ in sizes only are one call."""
    alike: dict[tuple[Any, ...], list[int]] = {}
    others = [name for name in Layout.model_fields if name not in SIZES]
    for index, run in enumerate(runs):
        key = tuple(getattr(run.layout, name) for name in others)
        alike.setdefault(key, []).append(index)
    found: dict[int, Evaluated] = {}
    run, measured = prediction.run, prediction.calibration.measured
    for indices in alike.values():
        layouts = [runs[index].layout for index in indices]
        several = evaluated(
            run.model, run.cluster, layouts, run.seq, run.software, measured=measured
        )
        found |= dict(zip(indices, several, strict=True))
    return [found[index] for index in range(len(runs))]


def _changed(run: Run, fields: dict[str, Any]) -> Run | None:
    """`run` with other layout fields; None if that layout cannot be."""
    layout = run.layout.model_copy(update=fields)
    stated = {name: getattr(layout, name) for name in Layout.model_fields}
    try:
        return Run(
            model=run.model,
            cluster=run.cluster,
            seq=run.seq,
            software=run.software,
            layout=Layout.model_validate(stated),
        )
    except ValidationError:
        return None


def _changes(run: Run) -> Iterator[tuple[str, dict[str, Any]]]:
    """Single changes worth a try; the batch and the GPUs stay."""
    layout = run.layout
    yield from _sizes(layout)
    for recompute in Recompute:
        if recompute != layout.recompute:
            yield f"recompute {recompute.text}", {"recompute": recompute}
    for shard in (Shard.DDP, Shard.ZERO1, Shard.FSDP):
        if shard != layout.shard:
            yield f"shard {shard.text}", {"shard": shard, **_OPEN}
    if layout.shard == Shard.FSDP and layout.shard_degree:
        for nodes in (1, 4):
            degree = run.cluster.domain_gpus * nodes // (layout.tp * layout.pp)
            if 1 < degree < layout.shard_degree:
                yield f"shard_degree {degree} (HSDP)", {"shard_degree": degree}
    yield from _switches(layout)


def _sizes(layout: Layout) -> Iterator[tuple[str, dict[str, Any]]]:
    for micro in (layout.micro_batch * 2, layout.micro_batch // 2):
        if micro:
            yield f"micro_batch {micro}", {"micro_batch": micro}
    for tp in (layout.tp * 2, layout.tp // 2):
        if tp:
            sp = layout.sp and tp > 1
            yield f"tp {tp}", {"tp": tp, "sp": sp, **_OPEN}
    for pp in (layout.pp * 2, layout.pp // 2):
        if pp:
            plain = {"virtual_stages": 1, "schedule": Schedule.ONE_F_ONE_B}
            yield f"pp {pp}", {"pp": pp, **_OPEN, **plain}


def _switches(layout: Layout) -> Iterator[tuple[str, dict[str, Any]]]:
    if layout.tp > 1:
        if not layout.sp:
            yield "sp true", {"sp": True}
        if not layout.overlap_tp:
            yield "overlap_tp true", {"overlap_tp": True}
    if layout.pp > 1:
        yield "schedule zero-bubble", {"schedule": Schedule.ZERO_BUBBLE, "virtual_stages": 1}
        for chunks in (2, 4):
            if chunks != layout.virtual_stages:
                fields = {"schedule": Schedule.INTERLEAVED, "virtual_stages": chunks}
                yield f"interleaved, virtual_stages {chunks}", fields
    for switch in ("overlap_gradients", "overlap_parameters", "overlap_pp"):
        if not getattr(layout, switch):
            yield f"{switch} true", {switch: True}
