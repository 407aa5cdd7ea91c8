"""Settings that the search leaves as they are, tried one after the other in the best few layouts.

Each has a few values, priced by the same predictor. What saves less than is worth a word stays as
it is.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Final

from syncwall.answer.improvements import WORTH
from syncwall.answer.priced import likely_fits
from syncwall.answer.pricing import Pricing
from syncwall.cost.framework_costs import framework_or_default
from syncwall.describe import Layout, Run
from syncwall.describe.base import Provenance, SourcedNumber
from syncwall.describe.layout import PLAIN, Shard
from syncwall.describe.rules import not_offered
from syncwall.describe.software import at
from syncwall.units import Dimension
from syncwall.work.memory import fits, step_memory

TUNABLE: Final = (
    "bucket_bytes",
    "unit_layers",
    "reshard_after_forward",
    "forward_prefetch",
    "backward_prefetch",
)
"""Fields of a layout that are tuned and not searched."""
TUNED: Final = (*TUNABLE, "overlap_tp")
"""All that are tuned."""
_BUCKETS: Final = tuple(
    SourcedNumber(mebibytes * 2.0**20, Dimension.BYTES, Provenance()) for mebibytes in (5, 50, 100, 250)
)
_UNITS: Final = (2, 4, 8)
_AHEAD: Final = (2, 4)


@dataclass(frozen=True, slots=True)
class TunedSetting:
    """The best other value of a setting, beside its default, all else as in the tuned layout."""

    name: str
    """Of the setting."""
    fields: Mapping[str, float | bool]
    """Fields of the layout with that value."""
    gained_s: float
    """Seconds of a step that it saves; less than none if it costs some."""
    memory_bytes: float
    """Memory that it needs more."""
    fits: bool
    taken: bool
    """True if the proposed layout has it."""


@dataclass(frozen=True, slots=True)
class Tuned:
    """A layout, its time and memory, and what its settings buy."""

    layout: Layout
    step_s: float
    memory_bytes: float
    settings: tuple[TunedSetting, ...] = ()


Value = Mapping[str, Any]


def tuned(run: Run, pricing: Pricing, pinned: Mapping[str, Any]) -> Tuned | None:
    """The layout of a settled `run` with its best settings; None if there is nothing to tune.

    Fields that are `pinned` stay.
    """
    tried = {name: values for name, values in _settings(run) if values and not set(values[0]) & set(pinned)}
    if not tried:
        return None
    start = best = _timed(run, pricing, run.layout)
    enough = likely_fits if likely_fits(start.memory_bytes, run.cluster.device) else fits
    for values in tried.values():
        for value in values:
            one = _timed(run, pricing, best.layout.model_copy(update=value))
            quicker = one.step_s < best.step_s - WORTH * start.step_s
            if quicker and enough(one.memory_bytes, run.cluster.device):
                best = one
    bought = tuple(_bought(run, pricing, best, name, values) for name, values in tried.items())
    return Tuned(best.layout, best.step_s, best.memory_bytes, bought)


def _settings(run: Run) -> Iterator[tuple[str, list[Value]]]:
    """Settings that mean something in the layout of `run`, and other values than the usual one."""
    layout, family = run.layout, framework_or_default(run.software.framework)
    ranks = layout.dp * layout.cp
    if layout.tp > 1 and not layout.overlap_tp and at(family.offers_overlap_tp, run.software.date):
        beside = {"overlap_tp": True}
        refused = not_offered(family, run.software, layout.model_copy(update=beside), run.model)
        yield "overlap_tp", [] if "overlap_tp" in refused else [beside]
    if layout.shard == Shard.DDP and ranks > 1:
        yield "bucket", [{"bucket_bytes": size} for size in _BUCKETS]
    if layout.shard != Shard.FSDP or layout.pp > 1 or ranks == 1:
        return
    yield "unit_layers", [{"unit_layers": n} for n in _UNITS if n < run.model.layers]
    node = run.cluster.domain_gpus // layout.tp
    kept: list[Value] = [{"reshard_after_forward": False}]
    if 1 < node < layout.shard_degree and layout.shard_degree % node == 0:
        kept.append({"reshard_after_forward": node})
    yield "reshard_after_forward", kept
    if layout.overlap_parameters:
        ahead = [{"forward_prefetch": n, "backward_prefetch": n} for n in _AHEAD]
        yield "prefetch", [value for value in ahead if value["forward_prefetch"] < run.model.layers]


def _bought(run: Run, pricing: Pricing, best: Tuned, name: str, values: list[Value]) -> TunedSetting:
    """The value that `best` has, or the quickest other one, against the default."""
    usual = {field: PLAIN.get(field, Layout.model_fields[field].default) for field in values[0]}
    without = best
    mine: Value = {field: getattr(best.layout, field) for field in usual}
    taken = mine != usual
    if taken:
        without = _timed(run, pricing, best.layout.model_copy(update=usual))
        other, value = best, mine
    else:
        each = [(_timed(run, pricing, best.layout.model_copy(update=one)), one) for one in values]
        other, value = min(each, key=lambda one: _order(run, one[0]))
    return TunedSetting(
        name,
        dict(value),
        without.step_s - other.step_s,
        other.memory_bytes - without.memory_bytes,
        bool(fits(other.memory_bytes, run.cluster.device)),
        taken,
    )


def _order(run: Run, one: Tuned) -> tuple[bool, float, float]:
    """What fits first, then the quickest, then what needs least memory."""
    too_large = not fits(one.memory_bytes, run.cluster.device)
    return too_large, one.step_s, one.memory_bytes


def _timed(run: Run, pricing: Pricing, layout: Layout) -> Tuned:
    step_s = pricing.step(run.model, layout, run.seq, run.cluster).step_s
    return Tuned(layout, float(step_s), float(step_memory(run.model, layout, run.seq).total))
