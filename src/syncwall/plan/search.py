"""The best layouts of a whole space, and the Pareto front of time, memory and GPUs among them.

The predictor is the one of `syncwall predict`, called with arrays; there is no second, approximate
one. Left out is only what cannot be among the best: recomputation never makes a step faster, so a
layout without it bounds those with it (`_keep_rest`).
"""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from enum import Enum
from functools import cached_property, reduce
from itertools import islice
from operator import or_
from typing import Any, Final

import numpy as np

from syncwall.answer.many import memory_of, seconds_of
from syncwall.answer.prediction import Prediction, predict
from syncwall.answer.priced import MemoryMargin, likely_fits
from syncwall.answer.pricing import Pricing
from syncwall.answer.settled import preferred, ways
from syncwall.catalogue import Folders, takes_catalogue
from syncwall.cause import Cause
from syncwall.cost.framework_costs import framework_or_default
from syncwall.cost.prices import expected_slowdown
from syncwall.describe import Cluster, Layout, Model, Run, Software
from syncwall.describe.base import OPEN
from syncwall.describe.layout import ATTENTION_ALONE, Recompute
from syncwall.describe.rules import not_offered
from syncwall.plan.choices import Objective
from syncwall.plan.recommendation import ideas, recommended, unusual, unusual_features
from syncwall.plan.space import AXES, FREE, MOST_CELLS, RECOMPUTE, SPLIT, Grid, Space, grids, size_of
from syncwall.plan.tuning import TunedSetting, tuned
from syncwall.problems import InputError
from syncwall.public import Answer, Late, published
from syncwall.work.memory import fits, step_memory

"""The shortest step, the fewest GPU-seconds, or the fewest GPUs."""
CLOSE = 1e-3
"""Points whose times, or memory, differ by less than this share are one."""


@published()
@dataclass(frozen=True, slots=True)
class FrontPoint:
    """A layout that no other beats in time, memory and GPUs at once."""

    gpus: int
    step_s: float
    memory_bytes: float
    """Of the fullest GPU."""
    layout: Callable[[], Layout]
    """Made when somebody asks."""

    def rank(self, objective: Objective) -> tuple[float, ...]:
        """Orders points, the best first."""
        if objective == "cheapest":
            return (self.step_s * self.gpus, self.memory_bytes)
        first = (float(self.gpus),) if objective == "smallest" else ()
        return (*first, self.step_s, self.memory_bytes)

    def beats(self, other: "FrontPoint") -> bool:
        """True if `other` is nowhere better by more than a hair."""
        return (
            self.gpus <= other.gpus
            and self.step_s <= other.step_s * (1 + CLOSE)
            and self.memory_bytes <= other.memory_bytes * (1 + CLOSE)
        )


@dataclass
class Front:
    """Points none of which beats another."""

    _points: list[FrontPoint] = field(default_factory=list)

    def add(self, point: FrontPoint) -> None:
        """Take `point` in unless another beats it; drop those that it beats."""
        if any(one.beats(point) for one in self._points):
            return
        self._points = [one for one in self._points if not point.beats(one)]
        self._points.append(point)

    def candidates(self, gpus: int, step_s: Any, memory_bytes: Any) -> Iterator[tuple[int, ...]]:
        """Places in arrays of layouts on `gpus` GPUs that belong on the front, quickest first."""
        flat_s, flat_bytes = step_s.reshape(-1), memory_bytes.reshape(-1)
        real = np.flatnonzero(np.isfinite(flat_s))
        if not len(real):
            return
        order = real[np.lexsort((flat_bytes[real], flat_s[real]))]
        least = np.minimum.accumulate(flat_bytes[order])
        lower = np.concatenate(([True], flat_bytes[order][1:] < least[:-1] * (1 - CLOSE)))
        for index in order[lower]:
            yield tuple(int(i) for i in np.unravel_index(index, step_s.shape))

    def beaten(self, gpus: int, least_s: Any, memory_bytes: Any) -> Any:
        """Where a layout on `gpus` GPUs that takes at least `least_s` cannot be on the front."""
        points = [one for one in self if one.gpus <= gpus]
        if not points:
            return np.zeros((), bool)
        times = np.array([one.step_s for one in points])
        least = np.minimum.accumulate([one.memory_bytes for one in points])
        quicker = np.searchsorted(times, least_s, "right")
        return (quicker > 0) & (least[quicker - 1] <= memory_bytes)

    def __iter__(self) -> Iterator[FrontPoint]:
        return iter(sorted(self._points, key=lambda one: one.rank("fastest")))

    def __len__(self) -> int:
        return len(self._points)


