"""The whole answer of a search: the best layouts, and what stands beside them.

Holds `Plan`.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Final

from syncwall.answer.improvements import LEVERS, WORTH, Improvement, changed
from syncwall.answer.prediction import Prediction
from syncwall.catalogue import searched_first
from syncwall.describe import Run
from syncwall.plan.batches import Other, other_batch
from syncwall.plan.choices import SEARCHED, Objective
from syncwall.plan.front import FrontPoint
from syncwall.plan.search import Candidate, SearchResult
from syncwall.plan.wires import PricedCase
from syncwall.public import Answer, Late, published

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
    "exposed_s=prediction.exposed_s gpu_hours_per_billion_tokens usd_per_billion_tokens",
)
@dataclass(frozen=True)
class PlannedLayout:
    """A layout and what is predicted for it."""

    prediction: Prediction
    gpu_hours_per_billion_tokens: float
    usd_per_billion_tokens: float | None
    """None if no price is stated."""


@published(
    "verdict objective layouts_possible=found.counted layouts_fitting=found.fitting",
    "best=best_layouts yours front tuned not_searched=not_searched._option",
    "other_batch=other_layout least_memory_bytes=found.smallest.memory_bytes settings",
)
@dataclass(frozen=True)
class Plan(Answer):
    """The best layouts, and what stands beside them."""

    verb = "plan layouts"
    verdict = Late("show.words.layouts:verdict")
    tuned = Late("show.words.layouts:tuned_settings")
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
    def of(cls, found: SearchResult, best: list[Candidate], objective: Objective = "fastest",
           **more: Any) -> "Plan":  # fmt: skip
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
        useful = other is not None and other.best.fits and other.best.mfu > now * (1 + WORTH)
        return other if useful else None

    @property
    def trade_offs(self) -> Iterator[FrontPoint]:
        """A few points of the front, in the order of the objective."""
        last: dict[int, float] = {}
        left = _POINTS
        for point in sorted(self.found.front, key=lambda one: one.rank(self.objective)):
            before = last.get(point.gpus, float("inf"))
            if left and point.memory_bytes <= before * _LESS_MEMORY:
                last[point.gpus] = point.memory_bytes
                left -= 1
                yield point

    def gpu_hours(self, found: Prediction) -> float:
        """Of a billion tokens."""
        tokens = self.global_batch * self.run.seq
        return found.step_s * found.run.gpus / _HOUR_S / tokens * _BILLION

    def cost(self, found: Prediction) -> float:
        """Of a billion tokens: in USD, or in GPU-hours where no price is known."""
        return self.gpu_hours(found) * (self.price_usd_per_gpu_hour or 1.0)


def plan_of(found: SearchResult) -> Plan:
    """The usual plan of a search."""
    with searched_first(found.pricing.catalogue):
        return Plan.of(found, found.best())
