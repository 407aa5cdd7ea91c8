"""How near the other runs of a source are once some of its runs are known.

Holds `KnownSet`, `choices` and `FEWEST_RUNS`. Which runs are known is drawn by lot, always alike.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from syncwall.answer.knob_model import Covariances, site_prior, weighted
from syncwall.answer.site import KnownStep
from syncwall.answer.traits import site_distances

Array = NDArray[Any]
FEWEST_RUNS: Final = 9
"""Runs that a source needs before several of them are taken as known."""
MOST_RUNS: Final = 150
"""Runs of a source that count, evenly spread."""
_DRAWS: Final = 60
_SEED: Final = 16


def choices(runs: int, known: int) -> Any:
    """Which of `runs` runs are known, one choice a row: each run alone, or `known` drawn by lot."""
    if known == 1:
        return np.arange(runs)[:, None]
    lot = np.random.default_rng(_SEED)
    return np.array([lot.permutation(runs)[:known] for _ in range(_DRAWS)])


@dataclass(frozen=True)
class KnownSet:
    """Runs of one source, any of which may be known."""

    logs: Array
    """ln(measured / predicted)."""
    shares: Array
    apart: Array
    """Distances between them."""

    @classmethod
    def of(cls, steps: Sequence[KnownStep]) -> "KnownSet":
        """From measured runs beside their predictions."""
        traits = [one.traits for one in steps]
        return cls(
            np.log([one.ratio for one in steps]),
            np.array([one.shares for one in steps]),
            np.array([site_distances(traits, one) for one in traits]),
        )

    def left(self, known: int, model: Covariances) -> Array:
        """ln(predicted / measured) of every other run, for every choice of `known` ones."""
        chosen = choices(len(self.logs), known)
        common = model.between(self.shares, self.shares, self.apart)
        alone = model.alone(self.shares)
        inside = common[chosen[:, :, None], chosen[:, None, :]]
        pull = weighted(inside, alone[chosen], self.logs[chosen])
        found = np.einsum("ck,ckn->cn", pull, common[chosen]) - self.logs
        others = np.ones(found.shape, dtype=bool)
        np.put_along_axis(others, chosen, values=False, axis=1)
        left: Array = found[others]
        return left

    def mape(self, known: int) -> float:
        """Mean error of the other runs."""
        return float(np.abs(np.expm1(self.left(known, Covariances(site_prior())))).mean())