SMALL = 0.002
"""Differences of a cause below this share of the first step are not worth a word."""
OF_GAP = 0.1
"""Nor are those below this share of the difference of the steps."""


@dataclass(frozen=True, slots=True)
class Difference:
    """One cause in two ledgers."""

    cause: Cause
    seconds: float
    """What the second layout spends more; less if negative."""


def differences(first: Prediction, second: Prediction) -> list[Difference]:
    """Where `second` spends more or less than `first`, the largest difference first."""
    causes = dict.fromkeys([*first.ledger, *second.ledger])
    found = [Difference(c, float(second.ledger[c]) - float(first.ledger[c])) for c in causes]
    least = max(OF_GAP * abs(second.step_s - first.step_s), SMALL * first.step_s)
    kept = [one for one in found if abs(one.seconds) >= least]
    return sorted(kept, key=lambda one: -abs(one.seconds))


_DIGITS = 9
"""Times that agree to so many digits are equal: arrays and single numbers round differently."""
TUNED = 5
"""Layouts at most whose settings are tuned."""
TUNING_SAVES = 1.25
"""Layouts that are slower than asked by no more than this factor are tuned, too."""
_TIE = 10.0 ** (1 - _DIGITS)
"""Equal times differ by no more than this share."""
KEPT: Final = 100
"""Families of each kind that a search keeps at least."""
_RECOMPUTATION: Final = {"recompute": OPEN, "recompute_layers": None, "recompute_modules": ATTENTION_ALONE}
"""Fields that are chosen anew for layouts that may not fit, and what they are before."""
RECOMPUTED: Final = 0.995
"""Least time of a step with recomputation over that of the same without. It is 1 but where another
class of ranks becomes the longest, whose own work, which the slowest node delays, is less."""
FLAT: Final = 3
"""Cells of a grid that are priced in the time of one layout in a plain row."""


class Kind(Enum):
    """Layouts among which the fastest of each family is kept."""

    ANY = 0
    SURE = 1
    """They fit with 90 %."""
    USUAL = 2
    """They do, and have nothing that is rare in published runs."""


@dataclass(frozen=True)
class Candidate:
    """One layout that fits."""

    build: Callable[[], Run]
    """Makes the run when somebody asks."""
    gpus: int
    """GPUs in use."""
    step_s: float
    """Seconds of an optimizer step."""
    memory_bytes: float
    """On the fullest GPU."""
    pricing: Pricing
    slowdown: float = 1.0
    """What to expect of stalls, where the framework is known for them: it counts in the ranking."""
    tuned: tuple[TunedSetting, ...] = ()
    """What its settings of buckets and of FSDP buy, if it is one of the best."""

    def __repr__(self) -> str:
        return f"<Candidate on {self.gpus:,} GPUs: step {self.step_s:.4g} s>"

    @cached_property
    def run(self) -> Run:
        """The run in this layout."""
        return self.build()

    @property
    def layout(self) -> Layout:
        """The layout, resolved, with every field stated."""
        return self.run.layout

    @property
    def expected_s(self) -> float:
        """Seconds of a step with stalls."""
        return self.step_s * self.slowdown

    @property
    def gpu_s(self) -> float:
        """GPU-seconds of a step with stalls: what it costs, whatever the price."""
        return self.expected_s * self.gpus

    @property
    def fit_probability(self) -> float:
        """How likely it fits."""
        return MemoryMargin.on(self.run.cluster.device, self.memory_bytes).probability

    @property
    def is_sure(self) -> bool:
        """True if it fits with 90 %."""
        return bool(likely_fits(self.memory_bytes, self.run.cluster.device))

    @cached_property
    def unusual(self) -> tuple[str, ...]:
        """What of it is rare in published runs."""
        return tuple(what for what, holds in unusual(self.run).items() if holds)

    @cached_property
    def prediction(self) -> Prediction:
        """The whole prediction, with its ledger."""
        return predict(self.run, self.pricing)

    def rank(self, objective: Objective) -> tuple[float, ...]:
        """Orders candidates by what is asked for alone, the best first."""
        if objective == "cheapest":
            return (significant(self.gpu_s),)
        time = (significant(self.expected_s),)
        return (self.gpus, *time) if objective == "smallest" else time


