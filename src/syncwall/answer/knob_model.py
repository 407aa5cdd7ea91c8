"""What known runs say about the knobs of their site: a normal model in logarithms.

Holds `SitePrior`, `site_prior`, `Covariances` and `Evidence`. The price of each kind of work has a
knob (`cost.knobs`). Of a known run, ln(measured / predicted) is the sum of the knobs' logarithms,
each times the share of the step that goes with it, and of what that run has for itself. With
normal priors the knobs follow in closed form (Rasmussen and Williams 2006, chapter 2); see
docs/explanation/accuracy.md.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property, lru_cache
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from syncwall.catalogue import BUILT_IN
from syncwall.cost.knobs import KNOBS
from syncwall.documents import read_document

Array = NDArray[Any]
FILE: Final = BUILT_IN / "tuning" / "sites.yaml"
HUBER: Final = 1.0
"""Deviations from which on a run counts as an outlier, whose pull grows no further (Huber 1964);
assumed."""
_PASSES: Final = 25
SAME_BUILD: Final = 0.015
"""Deviation of a run that is known to be of the same build on the same machines: software revisions
of one configuration differ by 1.5% (see bench/accuracy/figures.py)."""
MEASURED_KNOB: Final = 0.05
"""Deviation that is left of a knob whose kernels or collectives were measured alone on the machine:
in training they run beside others; assumed."""


@dataclass(frozen=True)
class SitePrior:
    """Standard deviations of logarithms, before anything of a site is known."""

    knobs: tuple[float, ...]
    """Of each knob of `cost.knobs.KNOBS`, between sites."""
    step: float
    """Of what all runs of a site have in common, however unlike they are."""
    setup: float
    """Of what runs with the same model, machine and software have in common."""
    reach: float
    """Distance between two runs (`traits.site_distances`) at which knobs and setup have e^-0.5 in
    common."""
    run: float
    """Of what a run has for itself: no other run is helped by it."""
    run_network: float
    """What it has more of that, for its share of waiting for communication."""
    run_host: float
    """The same for the host."""

    @classmethod
    def of(cls, between: dict[str, float], within: dict[str, float]) -> "SitePrior":
        """From the two blocks of `tuning/sites.yaml`."""
        return cls(
            tuple(between[name] for name in KNOBS),
            between["step"],
            between["setup"],
            between["reach"],
            within["step"],
            within["network"],
            within["host"],
        )

    def with_measured(self, names: Sequence[str]) -> "Array":
        """Deviations of the knobs if the kernels of those with these `names` were measured."""
        return np.array(
            [
                min(deviation, MEASURED_KNOB) if name in names else deviation
                for name, deviation in zip(KNOBS, self.knobs, strict=True)
            ]
        )


@lru_cache(maxsize=1)
def site_prior() -> SitePrior:
    """The fitted one."""
    table: dict[str, Any] = read_document(FILE).value
    return SitePrior.of(table["between"], table["within"])


@dataclass(frozen=True)
class Covariances:
    """What runs of one site have in common, given the share of each knob in their steps."""

    prior: SitePrior
    measured: tuple[str, ...] = ()
    """Knobs whose kernels or collectives were measured on the machine."""

    @cached_property
    def variances(self) -> Array:
        """Of each knob."""
        return self.prior.with_measured(self.measured) ** 2

    def likeness(self, far: Any) -> Array:
        """What runs at distance `far` have in common, from 0 to 1."""
        return np.exp(-0.5 * (np.asarray(far, dtype=float) / self.prior.reach) ** 2)

    def between(self, shares: Array, others: Array, far: Any) -> Array:
        """Covariance of each of `shares` with each of `others`, rows of knobs, `far` apart."""
        alike = self.likeness(far)
        knobs = (shares * self.variances) @ others.T
        return (knobs + self.prior.setup**2) * alike + self.prior.step**2

    def alone(self, shares: Array, same_build: Any = False) -> Array:
        """Variance of what each run has for itself."""
        prior = self.prior
        network, host = (shares[:, KNOBS.index(name)] for name in ("network", "host"))
        own = prior.run**2 + (prior.run_network * network) ** 2 + (prior.run_host * host) ** 2
        return np.where(same_build, SAME_BUILD**2, own)


def weighted(common: Array, alone: Array, logs: Array) -> Array:
    """(common + alone)^-1 `logs`, in which outliers are taken to have more for themselves.

    The last axis counts known runs; before it there may be sets of them.
    """
    trusted = np.ones(logs.shape)
    found = logs
    own = np.eye(logs.shape[-1])
    for _ in range(_PASSES):
        total = common + own * (alone / trusted)[..., None]
        found = np.linalg.solve(total, logs[..., None])[..., 0]
        off = np.abs(alone / trusted * found) / np.sqrt(alone)
        trusted = HUBER / np.maximum(off, HUBER)
    return found


@dataclass(frozen=True)
class Evidence:
    """Known runs, as seen from a run asked for."""

    covariances: Covariances
    logs: Array
    """ln(measured / predicted) of each known run."""
    shares: Array
    """Share of each knob in each of their steps."""
    apart: Array
    """Distances between the known runs."""
    far: Array
    """Distances to the run asked for."""
    same_build: Array

    @cached_property
    def _common(self) -> Array:
        return self.covariances.between(self.shares, self.shares, self.apart)

    @cached_property
    def _alone(self) -> Array:
        return self.covariances.alone(self.shares, self.same_build)

    def knobs(self) -> Array:
        """Every knob as it is to be expected for the run asked for, the same in all its layouts."""
        model = self.covariances
        pull = weighted(self._common, self._alone, self.logs)
        near = pull * model.likeness(self.far)
        own = model.variances * (near @ self.shares)
        shared = model.prior.setup**2 * near.sum() + model.prior.step**2 * pull.sum()
        knobs: Array = np.exp(own + shared)
        return knobs

    def explained(self) -> float:
        """Variance of ln(measured / predicted) of the run asked for that is no longer unknown.

        Its shares are taken to be those of the known runs.
        """
        mean = self.shares.mean(axis=0, keepdims=True)
        to_asked = self.covariances.between(self.shares, mean, self.far[:, None])[:, 0]
        return float(to_asked @ np.linalg.solve(self._common + np.diag(self._alone), to_asked))
