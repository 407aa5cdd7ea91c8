"""How sure a prediction is: P10 and P90, from the errors on sources that nobody had seen.

Holds `PredictionInterval`, `interval`, `nearest_runs` and `uncertainties`. The half-width is a sum
over what is uncertain: what every stranger has, the share of the step that waits for network or host, a
device that nobody measured, kinds of runs that few organisations have published, what was left
unsaid, the distance to the nearest validated run. `catalogue/validation/widths.yaml` weighs them,
learned on the register of first contacts with every organisation counted the same; a run of the
register is tested without what its own organisation says.
"""

import csv
from dataclasses import dataclass
from functools import lru_cache
from math import exp
from pathlib import Path
from typing import Any, Final

import numpy as np

from syncwall.answer.published_runs import PublishedRun, published_run
from syncwall.answer.site import DIFFER, UNKNOWN_SITE, USED, Site, Traits, distances, scale_of
from syncwall.catalogue import BUILT_IN
from syncwall.documents import opened_table, packed_or_plain, read_document
from syncwall.public import published

TABLE = packed_or_plain(BUILT_IN / "validation" / "residuals.csv")
REGISTER = packed_or_plain(BUILT_IN / "validation" / "register.csv")
"""Errors of versions on sources that they had never seen; see bench/fit/register.py."""
WIDTHS = BUILT_IN / "validation" / "widths.yaml"
FAR = 2.0
"""Distance to the nearest validated run from which on a prediction is an extrapolation."""
BEYOND = 1.0
"""The same for the distance beyond the largest validated run on the same kind of device, along
GPUs, parameters or the length of sequences: eight, ten and eight times as much."""
TIMES_BEYOND: Final = 8
FEWEST_ORGANISATIONS = 5
"""Organisations with published runs from which on a kind of run is not rare."""
MANY_GPUS = 512
NAMED = 0.05
"""Half-width from which on what adds it is named."""
_SIZES = ("gpus", "parameters", "seq")
Z80 = 1.2816
"""Half the width of the central 80% of a normal distribution, in deviations."""


@published("id source ratio distance what=run.what measured=run.measured link=run.link")
@dataclass(frozen=True, slots=True)
class Neighbour:
    """The published run most like the one asked for."""

    id: str
    source: str
    ratio: float
    """Predicted over measured."""
    distance: float

    @property
    def run(self) -> PublishedRun:
        """What was published of it."""
        found = published_run(self.id, self.source)
        assert found is not None, "its error is in the table that it was taken from"
        return found


@dataclass(frozen=True, slots=True)
class PredictionInterval:
    """How sure a prediction is."""

    deviation: float
    """Standard deviation of ln(measured / predicted)."""
    nearest: Neighbour | None
    """The published run most like this one."""
    extrapolating: bool
    """True if nothing like this run was validated."""
    reasons: tuple[str, ...] = ()
    """What makes it wide beyond what every prediction has, the most first."""

    def around(self, seconds: float) -> tuple[float, float]:
        """P10 and P90 of a prediction of `seconds`."""
        factor = exp(Z80 * self.deviation)
        return seconds / factor, seconds * factor


UNKNOWN = PredictionInterval(0.3, None, extrapolating=True)
"""Of something that no published run resembles: as wide as a stranger's on a device that was measured."""


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
    rare = rare_traits(traits, without)
    found = uncertainties(
        traits,
        waiting=waiting,
        unsaid=unsaid,
        distance=nearest.distance,
        extrapolating=extrapolating,
        rare=len(rare),
    )
    parts = {name: weight * found[name] for name, weight in _weights(without).items()}
    width = sum(parts.values())
    reasons = tuple(
        REASONS[name].format(waiting=waiting, rare=" and ".join(rare))
        for name in sorted(parts, key=lambda name: -parts[name])
        if name in REASONS and parts[name] >= NAMED
    )
    return PredictionInterval(site.narrowed(width / Z80), nearest, extrapolating, reasons)


def nearest_runs(traits: Traits, count: int) -> list[Neighbour]:
    """The `count` published runs most like a run with `traits`, the nearest first."""
    table = _table()
    if table is None:
        return []
    far = table.distances(traits)
    return [table.neighbour(int(one), far) for one in np.argsort(far, kind="stable")[:count]]


REASONS: Final = {
    "waiting": "{waiting:.0%} of the step waits for network or host",
    "experts": "it has experts",
    "unmeasured": "no kernel of this device was measured",
    "rare": "few organisations published runs with {rare}",
    "unsaid": "software or settings were left open",
    "distance": "no validated run is near",
    "extrapolating": "nothing like it was validated",
    "unlike": "it is no plain decoder",
    "shapeless": "a stack of layers has no known shape",
}
"""Words for what is uncertain, besides what every prediction has."""