@dataclass
class SearchResult(Answer):
    """What a search found."""

    run: Run
    """Model, software, sequence, and the machine (of several sizes the first)."""
    pricing: Pricing
    global_batch: int
    """Sequences of one step."""
    pinned: Mapping[str, Any]
    """Fields of the layout that were stated."""
    sizes: int
    """Numbers of GPUs that were looked at."""
    counted: int = 0
    """Layouts that break no rule."""
    fitting: int = 0
    """Those of them that fit into memory."""
    kinds: dict[Kind, dict[tuple[Any, ...], Candidate]] = field(default_factory=lambda: {k: {} for k in Kind})
    """Of each kind the fastest layouts of families, which have equal GPUs and ranks along axes."""
    front: Front = field(default_factory=Front)
    """Layouts that no other beats in time, memory and GPUs at once."""
    smallest: FrontPoint | None = None
    """The layout that needs the least memory, whether it fits or not."""
    _tunings: dict[Layout, Candidate] = field(default_factory=dict, repr=False)

    plan = Late("plan.answers:plan_of")

    def view(self, **how: Any) -> Any:
        """The blocks of its best layouts."""
        return self.plan.view(**how)

    def to_dict(self) -> dict[str, Any]:
        """Its best layouts as plain data."""
        found: dict[str, Any] = self.plan.to_dict()
        return found

    def __repr__(self) -> str:
        best = self.untuned(1)
        found = f"best step {best[0].step_s:.4g} s" if best else "none"
        return f"<SearchResult {self.counted:,} layouts, {self.fitting:,} fit: {found}>"

    @property
    def families(self) -> dict[tuple[Any, ...], Candidate]:
        """The fastest layout of each family that is among the best `KEPT`."""
        return self.kinds[Kind.ANY]

    def fastest(self, objective: Objective = "fastest") -> Candidate | None:
        """The best by what is asked for alone, however unusual and tight."""
        ranked = self.untuned(1, objective)
        return _with_settings(ranked[0], self.pinned) if ranked else None

    def best(
        self, count: int = 5, objective: Objective = "fastest", *, within_s: float = np.inf
    ) -> list[Candidate]:
        """The `count` layouts to recommend whose step takes at most `within_s`, the first few tuned.

        One for each idea: layouts that differ in more than context parallelism and settings.
        """
        every = [one for kind in self.kinds.values() for one in kind.values()]
        quick = [one for one in every if one.step_s <= within_s * TUNING_SAVES]
        ranked = list(islice(ideas(recommended(quick, objective)), count + TUNED))
        found = [*map(self._tuned, ranked[:TUNED]), *ranked[TUNED:]]
        return recommended([one for one in found if one.step_s <= within_s], objective)[:count]

    def untuned(
        self, count: int = 5, objective: Objective = "fastest", *, within_s: float = np.inf
    ) -> list[Candidate]:
        """The fastest as the search met them: with usual buckets and the usual settings of FSDP."""
        quick = [one for one in self.families.values() if one.step_s <= within_s]
        return sorted(quick, key=lambda one: one.rank(objective))[:count]

    def _tuned(self, one: Candidate) -> Candidate:
        if one.layout not in self._tunings:
            safe = one if one.is_sure or "recompute" in self.pinned else _safer(one, self.pinned)
            self._tunings[one.layout] = _with_settings(safe, self.pinned)
        return self._tunings[one.layout]


def _with_settings(one: Candidate, pinned: Mapping[str, Any]) -> Candidate:
    """The same layout with its best buckets or settings of FSDP."""
    found = tuned(one.run, one.pricing, pinned)
    if found is None:
        return one
    if found.layout == one.layout:
        return replace(one, tuned=found.settings)
    run = one.run.model_copy(update={"layout": found.layout})
    measures: dict[str, Any] = {"step_s": found.step_s, "memory_bytes": found.memory_bytes}
    return replace(one, build=lambda: run, tuned=found.settings, **measures)


