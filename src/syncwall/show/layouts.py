"""The best layouts on one screen, and as plain data.

Holds `Plan`, `layouts_page` and `layouts_record`.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from syncwall.answer.improvements import WORTH, Improvement, changed
from syncwall.answer.levers import LEVERS
from syncwall.answer.prediction import Prediction
from syncwall.answer.priced import MFU_CONVENTION
from syncwall.describe import Layout, Run
from syncwall.plan.batches import Other
from syncwall.plan.front import Objective, Point, differences
from syncwall.plan.search import Candidate, Found
from syncwall.plan.space import SEARCHED
from syncwall.show.headed import Fitting, Headed, plain_table
from syncwall.show.layout_words import columns, layout_words
from syncwall.show.numbers import duration, signed
from syncwall.show.record import record
from syncwall.work.memory import usable_bytes

_STEP = 0.85
"""Points of the front are shown where memory falls by this factor."""
_POINTS = 5
_HOUR_S = 3600.0
_SAME = 1e-4
"""Changes below this share of a step make no difference."""
_BILLION = 1e9


@dataclass(frozen=True)
class Plan:
    """What was asked, and what was found."""

    run: Run
    """Model, software and sequence."""
    found: Found
    best: list[Candidate]
    """The best first."""
    objective: Objective
    global_batch: int
    """Sequences of one step."""
    now: Prediction | None = None
    """What is predicted for the layout that the user has."""
    price_usd_per_gpu_hour: float | None = None
    other: Other | None = None
    """A batch that more layouts could share out."""

    @cached_property
    def held(self) -> list[Improvement]:
        """What changing each field that is not searched would bring to the best layout."""
        if not self.best:
            return []
        fields = tuple(lever.field for lever in LEVERS if lever.field not in SEARCHED)
        return changed(self.best[0].prediction, fields)

    def cost(self, step_s: float, gpus: int) -> float:
        """Of a billion tokens: in USD, or in GPU-hours where no price is known."""
        hours = step_s * gpus / _HOUR_S / (self.global_batch * self.run.seq) * _BILLION
        return hours * (self.price_usd_per_gpu_hour or 1.0)


def layouts_page(plan: Plan) -> RenderableType:
    """Verdict, the best layouts, why the others lost, and the front."""
    head = Headed("Verdict", _verdict(plan))
    counted = Headed(
        "",
        f"{plan.run.model.name} on {plan.run.cluster.name}, {plan.global_batch:,} "
        f"sequences of {plan.run.seq:,} tokens a step; {plan.found.counted:,} layouts are "
        f"possible, {plan.found.fitting:,} fit",
        "dim",
    )
    if not plan.best:
        return Group(head, counted, *_batch(plan))
    return Group(
        head, counted, Text(), _table(plan), Text(), *_why(plan), *_front(plan), *_batch(plan),
        *_held(plan), Text(), Headed("Evidence", _notes(plan), "dim"),
    )  # fmt: skip


def layouts_record(plan: Plan) -> dict[str, Any]:
    """The plan for `json.dumps`; seconds, bytes."""
    best = [_candidate(plan, one.prediction) for one in plan.best]
    nearest = plan.found.smallest
    return {
        "verdict": _verdict(plan),
        "objective": plan.objective,
        "layouts_possible": plan.found.counted,
        "layouts_fitting": plan.found.fitting,
        "best": best,
        "yours": None if plan.now is None else _candidate(plan, plan.now),
        "front": [_point(plan, point) for point in plan.found.front],
        "not_searched": [
            {"change": one.change, "gained_s": one.gained_s, "fits": one.fits} for one in plan.held
        ],
        "other_batch": plan.other
        and {"global_batch": plan.other.batch, **_candidate(plan, plan.other.best)},
        "least_memory_bytes": None if nearest is None else nearest.memory_bytes,
    }


def _verdict(plan: Plan) -> str:
    if plan.best:
        best = plan.best[0].prediction
        what = f"{layout_words(best.run.layout)} on {best.run.gpus:,} GPUs"
        line = f"{what}: {duration(best.step_s)} a step, MFU {best.mfu:.1%}"
        return line + _beside_yours(plan, best)
    nearest = plan.found.smallest
    if plan.found.fitting:
        return "none: no layout that fits is quick enough"
    if nearest is None:
        return "none: no layout is possible; is the batch a multiple of the replicas?"
    have = usable_bytes(plan.run.cluster.device)
    return (
        f"none fits: the smallest, {layout_words(nearest.layout())}, needs "
        f"{nearest.memory_bytes / 1e9:.0f} of {have / 1e9:.0f} GB"
    )


def _beside_yours(plan: Plan, best: Prediction) -> str:
    """How the best compares with the user's own layout, on as many GPUs or on others."""
    if plan.now is None:
        return ""
    if not plan.now.fits:
        return "; yours does not fit"
    if plan.now.run.gpus == best.run.gpus:
        return f", {plan.now.step_s / best.step_s:.2f} times as fast as yours"
    share = plan.cost(best.step_s, best.run.gpus) / plan.cost(plan.now.step_s, plan.now.run.gpus)
    return f"; a token costs {share:.2f} of what it costs in yours"