def uncertainties(
    traits: Traits,
    *,
    waiting: float,
    unsaid: int,
    distance: float,
    extrapolating: bool,
    rare: int,
) -> dict[str, float]:
    """What makes a prediction unsure, each as a number that is 0 where there is nothing of it."""
    return {
        "always": 1.0,
        "waiting": waiting,
        "experts": 1.0 * traits.experts,
        "narrow": 1.0 * (traits.precision not in ("16", "32")),
        "unmeasured": 1.0 * (not traits.calibrated),
        "rare": 1.0 * rare,
        "unsaid": 1.0 * unsaid,
        "distance": min(distance, FAR),
        "extrapolating": 1.0 * extrapolating,
        "unlike": 1.0 * (not traits.decoder),
        "shapeless": 1.0 * (not traits.shaped),
    }


def rare_traits(traits: Traits, without: str = "") -> list[str]:
    """What this run has that fewer than five organisations have published, in words."""
    owners = _owners()
    gpus = 8.0 ** traits.scale[0]
    words = _kinds(*(str(getattr(traits, name)) for name in _WORDS), gpus=gpus)
    return [word for word in words if len(owners.get(word, frozenset()) - {without}) < FEWEST_ORGANISATIONS]


_WORDS: Final = ("architecture", "framework", "precision", "experts", "frozen_weights")
"""Traits that make a kind, as columns of the tables have them."""


def _kinds(
    architecture: str, framework: str, precision: str, experts: str, frozen: str, *, gpus: float
) -> list[str]:
    """Kinds that a run belongs to, in words."""
    found = [f"{architecture} devices", _software(framework)]
    if precision not in ("16", "32"):
        found.append(f"{precision}-bit formats")
    if experts == "True":
        found.append("experts")
    if frozen == "True":
        found.append("frozen weights")
    if round(gpus) > MANY_GPUS:
        found.append(f"more than {MANY_GPUS} GPUs")
    return found


def _software(framework: str) -> str:
    """A family of frameworks: forks and successors share most of what decides their speed."""
    if framework == "unknown":
        return "software of their own"
    return "Megatron" if framework.startswith("megatron") else framework


@lru_cache(maxsize=1)
def _owners() -> dict[str, frozenset[str]]:
    """Organisations with published runs of each kind."""
    found: dict[str, set[str]] = {}
    for line in (*register_lines(), *_residuals()):
        for word in _kinds(*(line[name] for name in _WORDS), gpus=float(line["gpus"])):
            found.setdefault(word, set()).add(line["organisation"])
    return {word: frozenset(owners) for word, owners in found.items()}


@lru_cache(maxsize=1)
def register_lines() -> list[dict[str, str]]:
    """The register of first contacts."""
    return _lines(REGISTER)


def _lines(table: Path) -> list[dict[str, str]]:
    if not table.exists():
        return []
    with opened_table(table) as stream:
        return list(csv.DictReader(stream))


@lru_cache(maxsize=1)
def _widths() -> Any:
    return read_document(WIDTHS).value


def _weights(without: str) -> dict[str, float]:
    """Half-width for each uncertainty, learned without one organisation if it has one."""
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
def validated_gpus() -> int:
    """Most GPUs of any run that predictions were compared with; what is beyond is extrapolated."""
    return max((int(float(line["gpus"])) for line in (*register_lines(), *_residuals())), default=1)


def supported_gpus() -> int:
    """GPUs beyond which nothing supports a prediction: where it is `BEYOND` every validated run."""
    return TIMES_BEYOND * validated_gpus()


@lru_cache(maxsize=1)
def _residuals() -> list[dict[str, str]]:
    return _lines(TABLE)


@lru_cache(maxsize=1)
def _table() -> _Table | None:
    rows = _residuals()
    if not rows:
        return None
    return _Table(
        ids=np.array([row["id"] for row in rows]),
        sources=np.array([row["source"] for row in rows]),
        organisations=np.array([row["organisation"] for row in rows]),
        errors=np.log(np.array([float(row["ratio"]) for row in rows])),
        words={name: np.array([row[name] for row in rows]) for name in DIFFER},
        used=np.array([[row[name] == "True" for name in USED] for row in rows]),
        scale=np.array([scale_of(*(float(row[name]) for name in _SIZES)) for row in rows]),
    )