def _safer(one: Candidate, pinned: Mapping[str, Any]) -> Candidate:
    """The same layout with the recomputation that is chosen for it where nobody states one.

    The search looks at few kinds of it; here all are tried.
    """
    run, family = one.run, framework_or_default(one.run.software.framework)
    free = {name: value for name, value in _RECOMPUTATION.items() if name not in pinned}
    asked = run.model_copy(update={"layout": one.layout.model_copy(update=free)})
    layouts = [each for each in ways(asked)[0] if not not_offered(family, run.software, each, run.model)]
    if not layouts:
        return one
    steps_s = seconds_of(one.pricing, run.model, run.cluster, layouts, run.seq)
    memory = memory_of(run.model, layouts, run.seq)
    place = layouts.index(preferred(asked, layouts, steps_s, memory))
    other = run.model_copy(update={"layout": layouts[place]})
    return replace(one, build=lambda: other, step_s=steps_s[place], memory_bytes=memory[place])


@takes_catalogue
def search(  # noqa: PLR0913 - a question has this many parts
    model: Model,
    cluster: Cluster | Iterable[Cluster],
    *,
    global_batch: int,
    seq: int | None = None,
    software: Software | None = None,
    pinned: Mapping[str, Any] | None = None,
    pricing: Pricing | None = None,
    progress: Callable[[float], None] = lambda share: None,
    better: Callable[[Candidate], None] = lambda best: None,
    catalogue: Folders = None,
) -> SearchResult:
    """Evaluate every layout of `model` on `cluster`, or on several sizes of it.

    `seq` is the length that the model was trained with if not given. `pinned` states fields of the
    layout: one value, or a tuple of those to choose from. `pricing` is that of a prediction of the
    run. `progress` is told the share that is done, `better` the fastest layout so far whenever it
    is another one.

    Examples:
        >>> import syncwall as sw
        >>> found = sw.plan.layouts(sw.model("llama-3.1-8b"), sw.cluster("dgx-h100"),
        ...                         global_batch=64, pinned={"cp": 1})
        >>> found
        <SearchResult ... layouts, ... fit: best step ... s>
        >>> found.best(1)[0].prediction.fits
        True
    """
    seq = model.train_seq if seq is None else seq
    if seq is None:
        raise InputError.of(f"seq is missing: no training length is known for {model.name}")
    clusters = [cluster] if isinstance(cluster, Cluster) else list(cluster)
    software = software or Software()
    space = Space.of(model, seq, global_batch, software, pinned or {})
    run = Run(model=model, cluster=clusters[0], seq=seq, software=software)
    pricing = pricing or Pricing.of(run)
    found = SearchResult(run, pricing, global_batch, pinned or {}, len(clusters))
    if (total := size_of(space, clusters)) > MOST_CELLS:
        raise InputError.of(
            f"a global batch of {global_batch:,} on {max(one.gpus for one in clusters):,} GPUs has more than "
            f"{MOST_CELLS:,} layouts to search: state some of it, such as --tp 8 --micro-batch 1, or a batch "
            "with fewer divisors"
        )
    done, best_s = 0, np.inf
    for one in clusters:
        for grid in grids(space, one):
            _look_at(grid, _Question(space, one, pricing), found)
            done += int(np.prod(grid.shape))
            best = min(found.families.values(), key=lambda one: one.expected_s, default=None)
            if best is not None and best.expected_s < best_s:
                best_s = best.expected_s
                better(best)
            progress(done / total)
    if (tuned_one := found.fastest()) is not None and tuned_one.expected_s < best_s:
        better(tuned_one)
        progress(1.0)
    return found


@dataclass(frozen=True)
class _Question:
    """What is searched where, and at what prices."""

    space: Space
    cluster: Cluster
    pricing: Pricing

    @cached_property
    def run(self) -> Run:
        """In any layout: those of grids break no rule, so that none is checked again."""
        space = self.space
        return Run(model=space.model, cluster=self.cluster, seq=space.seq, software=space.software)