def _table(plan: Plan) -> Fitting:
    """A column for each field of the layouts, or where that is too wide the layouts in words."""
    rows = [(str(i), one.prediction) for i, one in enumerate(plan.best, 1)]
    if plan.now is not None:
        rows.append(("yours", plan.now))
    several = len({found.run.gpus for _, found in rows}) > 1
    first = ["  #", *(["GPUs"] if several else [])]
    cost = "GPU-h/Gtoken" if plan.price_usd_per_gpu_hour is None else "USD/Gtoken"
    figures = ["step", "tokens/s/GPU", "MFU", "GB", "waits", cost]
    shown = columns([found.run.layout for _, found in rows])
    wide = _empty([*first, *shown, *figures])
    narrow = _empty([*first, "step", "MFU", "GB", "waits"])
    narrow.add_column("layout")
    for index, (name, found) in enumerate(rows):
        begin = [f"  {name}", *([f"{found.run.gpus:,}"] if several else [])]
        cells = dict(zip(figures, _figures(plan, found), strict=True))
        wide.add_row(*begin, *(shown[column][index] for column in shown), *cells.values())
        few = [cells[name] for name in ("step", "MFU", "GB", "waits")]
        narrow.add_row(*begin, *few, layout_words(found.run.layout))
    return Fitting(wide, narrow)


def _empty(heads: list[str]) -> Table:
    """A table without rows."""
    table = plain_table(header=True)
    for head in heads:
        left = head in ("sharding", "schedule", "recompute", "exchange")
        table.add_column(head, justify="left" if left else "right", no_wrap=True)
    return table


def _figures(plan: Plan, found: Prediction) -> Iterator[str]:
    yield duration(found.step_s)
    yield f"{found.tokens_per_s_per_gpu:,.0f}"
    yield f"{found.mfu:.1%}"
    yield f"{found.memory_bytes / 1e9:.0f}" + ("" if found.fits else " !")
    yield f"{found.exposed_s / found.step_s:.0%}"
    yield f"{plan.cost(found.step_s, found.run.gpus):,.0f}"


def _why(plan: Plan) -> Iterator[Headed]:
    """Where the second layout, and the user's own, lose."""
    best = plan.best[0].prediction
    others = [("2", one.prediction) for one in plan.best[1:2]]
    if plan.now is not None:
        others.append(("yours", plan.now))
    for number, (name, other) in enumerate(others):
        found = ", ".join(
            f"{one.cause} {signed(one.seconds)}" for one in differences(best, other)[:5]
        )
        apart = other.step_s - best.step_s
        more = f"{name} takes {duration(abs(apart))} {'more' if apart >= 0 else 'less'} than 1"
        yield Headed("" if number else "Why", f"{more}: {found}" if found else more)


