"""How sure a prediction is: P10 and P90 from what the model got wrong on published runs.

Holds `Interval` and `interval`. Runs like the one asked for count most, every source the same; a
run unlike all of them gets a wider interval and the word "extrapolating". Only runs that fits may
read set the width, so that the width itself can be tested.
"""

import csv
from collections import Counter
from dataclasses import dataclass
from functools import lru_cache
from math import exp
from typing import Any

import numpy as np

from syncwall.answer.site import NOWHERE, Site
from syncwall.answer.traits import DIFFER, USED, Traits, distances, scale_of
from syncwall.catalogue import BUILT_IN

TABLE = BUILT_IN / "validation" / "residuals.csv"
SITE = 0.07
"""Standard deviation between sites and software builds that no description explains: 5 to 10 %
between submitters and releases of the same configuration; see docs/explanation/accuracy.md."""
OPEN_FIELD = 0.05
"""Deviation that each thing left open adds."""
PER_DISTANCE = 0.05
"""Deviation that every unit of distance to the nearest calibrated run adds."""
UNMEASURED = 0.15
"""Deviation that a device adds which has no calibration of its own."""
FAR = 2.0
"""Distance to the nearest calibrated run from which on a prediction is an extrapolation."""
_SIZES = ("gpus", "parameters", "seq")
Z80 = 1.2816
"""Half the width of the central 80 % of a normal distribution, in deviations."""


@dataclass(frozen=True, slots=True)
class Neighbour:
    """The published run most like the one asked for."""

    id: str
    source: str
    ratio: float
    """Predicted over measured."""
    distance: float


@dataclass(frozen=True, slots=True)
class Interval:
    """How sure a prediction is."""

    deviation: float
    """Standard deviation of ln(measured / predicted)."""
    nearest: Neighbour | None
    extrapolating: bool

    def around(self, seconds: float) -> tuple[float, float]:
        """P10 and P90 of a prediction of `seconds`."""
        factor = exp(Z80 * self.deviation)
        return seconds / factor, seconds * factor


UNKNOWN = Interval(0.25, None, extrapolating=True)
"""Of something that no published run resembles."""


def interval(
    traits: Traits, *, open_fields: int = 0, site: Site = NOWHERE, without: str = ""
) -> Interval:
    """The interval of a run with `traits`, of which `open_fields` are guessed.

    `without` leaves a source out, so that its own runs can be tested.
    """
    table = _table()
    if table is None:
        return UNKNOWN
    far = table.distances(traits)
    used = table.calibrates & (table.sources != without)
    near = float(far[used].min()) if used.any() else FAR
    weights = np.exp(-(far[used] ** 2) / 2) / table.rows_of_source[used]
    local = float(np.sum(weights * table.errors[used] ** 2) / max(np.sum(weights), 1e-300))
    variance = local + SITE**2 + (PER_DISTANCE * near) ** 2 + open_fields * OPEN_FIELD**2
    variance += UNMEASURED**2 * (not traits.calibrated)
    others = table.sources != without
    first = int(np.argmin(np.where(others, far, np.inf)))
    nearest = Neighbour(
        str(table.ids[first]), str(table.sources[first]), float(np.exp(table.errors[first])),
        float(far[first]),
    )  # fmt: skip
    return Interval(site.narrowed(variance**0.5), nearest, extrapolating=near > FAR)


@dataclass(frozen=True)
class _Table:
    """Published runs with their traits and errors, as arrays."""

    ids: Any
    sources: Any
    calibrates: Any
    rows_of_source: Any
    errors: Any
    """ln(predicted / measured)."""
    words: dict[str, Any]
    used: Any
    scale: Any

    def distances(self, traits: Traits) -> Any:
        """Distance of every run to `traits`; 1 is about another kind of machine or model."""
        return distances(self.words, self.used, self.scale, traits)


@lru_cache(maxsize=1)
def _table() -> _Table | None:
    if not TABLE.exists():
        return None
    with TABLE.open(encoding="utf-8", newline="") as stream:
        rows = list(csv.DictReader(stream))
    counts = Counter(row["source"] for row in rows if row["part"] == "calibration")
    return _Table(
        ids=np.array([row["id"] for row in rows]),
        sources=np.array([row["source"] for row in rows]),
        calibrates=np.array([row["part"] == "calibration" for row in rows]),
        rows_of_source=np.array([max(counts[row["source"]], 1) for row in rows]),
        errors=np.log(np.array([float(row["ratio"]) for row in rows])),
        words={name: np.array([row[name] for row in rows]) for name in DIFFER},
        used=np.array([[row[name] == "True" for name in USED] for row in rows]),
        scale=np.array([scale_of(*(float(row[name]) for name in _SIZES)) for row in rows]),
    )