def _look_at(grid: Grid, asked: _Question, found: SearchResult) -> None:
    """Put the best of `grid` into `found`."""
    space, cluster = asked.space, asked.cluster
    allowed = np.broadcast_to(grid.allowed, grid.shape)
    found.counted += int(np.count_nonzero(allowed))
    if not allowed.any():
        return
    memory = np.asarray(step_memory(space.model, grid.layouts, space.seq).total, dtype=float)
    found.smallest = _smaller(grid, memory, cluster, found.smallest)
    fitting = np.broadcast_to(grid.allowed & fits(memory, cluster.device), grid.shape)
    found.fitting += int(np.count_nonzero(fitting))
    if not fitting.any():
        return
    places = [np.arange(length) for length in grid.shape]
    places[SPLIT] = np.flatnonzero(fitting.any(axis=_but(SPLIT)))
    some = _Some.of(grid, memory, fitting).at(places)
    kinds = np.ravel(grid.layouts.recompute)
    if len(kinds) == 1 or kinds[0] != Recompute.NONE:
        _kept(some, asked, found)
        return
    bound_s = _kept(some.recomputing(kinds == Recompute.NONE), asked, found)
    _keep_rest(some.recomputing(kinds != Recompute.NONE), bound_s, asked, found)


@dataclass(frozen=True, slots=True)
class _Some:
    """A grid, the memory of its layouts, and which of them are looked at."""

    grid: Grid
    memory: Any
    wanted: Any

    @classmethod
    def of(cls, grid: Grid, memory: Any, wanted: Any) -> "_Some":
        """With arrays of the grid's shape."""
        return cls(grid, np.broadcast_to(memory, grid.shape), np.broadcast_to(wanted, grid.shape))

    def at(self, places: Sequence[Any]) -> "_Some":
        """Those at `places` of every axis."""
        inner = np.ix_(*places)
        return _Some(self.grid.part(*places), self.memory[inner], self.wanted[inner])

    def recomputing(self, kinds: Any) -> "_Some":
        """Those whose kind of recomputation is one of `kinds`."""
        places = [np.arange(length) for length in self.grid.shape]
        places[RECOMPUTE] = np.flatnonzero(kinds)
        return self.at(places)

    def only(self, wanted: Any) -> "_Some":
        """The smallest grid that holds the `wanted`, or a row of them if they are few in it."""
        places = [np.flatnonzero(wanted.any(axis=_but(axis))) for axis in range(len(AXES))]
        if FLAT * np.count_nonzero(wanted) >= np.prod([len(one) for one in places]):
            return replace(self, wanted=wanted).at(places)
        flat = np.flatnonzero(wanted)
        row = self.grid.listed(flat)
        return _Some(row, self.memory.reshape(-1)[flat].reshape(row.shape), np.ones(row.shape, bool))


def _keep_rest(some: _Some, bound_s: Any, asked: _Question, found: SearchResult) -> None:
    """The best of `some`, none of which takes less than `bound_s`."""
    bound_s = bound_s * RECOMPUTED
    wanted = some.wanted & ~found.front.beaten(asked.cluster.gpus, bound_s, some.memory)
    for kind, mask in _masks(some, asked):
        least_s = _least_s(some.grid, kind, asked, found)
        wanted = wanted | (some.wanted & mask & (bound_s <= least_s))
    if wanted.any():
        _kept(some.only(wanted), asked, found)


def _but(axis: int) -> tuple[int, ...]:
    return tuple(other for other in range(len(AXES)) if other != axis)


def _least_s(grid: Grid, kind: Kind, asked: _Question, found: SearchResult) -> Any:
    """By split, what a layout must not exceed to be the best of its family, and one of `KEPT`."""
    gpus = asked.cluster.gpus
    known = {key: one.expected_s for key, one in found.kinds[kind].items() if key[0] == gpus}
    most = sorted(known.values())[KEPT - 1] if len(known) >= KEPT else np.inf
    return np.array([min(known.get((gpus, *family), np.inf), most) for family in grid.families]) * (1 + _TIE)


def _masks(some: _Some, asked: _Question) -> Iterator[tuple[Kind, Any]]:
    """Where layouts are of each kind."""
    yield Kind.ANY, True
    sure = likely_fits(some.memory, asked.cluster.device)
    yield Kind.SURE, sure
    rare = unusual_features(some.grid.layouts, asked.space.model, asked.space.seq, asked.cluster).values()
    yield Kind.USUAL, sure & ~np.asarray(reduce(or_, rare))


