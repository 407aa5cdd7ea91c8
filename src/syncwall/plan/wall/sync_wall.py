"""The sync wall of one run, with its searches, and of a recorded program.

Each rank of a program keeps the batch that it was recorded with, so its wall is that of weak
scaling; another batch has other kernels, and is another recording.

A step at any count is as sure as a prediction of it alone: see `syncwall.answer.interval`.
Efficiency compares two counts, so what is wrong at both cancels: the error at a count is taken as
that at the base and an independent one that is added on the way, whose variance is the difference
of the two.
"""

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field, replace
from typing import Any, Final, Literal

import numpy as np

from syncwall.answer import Prediction
from syncwall.answer.interval import Z80, interval, supported_gpus, validated_gpus
from syncwall.answer.site import scale_of
from syncwall.cause import Cause
from syncwall.describe import Cluster, Layout, Model
from syncwall.plan.best_layout import best_layouts, best_run, kept
from syncwall.plan.choices import Scaling
from syncwall.plan.network_scaling import PricedCase
from syncwall.plan.reference import START, Reference
from syncwall.plan.wall.curve import Base, ScalingCurve, picked, recorded_rungs
from syncwall.plan.wall.moves import Setup, Setups, WallChange, changes
from syncwall.problems import InputError, option
from syncwall.public import Answer, Late, Part, published
from syncwall.timeline.ledger import Ledger
from syncwall.work.memory import usable_bytes

LEVELS: Final = (0.9, 0.8, 0.5)
"""Efficiencies whose loss is reported."""
MOST: Final = 0.5
"""A cause is named if it explains at least this share of what was lost."""
WallReason = Literal["slower", "batch", "range"]


@dataclass(frozen=True, slots=True)
class Wall:
    """Where efficiency falls under a level for good."""

    level: float
    holds_to_gpus: int | None
    """Most GPUs that still reach it; None if no count does."""
    falls_at_gpus: int | None
    """The next count that was looked at; None if it never falls."""


@dataclass(frozen=True, slots=True)
class Peak:
    """Where all GPUs together are fastest."""

    gpus: int
    tokens_per_s: float
    ended_by: WallReason
    """More GPUs would be slower; or the batch has no more sequences; or no more were asked for."""


@dataclass(frozen=True, slots=True)
class LostShare:
    """A line of the ledger and its part in what was lost."""

    cause: Cause
    share: float
    """Of the GPU time that is added to what a token costs at the base; shares add up to 1. What
    became cheaper is not among them."""


def walls(curve: ScalingCurve, base: Base) -> list[Wall]:
    """The wall of each level, highest level first."""
    return [_wall(curve, base, level) for level in LEVELS]


def _wall(curve: ScalingCurve, base: Base, level: float) -> Wall:
    reaching = np.flatnonzero(curve.efficiency(base) >= level * (1 - 1e-12))
    if not len(reaching):
        return Wall(level, None, int(curve.gpus[0]))
    last = int(reaching[-1])
    falls = int(curve.gpus[last + 1]) if last + 1 < len(curve.gpus) else None
    return Wall(level, int(curve.gpus[last]), falls)


