"""Which of the layouts found is recommended: the fastest that surely fits and that people run.

Layouts that are nearly as fast as the fastest cannot be told apart. Among them come first those
that fit with 90 % and have nothing that is rare in published runs, then other sure fits, then as
little as possible that is rare, few ranks of a replica, and little memory. What fits with 90 % may
cost a little more; tensor parallelism beyond a scale-up domain, cp of short sequences, and pipelines
of adapters and encoders are recommended only where they are much faster.
"""

from collections.abc import Iterable, Iterator
from math import inf
from typing import Any, Final, Protocol, TypeVar

import numpy as np

from syncwall.answer.improvements import LONG_SEQUENCE, MOST_VIRTUAL_STAGES
from syncwall.answer.settled import ADAPTER_SAFETY
from syncwall.describe import Cluster, Layout, Model, Run
from syncwall.describe.layout import Schedule
from syncwall.plan.choices import Objective

_PLAIN: Final = (Schedule.GPIPE, Schedule.ONE_F_ONE_B, Schedule.INTERLEAVED)
NEAR: Final = 0.02
"""Times that differ by less cannot be told apart; what is measured agrees (`bench decisions`)."""
SAFER: Final = 0.03
"""How much slower a layout may be that fits with 90 % than the fastest that may fit."""
_STEP: Final = 0.01
"""Times in one step of this share are taken as equal."""
_SHORT, _WIDE = "cp below 16k tokens", "tp beyond one scale-up domain"
_SMALL = "a pipeline or cp for adapters or an encoder"
RELUCTANCE: Final = {_WIDE: ADAPTER_SAFETY, _SMALL: ADAPTER_SAFETY, _SHORT: 0.1}
"""How much slower layouts may be that do without a feature which people avoid."""


def unusual_features(layouts: Any, model: Model, seq: int, cluster: Cluster) -> dict[str, Any]:
    """What of resolved `layouts`, one or arrays, is rare in published runs: where each holds."""
    domain, several = cluster.domain_gpus, layouts.pp > 1
    is_small = bool(layouts.frozen_weights) or model.patches is not None or model.frames is not None
    plain: Any = np.isin(layouts.schedule, _PLAIN)
    return {
        _SHORT: (layouts.cp > 1) & (seq < LONG_SEQUENCE),
        "a zero-bubble or DualPipe schedule": several & ~plain,
        "more than 8 virtual stages": several & (layouts.virtual_stages > MOST_VIRTUAL_STAGES),
        "experts beyond one scale-up domain": (layouts.ep > 1) & (layouts.ep * layouts.etp > domain),
        _WIDE: layouts.tp > domain,
        _SMALL: (several | (layouts.cp > 1)) & is_small,
    }


def unusual(run: Run) -> dict[str, Any]:
    """The same of a run."""
    return unusual_features(run.layout, run.model, run.seq, run.cluster)


class Ranked(Protocol):
    """What is known of a layout that was found."""

    @property
    def gpus(self) -> int:
        """GPUs in use."""

    @property
    def layout(self) -> Layout:
        """Resolved."""

    @property
    def memory_bytes(self) -> float:
        """On the fullest GPU."""

    @property
    def fit_probability(self) -> float:
        """How likely it fits."""

    @property
    def is_sure(self) -> bool:
        """True if it fits with 90 %."""

    @property
    def unusual(self) -> tuple[str, ...]:
        """What of it is rare."""

    def rank(self, objective: Objective) -> tuple[float, ...]:
        """Orders by what is asked for alone."""


Found = TypeVar("Found", bound=Ranked)


def recommended(candidates: Iterable[Found], objective: Objective) -> list[Found]:
    """Candidates in the order in which to try them."""
    several = sorted(candidates, key=lambda one: one.rank(objective))
    if not several:
        return []
    best, avoided = several[0], set[str]()
    for feature, worth in RELUCTANCE.items():
        without = (one for one in several if not {feature, *avoided} & {*one.unusual})
        common = next(without, None)
        if common and _slower(common, best, objective) <= worth:
            best, avoided = common, {feature, *avoided}
    sure = (one for one in several if one.is_sure and not avoided & {*one.unusual})
    safest = next(sure, None)
    if safest and _slower(safest, best, objective) <= SAFER:
        best = safest

    def order(one: Found) -> tuple[Any, ...]:
        slower = _slower(one, best, objective)
        if avoided and avoided & {*one.unusual}:
            return 4, *one.rank(objective)
        if slower > NEAR:
            return 3, *one.rank(objective)
        rare = len(one.unusual)
        if not one.is_sure:
            return 2, -int(10 * one.fit_probability), rare, one.memory_bytes
        return rare > 0, rare, int(max(slower, 0.0) / _STEP), int(one.layout.model_ranks), one.memory_bytes

    return sorted(several, key=order)


def _slower(one: Ranked, best: Ranked, objective: Objective) -> float:
    """By what share `one` is worse than `best`; infinitely if it takes more GPUs than the fewest."""
    if objective == "smallest" and one.gpus != best.gpus:
        return inf
    return one.rank(objective)[-1] / best.rank(objective)[-1] - 1.0


def ideas(candidates: Iterable[Found]) -> Iterator[Found]:
    """The first of those that are one idea: equal but for context parallelism and settings."""
    seen = set[tuple[Any, ...]]()
    for one in candidates:
        layout = one.layout
        idea = (one.gpus, layout.tp, layout.pp, layout.ep, layout.etp)
        if idea not in seen:
            seen.add(idea)
            yield one
