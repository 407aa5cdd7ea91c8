"""The whole answer of a search: the best layouts, ties, and batches that more of them share out."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Final

import numpy as np

from syncwall.answer.difference import Ratio, step_deviation
from syncwall.answer.improvements import LEVERS, WORTH, Improvement, changed, divisors
from syncwall.answer.prediction import Prediction, predict
from syncwall.catalogue import catalogue_overlay
from syncwall.describe import Cluster, Layout, Run
from syncwall.describe.base import is_open
from syncwall.describe.choice import Choice
from syncwall.describe.layout import PLAIN, Schedule, Shard
from syncwall.plan.best_layout import best_run
from syncwall.plan.choices import SEARCHED, Objective
from syncwall.plan.network_scaling import PricedCase
from syncwall.plan.recommendation import unusual
from syncwall.plan.search import Candidate, FrontPoint, SearchResult
from syncwall.plan.tuning import TUNED
from syncwall.public import Answer, Late, published


@dataclass(frozen=True, slots=True)
class Other:
    """Another batch on the same GPUs."""

    batch: int
    excluded: int
    """Numbers of replicas among which the batch that was asked for cannot be dealt out."""
    best: Prediction
    """The best layout for it, of a narrower search."""


def whole_batch(batch: int, gpus: int) -> int:
    """The nearest batch that as many replicas as possible can share: a multiple of the GPUs, or of
    their largest divisor below it.
    """
    unit = max(n for n in divisors(gpus) if n <= batch)
    return max(1, round(batch / unit)) * unit


def other_batch(case: PricedCase, batch: int, pinned: Mapping[str, Any]) -> Other | None:
    """What the nearest whole batch would bring; None if `batch` excludes no number of replicas."""
    gpus = case.cluster.gpus
    nearest = whole_batch(batch, gpus)
    excluded = [n for n in divisors(gpus) if n <= batch and batch % n and nearest % n == 0]
    if not excluded:
        return None
    best = best_run(case, case.cluster, nearest, pinned)
    return None if best is None else Other(nearest, len(excluded), predict(best, case.pricing))


def grown(layout: Layout, dp: Any, global_batch: Any) -> Layout:
    """`layout` with `dp` replicas and `global_batch` sequences a step; both may be arrays.

    What no longer divides gives way: the micro batch becomes the largest part of itself that does
    and keeps interleaving possible, interleaving ends where a replica's sequences are no multiple
    of the stages, and a shard degree of its own (HSDP) stays where it divides.
    """
    each = global_batch // dp
    micro = np.gcd(each, layout.micro_batch)
    update: dict[str, Any] = {"dp": dp, "global_batch": global_batch, "micro_batch": micro}
    update["shard_degree"] = _degree(layout, dp)
    if layout.schedule == Schedule.INTERLEAVED:
        interleaved = each % layout.pp == 0
        update["micro_batch"] = np.where(interleaved, np.gcd(each // layout.pp, micro), micro)
        update["virtual_stages"] = np.where(interleaved, layout.virtual_stages, 1)
        update["schedule"] = np.where(interleaved, Schedule.INTERLEAVED, Schedule.ONE_F_ONE_B)
    return layout.model_copy(update=update)


def single(layout: Layout) -> Layout:
    """A layout whose numbers are Python's, from one whose numbers are NumPy's."""
    values: dict[str, Any] = {
        name: value.item()
        for name in Layout.model_fields
        if isinstance(value := getattr(layout, name), (np.ndarray, np.generic))
    }
    for name, value in values.items():
        kind = type(PLAIN.get(name))
        values[name] = kind(value) if issubclass(kind, Choice) else value
    return layout.model_copy(update=values)


def _degree(layout: Layout, dp: Any) -> Any:
    """Ranks that share one copy: all of them, or as many as stated where that divides."""
    whole = dp * layout.cp
    stated: Any = layout.shard_degree
    everything = is_open(layout, "dp") or stated in (None, layout.dp * layout.cp)
    if everything or layout.shard == Shard.DDP:
        return whole
    return np.gcd(whole, stated)


def is_whole(layout: Layout, cluster: Cluster, dp: int) -> bool:
    """True if `dp` replicas fill part of one node or whole nodes, and whole groups of ranks.

    A group is an expert-parallel one, or those that share one copy of the states (HSDP).
    """
    gpus, each = layout.model_ranks * dp, cluster.gpus_per_node
    placed = each % gpus == 0 if gpus < each else gpus % each == 0
    experts = (layout.tp * layout.cp * dp) % (layout.ep * layout.etp) == 0
    shared = _degree(layout, dp)
    copies = shared in (dp * layout.cp, layout.shard_degree)
    return bool(placed and experts and copies)


def replicas_at(layout: Layout, cluster: Cluster, gpus: int) -> int | None:
    """The dp that fills `gpus` GPUs; None if that cannot be."""
    dp, rest = divmod(gpus, int(layout.model_ranks))
    return dp if dp and not rest and is_whole(layout, cluster, dp) else None


_LESS_MEMORY: Final = 0.85
"""Points of the front are listed where memory falls by this factor."""
_POINTS: Final = 5
_HOUR_S: Final = 3600.0
_BILLION: Final = 1e9


@published(
    "gpus=prediction.run.gpus global_batch=prediction.run.layout.global_batch",
    "layout=prediction.run.layout step_s=prediction.step_s",
    "step_interval_s=prediction.step_interval_s",
    "tokens_per_s_per_gpu=prediction.tokens_per_s_per_gpu mfu=prediction.mfu hfu=prediction.hfu",
    "fits=prediction.fits memory_bytes=prediction.memory_bytes ledger_s=prediction.ledger",
    "fit_probability=prediction.room.probability unusual",
    "exposed_s=prediction.exposed_s gpu_hours_per_billion_tokens usd_per_billion_tokens",
)
@dataclass(frozen=True)
class PlannedLayout:
    """A layout and what is predicted for it."""

    prediction: Prediction
    gpu_hours_per_billion_tokens: float
    usd_per_billion_tokens: float | None
    """None if no price is stated."""

    @property
    def unusual(self) -> list[str]:
        """What of it is rare in published runs."""
        return [what for what, holds in unusual(self.prediction.run).items() if holds]


@published(
    "verdict objective layouts_possible=found.counted layouts_fitting=found.fitting",
    "best=best_layouts fastest yours front tuned not_searched=not_searched._option",
    "other_batch=other_layout least_memory_bytes=found.smallest.memory_bytes settings",
)
@dataclass(frozen=True)
class Plan(Answer):
    """The best layouts, and what stands beside them."""

    verb = "plan layouts"
    verdict = Late("show.layouts:verdict")
    tuned = Late("show.layouts:tuned_settings")
    run: Run
    """Model, software and sequence."""
    found: SearchResult
    best: list[Candidate]
    """The best first."""
    objective: Objective
    """What is best: the shortest step, the fewest GPU-hours, or the fewest GPUs."""
    global_batch: int
    """Sequences of one step."""
    now: Prediction | None = None
    """What is predicted for the layout that the user has."""
    price_usd_per_gpu_hour: float | None = None
    other: Other | None = None
    """A batch that more layouts could share out."""
    settings: str | None = None
    """The best layout as settings of a framework, if they were asked for."""
    notes: tuple[str, ...] = ()
    """What was taken for granted, and what settings have no words for."""

    @classmethod
    def of(
        cls, found: SearchResult, best: list[Candidate], objective: Objective = "fastest", **more: Any
    ) -> "Plan":
        """What was `found`, with the `best` of it and, for one size, what another batch brings."""
        case, batch = PricedCase.of(found.run, found.pricing), found.global_batch
        other = other_batch(case, batch, found.pinned) if found.sizes == 1 else None
        return cls(found.run, found, best, objective, batch, other=other, **more)

    @property
    def exit_code(self) -> int:
        """1 if no layout fits."""
        return int(not self.best)

    def _planned(self, found: Prediction) -> PlannedLayout:
        hours, price = self.gpu_hours(found), self.price_usd_per_gpu_hour
        return PlannedLayout(found, hours, None if price is None else hours * price)

    @property
    def best_layouts(self) -> list[PlannedLayout]:
        """The best first; empty if none fits."""
        return [self._planned(one.prediction) for one in self.best]

    @cached_property
    def fastest(self) -> PlannedLayout | None:
        """What is faster than the layout that is recommended, but less sure to fit or to be run."""
        found = self.found.fastest(self.objective)
        if found is None or not self.best or found.rank(self.objective) >= self.best[0].rank(self.objective):
            return None
        return self._planned(found.prediction)

    @property
    def yours(self) -> PlannedLayout | None:
        """The layout that was stated, if one was."""
        return self._planned(self.now) if self.now else None

    @property
    def other_layout(self) -> PlannedLayout | None:
        """The best layout with a batch that more numbers of replicas can share."""
        return self._planned(self.other.best) if self.other else None

    @property
    def front(self) -> list[FrontPoint]:
        """What less memory or fewer GPUs cost in time, the quickest first."""
        return list(self.found.front)

    @cached_property
    def not_searched(self) -> list[Improvement]:
        """What changing each field that is not searched would bring to the best layout."""
        if not self.best:
            return []
        fields = tuple(lever.field for lever in LEVERS if lever.field not in SEARCHED)
        return changed(self.best[0].prediction, fields)

    @property
    def better_batch(self) -> Other | None:
        """The nearest batch that excludes no layout, if it is worth more."""
        other, now = self.other, self.best[0].prediction.mfu if self.best else 0.0
        useful = other is not None and other.best.has_headroom and other.best.mfu > now * (1 + WORTH)
        return other if useful else None

    @property
    def trade_offs(self) -> Iterator[FrontPoint]:
        """A few points of the front, in the order of the objective; the best layout is told above."""
        last: dict[int, float] = {}
        left = _POINTS
        for point in sorted(self.found.front, key=lambda one: one.rank(self.objective)):
            before = last.get(point.gpus, float("inf"))
            if left and point.memory_bytes <= before * _LESS_MEMORY:
                last[point.gpus] = point.memory_bytes
                if not self._is_best(point.layout()):
                    left -= 1
                    yield point

    def _is_best(self, layout: Layout) -> bool:
        """True for the best layout before it was tuned."""
        if not self.best:
            return False
        best = self.best[0].run.layout
        return layout.model_copy(update={name: getattr(best, name) for name in TUNED}) == best

    def gpu_hours(self, found: Prediction) -> float:
        """Of a billion tokens."""
        tokens = self.global_batch * self.run.seq
        return found.step_s * found.run.gpus / _HOUR_S / tokens * _BILLION

    def cost(self, found: Prediction) -> float:
        """Of a billion tokens: in USD, or in GPU-hours where no price is known."""
        return self.gpu_hours(found) * (self.price_usd_per_gpu_hour or 1.0)


def plan_of(found: SearchResult) -> Plan:
    """The usual plan of a search."""
    with catalogue_overlay(found.pricing.catalogue):
        return Plan.of(found, found.best())


def ties(found: Sequence[Prediction]) -> list[int]:
    """The number of the group of each, for predictions in the order of their rank.

    The first of a group cannot be told apart from any other of it: the ratio of the two steps is
    nearer to one than its doubt.
    """
    groups: list[int] = []
    first: Prediction | None = None
    for one in found:
        if first is None or _is_apart(first, one):
            first = one
            groups.append(groups[-1] + 1 if groups else 1)
        else:
            groups.append(groups[-1])
    return groups


def _is_apart(first: Prediction, other: Prediction) -> bool:
    return Ratio(first.step_s, other.step_s, step_deviation(first, other)).is_told_apart
