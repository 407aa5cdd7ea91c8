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

from syncwall.answer.prediction import MFU_CONVENTION, Prediction, predict
from syncwall.describe import Layout, Run
from syncwall.plan.compared import differences
from syncwall.plan.front import Objective, Point
from syncwall.plan.search import Candidate, Found
from syncwall.show.layout_words import columns, said
from syncwall.show.measurement import duration
from syncwall.show.record import record

_STEP = 0.85
"""Points of the front are shown where memory falls by this factor."""
_POINTS = 5
_HOUR_S = 3600.0
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
    yours: Run | None = None
    """The layout that the user has now."""
    price_usd_per_gpu_hour: float | None = None

    @cached_property
    def now(self) -> Prediction | None:
        """What is predicted for the layout that the user has."""
        return None if self.yours is None else predict(self.yours)

    def cost(self, step_s: float, gpus: int) -> float:
        """Of a billion tokens: in USD, or in GPU-hours where no price is known."""
        hours = step_s * gpus / _HOUR_S / (self.global_batch * self.run.seq) * _BILLION
        return hours * (self.price_usd_per_gpu_hour or 1.0)


def layouts_page(plan: Plan) -> RenderableType:
    """Verdict, the best layouts, why the others lost, and the front."""
    head = Text.assemble(("Verdict   ", "bold"), _verdict(plan))
    counted = Text(
        f"          {plan.run.model.name}, {plan.global_batch:,} sequences of {plan.run.seq:,} "
        f"tokens a step; {plan.found.counted:,} layouts are possible, {plan.found.fitting:,} fit",
        "dim",
    )
    if not plan.best:
        return Group(head, counted)
    return Group(
        head, counted, Text(), _table(plan), Text(), *_why(plan), *_front(plan), Text(),
        Text(_notes(plan), "dim"),
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
        "least_memory_bytes": None if nearest is None else nearest.memory_bytes,
    }


def _verdict(plan: Plan) -> str:
    if plan.best:
        best = plan.best[0].prediction
        what = f"{said(best.run.layout)} on {best.run.gpus:,} GPUs"
        line = f"{what}: {duration(best.step_s)} a step, MFU {best.mfu:.1%}"
        return line + _beside_yours(plan, best)
    nearest = plan.found.smallest
    if plan.found.fitting:
        return "none: no layout that fits is quick enough"
    if nearest is None:
        return "none: no layout is possible; is the batch a multiple of the replicas?"
    have = plan.run.cluster.device.memory.size_bytes
    return (
        f"none fits: the smallest, {said(nearest.layout())}, needs {nearest.memory_bytes / 1e9:.0f}"
        f" of {have / 1e9:.0f} GB"
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


def _table(plan: Plan) -> Table:
    rows = [(str(i), one.prediction) for i, one in enumerate(plan.best, 1)]
    if plan.now is not None:
        rows.append(("yours", plan.now))
    shown = columns([found.run.layout for _, found in rows])
    table = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0), header_style="bold")
    several = len({found.run.gpus for _, found in rows}) > 1
    cost = "GPU-h/Gtoken" if plan.price_usd_per_gpu_hour is None else "USD/Gtoken"
    heads = ["  #", *(["GPUs"] if several else []), *shown,
             "step", "tokens/s/GPU", "MFU", "GB", "waits", cost]  # fmt: skip
    for head in heads:
        left = head in ("sharding", "schedule", "recompute")
        table.add_column(head, justify="left" if left else "right", no_wrap=True)
    for index, (name, found) in enumerate(rows):
        cells = [shown[column][index] for column in shown]
        gpus = [f"{found.run.gpus:,}"] if several else []
        table.add_row(f"  {name}", *gpus, *cells, *_figures(plan, found))
    return table


def _figures(plan: Plan, found: Prediction) -> Iterator[str]:
    yield duration(found.step_s)
    yield f"{found.tokens_per_s_per_gpu:,.0f}"
    yield f"{found.mfu:.1%}"
    yield f"{found.memory_bytes / 1e9:.0f}" + ("" if found.fits else " !")
    yield f"{found.exposed_s / found.step_s:.0%}"
    yield f"{plan.cost(found.step_s, found.run.gpus):,.0f}"


def _why(plan: Plan) -> Iterator[Text]:
    """Where the second layout, and the user's own, lose."""
    best = plan.best[0].prediction
    others = [("2", one.prediction) for one in plan.best[1:2]]
    if plan.now is not None:
        others.append(("yours", plan.now))
    for number, (name, other) in enumerate(others):
        found = ", ".join(
            f"{one.cause} {'+' if one.seconds > 0 else '−'}{duration(abs(one.seconds))}"
            for one in differences(best, other)[:5]
        )
        apart = other.step_s - best.step_s
        more = f"{name} takes {duration(abs(apart))} {'more' if apart >= 0 else 'less'} than 1"
        head = "Why       " if number == 0 else "          "
        yield Text.assemble((head, "bold"), f"{more}: {found}" if found else more)


def _front(plan: Plan) -> Iterator[Text]:
    """Layouts that need less memory, or fewer GPUs, and what they cost in time."""
    several = len({point.gpus for point in plan.found.front}) > 1
    for number, point in enumerate(_thinned(plan)):
        slower = point.step_s / plan.best[0].step_s - 1
        head = "Trade     " if number == 0 else "          "
        gpus = f"{point.gpus:>6,} GPUs  " if several else ""
        time = f"{duration(point.step_s)} ({slower:+.0%})"
        memory = f"{point.memory_bytes / 1e9:.0f} GB"
        line = f"{gpus}{time:<16}{memory:>7}   {said(point.layout())}"
        yield Text.assemble((head, "bold"), line)


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
        f"Evidence  80 % interval of the best: {duration(low)} to {duration(high)}; times of "
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
