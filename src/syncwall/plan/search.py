"""The best layouts of a whole space, the Pareto front among them, and what is tuned of each.

Compared are the time of a step, memory and GPUs; the cost is GPUs times time, so it never adds a
point.

The search itself leaves these as they are; the best few layouts are tried with a few values of
each, one setting after the other, by the same predictor. What saves less than is worth a word stays
as it is.

The predictor is the one of `syncwall predict`, called with arrays; there is no second, approximate
one.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any, Final

import numpy as np

from syncwall.answer.improvements import WORTH
from syncwall.answer.prediction import Prediction, predict
from syncwall.answer.pricing import Pricing
from syncwall.catalogue import Folders, takes_catalogue
from syncwall.cause import Cause
from syncwall.cost.prices import expected_slowdown
from syncwall.describe import Cluster, Layout, Model, Run, Software
from syncwall.describe.base import Provenance, SourcedNumber
from syncwall.describe.layout import Shard
from syncwall.plan.choices import Objective
from syncwall.plan.space import FREE, SPLIT, Grid, Space, grids, plainness, size_of
from syncwall.problems import InputError
from syncwall.public import Answer, Late, published
from syncwall.units import Dimension
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
        order = real[np.lexsort((flat_bytes[real], flat_s[real]))]
        least = np.minimum.accumulate(flat_bytes[order])
        lower = np.concatenate(([True], flat_bytes[order][1:] < least[:-1] * (1 - CLOSE)))
        for index in order[lower]:
            yield tuple(int(i) for i in np.unravel_index(index, step_s.shape))

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


TUNABLE: Final = (
    "bucket_bytes",
    "unit_layers",
    "reshard_after_forward",
    "forward_prefetch",
    "backward_prefetch",
)
"""Fields of a layout that are tuned."""
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
    for values in tried.values():
        for value in values:
            one = _timed(run, pricing, best.layout.model_copy(update=value))
            quicker = one.step_s < best.step_s - WORTH * start.step_s
            if quicker and fits(one.memory_bytes, run.cluster.device):
                best = one
    bought = tuple(_bought(run, pricing, best, name, values) for name, values in tried.items())
    return Tuned(best.layout, best.step_s, best.memory_bytes, bought)


def _settings(run: Run) -> Iterator[tuple[str, list[Value]]]:
    """Settings that mean something in the layout of `run`, and other values than the usual one."""
    layout = run.layout
    ranks = layout.dp * layout.cp
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
    usual = {field: Layout.model_fields[field].default for field in values[0]}
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


_DIGITS = 9
"""Times that agree to so many digits are equal: arrays and single numbers round differently."""
TUNED = 5
"""Layouts at most whose settings are tuned."""
TUNING_SAVES = 1.25
"""Layouts that are slower than asked by no more than this factor are tuned, too."""
_TIE = 10.0 ** (1 - _DIGITS)
"""Equal times differ by no more than this share."""


@dataclass(frozen=True)
class Candidate:
    """One layout that fits."""

    run: Run
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

    @property
    def layout(self) -> Layout:
        """The layout, resolved, with every field stated."""
        return self.run.layout

    @property
    def gpus(self) -> int:
        """GPUs in use."""
        return self.run.gpus

    @property
    def expected_s(self) -> float:
        """Seconds of a step with stalls."""
        return self.step_s * self.slowdown

    @property
    def gpu_s(self) -> float:
        """GPU-seconds of a step with stalls: what it costs, whatever the price."""
        return self.expected_s * self.gpus

    @cached_property
    def prediction(self) -> Prediction:
        """The whole prediction, with its ledger."""
        return predict(self.run, self.pricing)

    def rank(self, objective: Objective) -> tuple[Any, ...]:
        """Orders candidates, the best first."""
        time = (significant(self.expected_s), plainness(self.layout))
        if objective == "cheapest":
            return (significant(self.gpu_s), *time)
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
    families: dict[tuple[Any, ...], Candidate] = field(default_factory=dict)
    """The fastest layout of each family, which has equal GPUs and ranks along every axis."""
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

    def best(
        self, count: int = 5, objective: Objective = "fastest", *, within_s: float = np.inf
    ) -> list[Candidate]:
        """The best `count` families whose step takes at most `within_s`, the first few tuned."""
        ranked = self.untuned(len(self.families), objective, within_s=within_s * TUNING_SAVES)
        found = [*map(self._tuned, ranked[:TUNED]), *ranked[TUNED:]]
        quick = [one for one in found if one.step_s <= within_s]
        return sorted(quick, key=lambda one: one.rank(objective))[:count]

    def untuned(
        self, count: int = 5, objective: Objective = "fastest", *, within_s: float = np.inf
    ) -> list[Candidate]:
        """The same as the search met them: with usual buckets and the usual settings of FSDP."""
        quick = [one for one in self.families.values() if one.step_s <= within_s]
        return sorted(quick, key=lambda one: one.rank(objective))[:count]

    def _tuned(self, one: Candidate) -> Candidate:
        if one.layout not in self._tunings:
            self._tunings[one.layout] = _with_settings(one, self.pinned)
        return self._tunings[one.layout]


def _with_settings(one: Candidate, pinned: Mapping[str, Any]) -> Candidate:
    """The same layout with its best buckets or settings of FSDP."""
    found = tuned(one.run, one.pricing, pinned)
    if found is None:
        return one
    if found.layout == one.layout:
        return replace(one, tuned=found.settings)
    run = one.run.model_copy(update={"layout": found.layout})
    return Candidate(run, found.step_s, found.memory_bytes, one.pricing, one.slowdown, found.settings)


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
    total = sum(size_of(space, one) for one in clusters)
    done, best_s = 0, np.inf
    for one in clusters:
        for grid in grids(space, one):
            _look_at(grid, _Question(space, one, pricing), found)
            done += int(np.prod(grid.shape))
            for best in found.untuned(1):
                if best.expected_s < best_s:
                    best_s = best.expected_s
                    better(best)
            progress(done / total)
    for best in found.best(1):
        if best.expected_s < best_s:  # by tuning
            better(best)
            progress(1.0)
    return found


@dataclass(frozen=True, slots=True)
class _Question:
    """What is searched where, and at what prices."""

    space: Space
    cluster: Cluster
    pricing: Pricing


def _look_at(grid: Grid, asked: _Question, found: SearchResult) -> None:
    """Put the best of `grid` into `found`."""
    space, cluster = asked.space, asked.cluster
    allowed = np.broadcast_to(grid.allowed, grid.shape)
    found.counted += int(np.count_nonzero(allowed))
    if not allowed.any():
        return
    memory = np.asarray(step_memory(space.model, grid.layouts, space.seq).total, dtype=float)
    found.smallest = _smaller(grid, memory, cluster, found.smallest)
    fitting = grid.allowed & fits(memory, cluster.device)
    if not fitting.any():
        return
    time = asked.pricing.step(space.model, grid.layouts, space.seq, cluster)
    slowdown = expected_slowdown(space.family, grid.layouts, cluster)
    step_s = np.where(fitting, time.step_s, np.inf)
    found.fitting += int(np.count_nonzero(np.isfinite(step_s)))
    runs = _Runs(asked, grid, slowdown)
    expected_s = step_s * slowdown if np.any(slowdown != 1.0) else step_s
    _keep_families(expected_s, memory, runs, found)
    _keep_front(expected_s, memory, runs, found)


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
        space, pricing = self.asked.space, self.asked.pricing
        run = Run(
            model=space.model,
            cluster=self.asked.cluster,
            seq=space.seq,
            software=space.software,
            layout=self.grid.layout(where),
        )
        step_s = float(expected_s[where]) / slowdown
        return Candidate(run, step_s, float(used), pricing, slowdown)


def _keep_families(expected_s: Any, memory: Any, runs: _Runs, found: SearchResult) -> None:
    """The fastest layout of every family; of equally fast ones the plainest."""
    quickest = expected_s.reshape(-1, expected_s.shape[SPLIT]).min(axis=0)
    keys = [(runs.asked.cluster.gpus, *family) for family in runs.grid.families]
    best = {key: one.expected_s for key, one in found.families.items()}
    for key, seconds in zip(keys, quickest.tolist(), strict=True):
        best[key] = min(best.get(key, np.inf), seconds)
    for split in np.flatnonzero(np.isfinite(quickest)).tolist():
        key = keys[split]
        if quickest[split] > best[key] * (1.0 + _TIE):
            continue
        before = found.families.get(key)
        times = significant(expected_s[..., split])
        inner = np.unravel_index(int(np.argmin(times)), times.shape)
        one = runs.at((*inner, split), expected_s, memory)
        if before is None or one.rank("fastest") < before.rank("fastest"):
            found.families[key] = one


def _keep_front(expected_s: Any, memory: Any, runs: _Runs, found: SearchResult) -> None:
    """Layouts of the grid that may be on the front; memory is the same along `FREE`."""
    quickest = expected_s.min(axis=FREE, keepdims=True)
    used = np.broadcast_to(memory, quickest.shape)
    gpus = runs.asked.cluster.gpus
    for place in found.front.candidates(gpus, quickest, used):
        along = tuple(slice(None) if axis in FREE else i for axis, i in enumerate(place))
        switches = np.unravel_index(int(np.argmin(expected_s[along])), expected_s[along].shape)
        whole = (*switches, *place[len(FREE) :])
        found.front.add(FrontPoint(gpus, float(quickest[place]), float(used[place]), _later(runs, whole)))


def _later(runs: _Runs, place: Sequence[Any]) -> Callable[[], Layout]:
    return lambda: runs.grid.layout(place)


def significant(seconds: Any) -> Any:
    """`seconds` to nine digits."""
    with np.errstate(divide="ignore", invalid="ignore"):
        unit = 10.0 ** (np.ceil(np.log10(seconds)) - _DIGITS)
        rounded = np.where(np.isfinite(seconds), np.round(seconds / unit) * unit, seconds)
    return float(rounded) if np.ndim(rounded) == 0 else rounded