def peak(curve: ScalingCurve, scaling: Scaling, most: int) -> Peak:
    """The count with the most tokens a second; `most` GPUs were asked for."""
    speed = curve.tokens_per_s
    best = int(np.argmax(speed))
    why: WallReason = "slower"
    if best + 1 == len(speed):
        why = "range"
        if scaling is Scaling.STRONG:
            layout: Any = curve.layout
            used_up = int(layout.global_batch[best] * curve.gpus[best] // layout.dp[best]) <= most
            why = "batch" if used_up else "range"
    return Peak(int(curve.gpus[best]), float(speed[best]), why)


def losses(curve: ScalingCurve, index: int, first: int = 0) -> list[LostShare]:
    """What a token costs more at count `index` than at count `first`, the largest first."""
    before, after = curve.gpu_s_per_token(first), curve.gpu_s_per_token(index)
    lost = {cause: after.get(cause, 0.0) - before.get(cause, 0.0) for cause in before | after}
    if sum(lost.values()) <= 0:
        return []
    added = {cause: seconds for cause, seconds in lost.items() if seconds > 0}
    found = [LostShare(cause, seconds / sum(added.values())) for cause, seconds in added.items()]
    return sorted(found, key=lambda loss: -loss.share)


def main_cause(found: list[LostShare]) -> Cause | None:
    """The one that explains most of it; None if none does."""
    return found[0].cause if found and found[0].share >= MOST else None


EXPLAINED: Final = 0.8
"""The level whose wall is explained."""


@published()
@dataclass(frozen=True, slots=True)
class LayoutSizes:
    """What of a layout changes with the number of GPUs."""

    dp: int
    tp: int
    pp: int
    cp: int
    ep: int
    shard: str
    micro_batch: int
    """Sequences."""
    global_batch: int
    """Sequences."""
    virtual_stages: int

    @classmethod
    def of(cls, layout: Layout) -> "LayoutSizes":
        """Those of `layout`."""
        return cls(*(getattr(layout, name) for name in cls.__annotations__))


@published("gpus efficiency tokens_per_s step_s memory_bytes layout")
@dataclass(frozen=True, slots=True)
class CurvePoint:
    """The run on one number of GPUs."""

    _recorded = Part(
        "gpus step_s efficiency memory_bytes ledger_s",
        text="Numbers of GPUs on which a recorded program fits.",
        name="ProgramPoint",
    )
    gpus: int
    efficiency: float
    """Speed of a GPU over that at the base."""
    tokens_per_s: float
    """Of all GPUs together."""
    step_s: float
    """Seconds of a step."""
    memory_bytes: float
    """Of the fullest GPU."""
    ledger_s: dict[Cause, float]
    """Seconds by cause."""
    at: Layout

    @property
    def layout(self) -> LayoutSizes:
        """What of the layout changes with the number of GPUs."""
        return LayoutSizes.of(self.at)


_SIDE: Final = "base walls fastest=peak causes_at_gpus=causes_at causes main_cause"


@published(_SIDE, "curve=points")
@dataclass(frozen=True)
class Side:
    """One way to scale."""

    scaling: Scaling
    curve: ScalingCurve
    base: Base
    """What efficiency is measured against."""
    walls: list[Wall]
    """Where efficiency falls under 90%, 80% and 50% for good."""
    peak: Peak
    """Where all GPUs together are fastest, and why not beyond."""
    losses: list[LostShare]
    """What the GPU time of a token (or sample) is lost to at `causes_at` GPUs."""
    causes_at: int
    """The count for which the causes are given."""
    summary = Part(_SIDE)

    @property
    def causes(self) -> dict[Cause, float]:
        """Shares of the GPU time that a token costs more there than at the base."""
        return {one.cause: one.share for one in self.losses}

    @property
    def points(self) -> list[CurvePoint]:
        """The fewest GPUs first."""
        curve, efficiency = self.curve, self.curve.efficiency(self.base)
        return [
            CurvePoint(
                gpus,
                efficiency[i],
                curve.tokens_per_s[i],
                curve.step_s[i],
                curve.memory_bytes[i],
                {cause: float(seconds[i]) for cause, seconds in curve.ledger.items() if seconds[i]},
                picked(curve.layout, i),
            )
            for i, gpus in enumerate(curve.gpus)
        ]

    @property
    def falls(self) -> bool:
        """True if there is a wall to move: efficiency falls under 80% or 90%."""
        return any(wall.falls_at_gpus is not None for wall in self.walls if wall.level >= EXPLAINED)

    @property
    def main_cause(self) -> Cause | None:
        """The one that explains half of it or more; None if nothing alone does."""
        return main_cause(self.losses)


@published("change layouts=sizes walls fastest=peaks")
@dataclass(frozen=True)
class Moved:
    """A change, and where the walls stand with it, against the same base."""

    change: WallChange
    layouts: dict[Scaling, Layout]
    """With which it was computed."""
    walls: dict[Scaling, list[Wall]]
    peaks: dict[Scaling, Peak]

    @property
    def sizes(self) -> dict[Scaling, LayoutSizes]:
        """With which it was computed."""
        return {way: LayoutSizes.of(layout) for way, layout in self.layouts.items()}


@dataclass(frozen=True)
class SyncWall:
    """How far a run can be spread."""

    setup: Setup
    sides: dict[Scaling, Side]
    moved: list[Moved] = field(default_factory=list)

    def __repr__(self) -> str:
        trained = self.setup.case.trained
        name = trained.name if isinstance(trained, Model) else trained.command
        return f"<SyncWall {name}: {self.words()}>"

    def words(self) -> str:
        """Up to where efficiency holds 80%."""
        holds = (
            f"{way} {wall.level:.0%} up to {wall.holds_to_gpus or 0:,} GPUs"
            for way, side in self.sides.items()
            for wall in side.walls
            if wall.level == EXPLAINED
        )
        return ", ".join(holds)


def sync_wall(
    setup: Setup,
    better: Callable[["Side"], Layout | None] = lambda side: None,
    *,
    least: int | None = None,
    progress: Callable[[float], None] = lambda share: None,
) -> SyncWall:
    """Strong and weak scaling of `setup`, and what would move its walls.

    `better` finds another layout for where a side has its wall. `least` is the count to compare
    with, instead of the smallest on which the run fits.
    """
    sides = {scaling: side for scaling in Scaling if (side := side_of(setup, scaling, least)) is not None}
    if not sides:
        raise InputError.of(does_not_fit(setup))

    def search(scaling: Scaling) -> Layout | None:
        return better(sides[scaling]) if scaling in sides else None

    moved: list[Moved] = []
    for change, setups in changes(setup, search):
        moved.append(_moved(change, setups, sides))
        progress(len(moved) / len(WallChange))
    return SyncWall(setup, sides, moved)


def side_of(
    setup: Setup,
    scaling: Scaling,
    least: int | None = None,
    progress: Callable[[float], None] = lambda share: None,
) -> Side | None:
    """One way to scale `setup`, without what would move its walls; None if it fits nowhere."""
    found = setup.curve(scaling, progress)
    if found is None:
        return None
    if least is not None and (found.gpus >= least).any():
        found = found.only(found.gpus >= least)
    first = 0
    if setup.chosen is not None and least is None:
        first = int(np.argmax(found.tokens_per_s / found.gpus))  # few GPUs may have to recompute
    base = found.base_at(first)
    all_walls = walls(found, base)
    falls = next((w.falls_at_gpus for w in all_walls if w.level == EXPLAINED), None)
    index = int(np.searchsorted(found.gpus, falls)) if falls else len(found.gpus) - 1
    top = peak(found, scaling, setup.most)
    return Side(scaling, found, base, all_walls, top, losses(found, index, first), int(found.gpus[index]))


def _moved(change: WallChange, setups: Setups, sides: dict[Scaling, Side]) -> Moved:
    curves = {scaling: setups[scaling].curve(scaling) for scaling in sides if scaling in setups}
    known = {scaling: found for scaling, found in curves.items() if found is not None}
    return Moved(
        change,
        {scaling: setups[scaling].layout for scaling in known},
        {scaling: walls(found, sides[scaling].base) for scaling, found in known.items()},
        {scaling: peak(found, scaling, setups[scaling].most) for scaling, found in known.items()},
    )


def does_not_fit(setup: Setup, ways: Iterable[Scaling] = tuple(Scaling)) -> str:
    """Why there is no curve at all, with the least memory that any count needs."""
    have = usable_bytes(setup.case.cluster.device)
    layouts = [setup.rungs(scaling) for scaling in ways]
    needed: list[Any] = [np.min(setup.case.memory(one)) for one in layouts if one is not None]
    if not needed:
        return (
            f"no number of GPUs up to {setup.most:,} can share the batch in this layout: write "
            f"another {option('layout.global_batch')}, or {option('most')}"
        )
    return (
        f"this layout does not fit on any number of GPUs: {min(needed) / 1e9:.0f} of "
        f"{have / 1e9:.0f} GB at best; write more {option('layout.tp')} or {option('layout.pp')}, "
        f"{option('layout.shard')} fsdp or {option('layout.recompute')} full, or leave the layout "
        "out to have one found"
    )


_BESIDE: Final = 0.9
"""Of the progress: searches take most of the time."""


@published(
    "verdict sides=wall.sides moved=wall.moved most_gpus=wall.setup.most validated_gpus",
    "global_batch=wall.setup.batch replica_batch=wall.setup.replica_batch",
    START,
)
@dataclass(frozen=True)
class WallPlan(Answer):
    """How far a run scales."""

    _recorded = Part(
        "command=start.prediction.program.command cluster=start.prediction.cluster.name",
        "recorded_gpus=start.prediction.program.world_size",
        "recorded_step_s=start.prediction.step_s base_gpus=weak.base.gpus walls=weak.walls",
        "losses=weak.losses causes_at_gpus=weak.causes_at curve=weak.points._recorded",
        text="How far a recorded program scales; each rank keeps its batch.",
        name="ProgramWall",
    )
    start: Reference
    """The run that the plan starts from."""
    wall: SyncWall
    verdict = Late("show.wall:verdict")

    @property
    def validated_gpus(self) -> int:
        """Most GPUs of any run that predictions were compared with; beyond is extrapolated."""
        return validated_gpus()

    @property
    def weak(self) -> Side:
        """Weak scaling, the only way of a recorded program."""
        return self.wall.sides[Scaling.WEAK]

    @property
    def verb(self) -> str:  # type: ignore[override]
        """Whose answer it is, in its JSON."""
        return "plan wall work" if self.start.prediction.is_recorded else "plan wall"

    @property
    def _json(self) -> Any:
        return self._recorded if self.start.prediction.is_recorded else self

    def __repr__(self) -> str:
        return f"<WallPlan {self.start.name}: {self.wall.words()}>"


def wall_of(  # noqa: PLR0913 - what may be asked of a wall
    start: Reference,
    most: int | None = None,
    *,
    least: int | None = None,
    replica_batch: int | None = None,
    best_layout: bool = False,
    searching: bool = True,
    progress: Callable[[float], None] = lambda share: None,
) -> SyncWall:
    """The wall of `start` on up to `most` GPUs; as many as were validated if not given.

    With `best_layout`, or if that of `start` was searched, every count has the best layout for it,
    found by search at doubling counts; else that of `start` grows by data parallelism. Without
    `searching`, no other layout is looked for, which takes a fraction of the time.
    """
    if start.prediction.is_recorded:
        return _recorded(start, _asked(start, most), least or 1, progress)
    run, case = start.run, start.case
    batch = int(run.layout.global_batch or 1)
    each = replica_batch or start.replica_batch
    chosen = None
    if best_layout or (start.layout_searched and searching):
        chosen = _chosen(case, run.layout, batch, each, _most(run.cluster, _asked(start, most)), progress)
    setup = replace(setup_of(start, most, each), chosen=chosen)

    def better(side: Side) -> Layout | None:
        if not side.falls or not searching:
            return None
        gpus = _doubled(case.cluster, side.causes_at)
        strong = side.scaling is Scaling.STRONG
        sequences = batch if strong else _weak_batch(run.layout, each, gpus)
        found = best_run(case, case.cluster.with_gpus(gpus), sequences, kept(run.layout))
        return found.layout if found else None

    return sync_wall(setup, better, least=least, progress=progress)


def setup_of(start: Reference, most: int | None = None, replica_batch: int | None = None) -> Setup:
    """`start` as something that grows by data parallelism, on up to `most` GPUs."""
    run, found = start.run, start.prediction
    each, batch = replica_batch or start.replica_batch, int(run.layout.global_batch or 1)
    end = _most(run.cluster, _asked(start, most))
    return Setup(start.case, run.layout, batch, each, end, is_tight=found.fits and not found.has_headroom)


def _asked(start: Reference, most: int | None) -> int:
    """Where curves end: what was validated, or the run itself; never where nothing supports them."""
    known = max(validated_gpus(), int(start.prediction.work.gpus))
    return known if most is None else min(most, max(known, supported_gpus()))


def _chosen(
    case: PricedCase,
    layout: Layout,
    batch: int,
    each: int,
    most: int,
    progress: Callable[[float], None],
) -> dict[Scaling, tuple[Layout, ...]]:
    def told(part: float) -> Callable[[float], None]:
        return lambda share: progress(_BESIDE * (part + share / 2.0))

    pinned = kept(layout)
    return {
        Scaling.STRONG: best_layouts(case, lambda gpus: batch, most, pinned, told(0.0)),
        Scaling.WEAK: best_layouts(
            case, lambda gpus: _weak_batch(layout, each, gpus), most, pinned, told(0.5)
        ),
    }


def _weak_batch(layout: Layout, each: int, gpus: int) -> int:
    """Sequences of a step on `gpus` GPUs when each has as many as in `layout`."""
    return max(1, round(each * gpus / int(layout.model_ranks)))


def _doubled(cluster: Cluster, gpus: int) -> int:
    """The largest part or double of a node's GPUs that is not above `gpus`."""
    node = cluster.gpus_per_node
    return node * 2 ** int(np.log2(gpus / node)) if gpus >= node else gpus


def _most(cluster: Cluster, most: int) -> int:
    """As many GPUs as asked for, or as the machine and its fabric have."""
    nodes = min(cluster.built_nodes or np.inf, cluster.fabric.reach())
    if cluster.node.nics is None:  # what one scale-up domain holds
        nodes = max(cluster.scale_up.gpus // cluster.node.gpus, 1) if cluster.scale_up else 1
    return int(min(most, nodes * cluster.gpus_per_node))


def _recorded(start: Reference, most: int, least: int, progress: Callable[[float], None]) -> SyncWall:
    """The wall of a recorded program on `least` to `most` GPUs on which it fits."""
    case, program = start.case, start.prediction.program
    layouts = recorded_rungs(program, case.cluster, least, most)
    recorded = Layout(dp=program.world_size)
    setup = Setup(case, recorded, 1, 1, most, chosen={Scaling.WEAK: layouts})
    side = side_of(setup, Scaling.WEAK, least, progress)
    if side is None:
        raise InputError.of(f"the program fits on no number of GPUs up to {most:,}")
    return SyncWall(setup, {Scaling.WEAK: side})


@dataclass(frozen=True, slots=True)
class WallRange:
    """Most GPUs that reach a level, if the curve is at the low and at the high end of its band."""

    level: float
    least_gpus: int | None
    most_gpus: int | None
    is_open: bool
    """True if the high end does not fall within the counts that were looked at."""


@dataclass(frozen=True)
class Band:
    """P10 and P90 over the counts of a curve, as factors on the middle."""

    step: Any
    """By which a step may be longer, or shorter."""
    efficiency: Any
    """The same of efficiency; 1 at the base."""
    walls: list[WallRange]


def band(side: Side, start: Prediction) -> Band:
    """The band of a curve of the run that `start` predicts."""
    curve = side.curve
    whole = np.array([_width(side, start, index) for index in range(len(curve.gpus))])
    base = int(np.searchsorted(curve.gpus, side.base.gpus).clip(0, len(whole) - 1))
    added = np.sqrt(np.maximum(whole**2 - whole[base] ** 2, 0.0))
    factor = np.exp(added)
    efficiency = curve.efficiency(side.base)
    ranges = [_range(curve.gpus, efficiency, factor, level) for level in LEVELS]
    return Band(np.exp(whole), factor, ranges)


def _width(side: Side, start: Prediction, index: int) -> float:
    """Half of the 80% interval of ln(step) at one count."""
    curve, run = side.curve, start.run
    size = scale_of(float(curve.gpus[index]), run.model.parameters, run.seq)
    ledger = Ledger({cause: float(seconds[index]) for cause, seconds in curve.ledger.items()})
    traits = replace(start.traits, scale=size)
    found = interval(traits, waiting=float(ledger.waiting), unsaid=start.unsaid, site=start.site)
    return Z80 * found.deviation


def _range(gpus: Any, efficiency: Any, factor: Any, level: float) -> WallRange:
    least, most = (np.flatnonzero(efficiency * far >= level * (1 - 1e-12)) for far in (1 / factor, factor))
    last = [int(gpus[found[-1]]) if len(found) else None for found in (least, most)]
    is_open = bool(len(most) and most[-1] + 1 == len(gpus))
    return WallRange(level, last[0], last[1], is_open)
