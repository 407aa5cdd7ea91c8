"""How sure a prediction is: P10 and P90 from what the model got wrong on published runs.

Holds `PredictionInterval`, `interval`, `nearest_runs` and `doubts`. The half-width is a sum over
doubts: what every run has, the share of the step that waits for network or host, experts, narrow
formats, a device or a framework that nobody measured, what was left unsaid, and the distance to the
nearest validated run. `catalogue/validation/widths.yaml` weighs them, learned with every
organisation counted the same; of a run of its own tables an interval is made without what its
organisation says.
"""

import csv
from dataclasses import dataclass
from functools import lru_cache
from math import exp
from typing import Any

import numpy as np

from syncwall.answer.site import DIFFER, UNKNOWN_SITE, USED, Site, Traits, distances, scale_of
from syncwall.catalogue import BUILT_IN, CatalogueKind, names
from syncwall.describe.base import Trust
from syncwall.describe.names import load
from syncwall.describe.software import Framework
from syncwall.documents import opened_table, packed_or_plain, read_document

TABLE = packed_or_plain(BUILT_IN / "validation" / "residuals.csv")
REGISTER = BUILT_IN / "validation" / "register.csv"
"""Errors of versions on sources that they had never seen; see bench/fit/register.py."""
WIDTHS = BUILT_IN / "validation" / "widths.yaml"
FAR = 2.0
"""Distance to the nearest validated run from which on a prediction is an extrapolation."""
BEYOND = 1.0
"""The same for the distance beyond the largest validated run on the same kind of device, along
GPUs, parameters or the length of sequences: eight, ten and eight times as much."""
EXTRAPOLATED = 0.1
"""What an extrapolation adds to the half-width; assumed."""
UNLIKE = 0.1
"""What a model that is no plain decoder adds to that: with it, nine in ten of the 91 published runs
of hybrids, BERT, T5 and ViT are inside (tests/validate/test_other_families.py)."""
SHAPELESS = 0.1
"""What a stack of layers adds to both: with it 12 of 13 published speeds of ResNet-50 and of Stable
Diffusion's U-Net are inside, without it 7 (`python -m bench accuracy stacks`)."""
_SIZES = ("gpus", "parameters", "seq")
Z80 = 1.2816
"""Half the width of the central 80% of a normal distribution, in deviations."""


@dataclass(frozen=True, slots=True)
class Neighbour:
    """The published run most like the one asked for."""

    id: str
    source: str
    ratio: float
    """Predicted over measured."""
    distance: float


@dataclass(frozen=True, slots=True)
class PredictionInterval:
    """How sure a prediction is."""

    deviation: float
    """Standard deviation of ln(measured / predicted)."""
    nearest: Neighbour | None
    """The published run most like this one."""
    extrapolating: bool
    """True if nothing like this run was validated."""

    def around(self, seconds: float) -> tuple[float, float]:
        """P10 and P90 of a prediction of `seconds`."""
        factor = exp(Z80 * self.deviation)
        return seconds / factor, seconds * factor


UNKNOWN = PredictionInterval(0.25, None, extrapolating=True)
"""Of something that no published run resembles."""


def interval(
    traits: Traits,
    *,
    waiting: float = 0.0,
    unsaid: int = 0,
    site: Site = UNKNOWN_SITE,
    without: str = "",
) -> PredictionInterval:
    """The interval of a run with `traits`.

    `waiting` is the share of its step that waits for network or host, `unsaid` the number of things
    that were guessed.

    `without` leaves an organisation out, so that its own runs can be tested.
    """
    table = _table()
    if table is None:
        return UNKNOWN
    far = np.where(table.organisations != without, table.distances(traits), np.inf)
    nearest = table.neighbour(int(np.argmin(far)), far)
    beyond = nearest.distance > FAR or table.is_beyond(traits, without)
    extrapolating = beyond or not traits.decoder
    found = doubts(traits, waiting=waiting, unsaid=unsaid, distance=nearest.distance)
    width = sum(weight * found[name] for name, weight in _weights(without).items())
    width += EXTRAPOLATED * extrapolating + UNLIKE * (not traits.decoder)
    width += SHAPELESS * (not traits.shaped)
    return PredictionInterval(site.narrowed(width / Z80), nearest, extrapolating)


def nearest_runs(traits: Traits, count: int) -> list[Neighbour]:
    """The `count` published runs most like a run with `traits`, the nearest first."""
    table = _table()
    if table is None:
        return []
    far = table.distances(traits)
    return [table.neighbour(int(one), far) for one in np.argsort(far, kind="stable")[:count]]


def doubts(traits: Traits, *, waiting: float, unsaid: int, distance: float) -> dict[str, float]:
    """What makes a prediction unsure, each as a number that is 0 where there is nothing of it."""
    return {
        "always": 1.0,
        "waiting": waiting,
        "experts": 1.0 * traits.experts,
        "narrow": 1.0 * (traits.precision not in ("16", "32")),
        "unmeasured": 1.0 * (not traits.calibrated),
        "unfitted": 1.0 * (not _is_fitted(traits.framework)),
        "unsaid": 1.0 * unsaid,
        "distance": min(distance, FAR),
    }


@lru_cache(maxsize=64)
def _is_fitted(name: str) -> bool:
    """True if something was fitted to a framework of the catalogue; to a user's own nothing was."""
    if name not in names(CatalogueKind.FRAMEWORK):
        return False
    provenance = load(CatalogueKind.FRAMEWORK, Framework, name).provenance
    return (provenance or {}).get("trust") == Trust.FITTED


@lru_cache(maxsize=1)
def _widths() -> Any:
    return read_document(WIDTHS).value


def _weights(without: str) -> dict[str, float]:
    """Weight of every doubt, learned without one organisation if it has one."""
    known = _widths()
    found: dict[str, float] = known["without"].get(without, known["all"])
    return found


@dataclass(frozen=True)
class _Table:
    """Published runs with their traits and errors, as arrays."""

    ids: Any
    sources: Any
    organisations: Any
    errors: Any
    """ln(predicted / measured)."""
    words: dict[str, Any]
    used: Any
    scale: Any

    def distances(self, traits: Traits) -> Any:
        """Distance of every run to `traits`; 1 is about another kind of machine or model."""
        return distances(self.words, self.used, self.scale, traits)

    def neighbour(self, row: int, far: Any) -> Neighbour:
        """The run of a row; `far` are the distances of all."""
        ratio = float(np.exp(self.errors[row]))
        return Neighbour(str(self.ids[row]), str(self.sources[row]), ratio, float(far[row]))

    def is_beyond(self, traits: Traits, without: str) -> bool:
        """True if no run on this kind of device was nearly as large, or none was on it at all."""
        same = self.words["architecture"] == traits.architecture
        same = same & (self.organisations != without)
        if not same.any():
            return True
        beyond = np.array(traits.scale) - self.scale[same].max(axis=0)
        return bool(np.any(beyond > BEYOND))


@lru_cache(maxsize=1)
def _table() -> _Table | None:
    if not TABLE.exists():
        return None
    with opened_table(TABLE) as stream:
        rows = list(csv.DictReader(stream))
    return _Table(
        ids=np.array([row["id"] for row in rows]),
        sources=np.array([row["source"] for row in rows]),
        organisations=np.array([row["organisation"] for row in rows]),
        errors=np.log(np.array([float(row["ratio"]) for row in rows])),
        words={name: np.array([row[name] for row in rows]) for name in DIFFER},
        used=np.array([[row[name] == "True" for name in USED] for row in rows]),
        scale=np.array([scale_of(*(float(row[name]) for name in _SIZES)) for row in rows]),
    )