def _kept(some: _Some, asked: _Question, found: SearchResult) -> Any:
    """Price `some`, put the best of them into `found`, and return all times."""
    space, cluster, grid = asked.space, asked.cluster, some.grid
    time = asked.pricing.step(space.model, grid.layouts, space.seq, cluster)
    slowdown = expected_slowdown(space.family, grid.layouts, cluster)
    times = np.broadcast_to(time.step_s * slowdown, grid.shape)
    runs = _Runs(asked, grid, slowdown)
    for kind, mask in _masks(some, asked):
        _keep_families(np.where(some.wanted & mask, times, np.inf), some.memory, runs, found.kinds[kind])
    _keep_front(np.where(some.wanted, times, np.inf), some.memory, runs, found)
    return times


def _smaller(grid: Grid, memory: Any, cluster: Cluster, before: FrontPoint | None) -> FrontPoint:
    """The layout with the least memory so far."""
    least = np.where(grid.allowed, memory, np.inf)
    place = np.unravel_index(int(np.argmin(np.broadcast_to(least, grid.shape))), grid.shape)
    smallest = FrontPoint(cluster.gpus, np.nan, float(least.min()), lambda: grid.layout(place))
    return smallest if before is None or smallest.memory_bytes < before.memory_bytes else before


@dataclass(frozen=True)
class _Runs:
    """The run at a place of a grid."""

    asked: _Question
    grid: Grid
    slowdown: Any

    def at(self, place: Sequence[Any], expected_s: Any, memory: Any) -> Candidate:
        where = tuple(int(i) for i in place)
        used = np.broadcast_to(memory, self.grid.shape)[where]
        slowdown = float(np.broadcast_to(self.slowdown, self.grid.shape)[where])
        step_s, pricing = float(expected_s[where]) / slowdown, self.asked.pricing
        gpus = self.asked.cluster.gpus
        return Candidate(lambda: self.run(where), gpus, step_s, float(used), pricing, slowdown)

    def run(self, where: tuple[int, ...]) -> Run:
        return self.asked.run.model_copy(update={"layout": self.grid.layout(where)})

    @cached_property
    def families(self) -> list[tuple[int, ...]]:
        gpus = self.asked.cluster.gpus
        return [(gpus, *family) for family in self.grid.families]


def _keep_families(expected_s: Any, memory: Any, runs: _Runs, best: dict[tuple[Any, ...], Candidate]) -> None:
    """The fastest layout of every family; of equally fast ones the plainest, which comes first."""
    inner = expected_s.reshape(-1, expected_s.shape[SPLIT])
    quickest = inner.min(axis=0)
    for split in np.flatnonzero(np.isfinite(quickest)).tolist():
        family = runs.families[split]
        before = best.get(family)
        if before is not None and quickest[split] >= before.expected_s * (1.0 - _TIE):
            continue
        first = int(np.argmax(inner[:, split] <= quickest[split] * (1.0 + _TIE)))
        place = np.unravel_index(first, expected_s.shape[:SPLIT])
        best[family] = runs.at((*place, split), expected_s, memory)


def _keep_front(expected_s: Any, memory: Any, runs: _Runs, found: SearchResult) -> None:
    """Layouts of the grid that may be on the front; memory is the same along `FREE`."""
    quickest = expected_s.min(axis=FREE, keepdims=True)
    used = np.broadcast_to(memory[tuple(slice(0, 1) for _ in FREE)], quickest.shape)
    gpus = runs.asked.cluster.gpus
    for place in found.front.candidates(gpus, quickest, used):
        along = tuple(slice(None) if axis in FREE else i for axis, i in enumerate(place))
        switches = np.unravel_index(int(np.argmin(expected_s[along])), expected_s[along].shape)
        whole = (*switches, *place[len(FREE) :])
        found.front.add(FrontPoint(gpus, float(quickest[place]), float(used[place]), _later(runs, whole)))


def _later(runs: _Runs, place: Sequence[Any]) -> Callable[[], Layout]:
    return lambda: runs.grid.layout(place)


def significant(seconds: float) -> float:
    """`seconds` to nine digits."""
    return float(f"{seconds:.{_DIGITS}g}")
