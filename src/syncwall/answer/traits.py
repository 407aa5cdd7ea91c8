"""What makes two runs alike.

Holds `Traits`, `scale_of`, `distances` (of many runs to one) and `site_distances`.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from math import log2, log10
from typing import Any

import numpy as np

from syncwall.cost.calibration import calibration
from syncwall.describe import Cluster, Layout, Model, Software
from syncwall.describe.software import USUAL_FRAMEWORK

DIFFER = {
    "architecture": 1.0,
    "precision": 0.7,
    "experts": 1.0,
    "framework": 0.7,
    "frozen_weights": 1.0,
}
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
    def of(
        cls, model: Model, cluster: Cluster, layout: Layout, software: Software, seq: int
    ) -> "Traits":
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