def _front(plan: Plan) -> Iterator[Headed]:
    """Layouts that need less memory, or fewer GPUs, and what they cost in time."""
    several = len({point.gpus for point in plan.found.front}) > 1
    for number, point in enumerate(_thinned(plan)):
        slower = point.step_s / plan.best[0].step_s - 1
        gpus = f"{point.gpus:>6,} GPUs  " if several else ""
        time = f"{duration(point.step_s)} ({slower:+.0%})"
        memory = f"{point.memory_bytes / 1e9:.0f} GB"
        line = f"{gpus}{time:<16}{memory:>7}   {layout_words(point.layout())}"
        yield Headed("" if number else "Trade", line)


def _batch(plan: Plan) -> Iterator[Headed]:
    """The nearest batch that excludes no layout, if it is worth more."""
    other, now = plan.other, plan.best[0].prediction.mfu if plan.best else 0.0
    if other is None or not other.best.fits or other.best.mfu <= now * (1 + WORTH):
        return
    instead = f" instead of {now:.1%}" if now else ""
    yield Headed(
        "Batch",
        f"{plan.global_batch:,} sequences cannot be dealt to {other.excluded} of the possible "
        f"numbers of replicas; {other.batch:,} can: MFU {other.best.mfu:.1%}{instead}, "
        f"{layout_words(other.best.run.layout)}",
    )


def _held(plan: Plan) -> Iterator[Headed]:
    """Fields that are not searched, and what changing each in the best layout would give."""
    least = _SAME * plan.best[0].step_s
    moved = [one for one in plan.held if abs(one.gained_s) > least]
    same = [one.change for one in plan.held if abs(one.gained_s) <= least]
    said = [f"{one.change} {_gain(one)}" for one in moved]
    said += [f"no difference from {' or '.join(same)}"] if same else []
    if said:
        yield Headed("Not tried", f"in the best layout: {', '.join(said)}")


def _gain(one: Improvement) -> str:
    """Seconds that a change takes off a step, or adds."""
    return f"{signed(-one.gained_s)}{'' if one.fits else ' but does not fit'}"


def _thinned(plan: Plan) -> Iterator[Point]:
    """A few points of the front, in the order of the objective."""
    last: dict[int, float] = {}
    left = _POINTS
    for point in sorted(plan.found.front, key=lambda one: one.rank(plan.objective)):
        before = last.get(point.gpus, float("inf"))
        if left and point.memory_bytes <= before * _STEP:
            last[point.gpus] = point.memory_bytes
            left -= 1
            yield point


def _notes(plan: Plan) -> str:
    low, high = plan.best[0].prediction.step_interval_s
    return (
        f"80 % interval of the best: {duration(low)} to {duration(high)}; times of "
        f"layouts on one machine err together. MFU: {MFU_CONVENTION}. Trade: time against memory."
    )


def _candidate(plan: Plan, found: Prediction) -> dict[str, Any]:
    plain = found.to_dict()
    names = ("step_s", "step_interval_s", "tokens_per_s_per_gpu", "mfu", "hfu", "fits",
             "memory_bytes", "ledger_s", "exposed_s")  # fmt: skip
    kept = {name: plain[name] for name in names}
    unit = "gpu_hours" if plan.price_usd_per_gpu_hour is None else "usd"
    cost = {f"{unit}_per_billion_tokens": plan.cost(found.step_s, found.run.gpus)}
    return {"gpus": found.run.gpus, "layout": _layout(found.run.layout), **kept, **cost}


def _point(plan: Plan, point: Point) -> dict[str, Any]:
    return {
        "gpus": point.gpus,
        "step_s": point.step_s,
        "memory_bytes": point.memory_bytes,
        "layout": _layout(point.layout()),
    }


def _layout(layout: Layout) -> dict[str, Any]:
    plain = record(layout)
    plain.pop("provenance", None)
    return plain
