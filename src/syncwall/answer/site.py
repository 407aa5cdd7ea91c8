"""What measured runs of one site say about all its other runs, and what makes two runs alike.

The price of each kind of work has a knob (`cost`). Of a known run, ln(measured / predicted)
is the sum of the knobs' logarithms, each times the share of the step that goes with it, and of what
that run has for itself. With normal priors the knobs follow in closed form (Rasmussen and Williams
2006, chapter 2); see docs/explanation/accuracy.md.

Sites differ for reasons that no description holds (software builds, clocks, cooling, neighbours).
Each kind of work has a knob for that, the same in every layout: the more runs back it, and the more
they are like the run asked for, the further it is turned.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property, lru_cache
from math import log, log2, log10, sqrt
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from syncwall.catalogue import BUILT_IN
from syncwall.cost.calibration import calibration
from syncwall.cost.framework_costs import AS_CATALOGUED, KNOBS, Knobs
from syncwall.cost.measured import MachineMeasurements
from syncwall.describe import Cluster, Device, Layout, Model, Software
from syncwall.describe.software import USUAL_FRAMEWORK
from syncwall.documents import read_document
from syncwall.problems import InputError

DIFFER = {"architecture": 1.0, "precision": 0.7, "experts": 1.0, "framework": 0.7, "frozen_weights": 1.0}
USED = {"tp": 0.4, "pp": 0.5, "cp": 0.6, "ep": 0.4, "fsdp": 0.5}
"""What it counts if two runs differ in a word, or if one uses an axis and the other does not."""


@dataclass(frozen=True, slots=True)
class Traits:
    """What makes two runs alike."""

    architecture: str
    precision: str
    """16, 8 or 4 bits."""
    framework: str
    experts: bool
    frozen_weights: bool
    calibrated: bool
    """True if the device itself was measured, not one like it."""
    used: tuple[bool, ...]
    """Whether each of tp, pp, cp, ep and fsdp is used."""
    scale: tuple[float, float, float]
    """As `scale_of` gives it."""
    decoder: bool = True
    """False for hybrids, encoders and models of images, on which nothing was fitted."""
    shaped: bool = True
    """False for a stack of layers, of which no shape is known."""

    @classmethod
    def of(cls, model: Model, cluster: Cluster, layout: Layout, software: Software, seq: int) -> "Traits":
        """The traits of one run."""
        bits = f"{8 * layout.precision.size_bytes:.0f}"
        used = (layout.tp > 1, layout.pp > 1, layout.cp > 1, layout.ep > 1, layout.shard == 3)
        return cls(
            cluster.device.architecture.split("-")[0],
            bits,
            software.framework or USUAL_FRAMEWORK,
            model.moe is not None,
            bool(layout.frozen_weights or layout.frozen or layout.frozen_layers),
            calibration(cluster.device).is_measured,
            tuple(bool(one) for one in used),
            scale_of(layout.gpus, model.parameters, seq),
            model.is_plain_decoder,
            model.stack is None,
        )


def scale_of(gpus: float, parameters: float, seq: float) -> tuple[float, float, float]:
    """How large a run is, in units in which 1 is about another kind of run."""
    return log2(gpus) / 3, log10(parameters), log2(seq) / 3


def distances(words: dict[str, Any], used: Any, scale: Any, traits: Traits) -> Any:
    """Distance of runs, given as arrays, to `traits`; 1 is about another kind of machine."""
    squares = ((scale - np.array(traits.scale)) ** 2).sum(axis=1)
    for name, cost in DIFFER.items():
        squares = squares + cost**2 * (words[name] != str(getattr(traits, name)))
    costs = np.array(list(USED.values())) ** 2
    return np.sqrt(squares + ((used != np.array(traits.used)) * costs).sum(axis=1))


def site_distances(runs: Sequence[Traits], other: Traits) -> Any:
    """How far `runs` of a site are from another one in what they train on what machine.

    The layout and the number of GPUs do not count: knowing one run of a site tells as much of
    it in every other layout, so that no layout looks better for being unknown.
    """
    words = {name: np.array([str(getattr(one, name)) for one in runs]) for name in DIFFER}
    scale = np.array([(other.scale[0], *one.scale[1:]) for one in runs])
    return distances(words, np.array([other.used] * len(runs)), scale, other)


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
    """Of each knob of `cost.framework_costs.KNOBS`, between sites."""
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


WANTED: Final = 3
"""Known runs that are asked for: one alone may be an outlier, and cannot tell knobs apart."""


@dataclass(frozen=True, slots=True)
class KnownStep:
    """A measured run beside its prediction."""

    ratio: float
    """Measured over predicted step time."""
    shares: tuple[float, ...]
    """Part of the predicted step that goes with each knob of `cost.framework_costs.KNOBS`."""
    traits: Traits
    same_build: bool = False
    """True if the runs asked for are of the same build on the same machines."""


@dataclass(frozen=True, slots=True)
class Site:
    """One cluster with its people and software."""

    known: tuple[KnownStep, ...] = ()
    measured: tuple[str, ...] = ()
    """Knobs whose kernels or collectives were measured alone on the machine."""
    asked: Traits | None = None
    """The run asked for; None if it is like the known ones."""
    left_out: tuple[float, ...] = ()
    """Measured over predicted time of known runs that are too far off to say anything of a site."""
    calibration: MachineMeasurements | None = None
    """What was measured on its machine; None if nothing was."""
    device: str = ""
    """The device that was measured, if other devices are refused."""

    def refuse_other(self, device: Device) -> None:
        """InputError if something else was measured than `device`."""
        if self.device and self.device not in (device.name, device.like):
            raise InputError.of(
                f"the site was measured on {self.device}, and the run is on {device.name}: "
                "measure that machine (syncwall measure node), or leave the site out"
            )

    @property
    def was_asked(self) -> bool:
        """True if somebody named known runs, whether they are used or not."""
        return bool(self.known or self.left_out)

    def seen_from(self, traits: Traits, measured: Sequence[str] = ()) -> "Site":
        """The same site as far as it concerns a run with `traits`, whatever its layout."""
        return replace(self, asked=traits, measured=tuple(measured))

    @property
    def knobs(self) -> Knobs:
        """What every price is multiplied by; as the catalogue says if nothing is known."""
        if not self.known:
            return AS_CATALOGUED
        return Knobs(*self._evidence().knobs().tolist())

    def narrowed(self, deviation: float) -> float:
        """Standard deviation of ln(measured / predicted) that is left of `deviation`."""
        if not self.known:
            return deviation
        least = deviation_of_repeats(len(self.known)) ** 2
        left = max(least, deviation**2 - self._evidence().explained())
        return min(deviation, sqrt(left))

    def _evidence(self) -> Evidence:
        traits = [one.traits for one in self.known]
        far = np.zeros(len(traits)) if self.asked is None else site_distances(traits, self.asked)
        return Evidence(
            Covariances(site_prior(), self.measured),
            np.array([log(one.ratio) for one in self.known]),
            np.array([one.shares for one in self.known]),
            np.array([site_distances(traits, one) for one in traits]),
            far,
            np.array([one.same_build for one in self.known]),
        )


def deviation_of_repeats(known: int) -> float:
    """Standard deviation of the logarithm of a step's time beside the mean of `known` runs like it.

    No prediction can be surer.
    """
    return site_prior().run * sqrt(1.0 + 1.0 / known)


UNKNOWN_SITE: Final = Site()
"""A site of which nothing is known."""
