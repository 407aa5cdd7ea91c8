"""How much of a step goes with the price of each kind of work.

Holds `shares_of`: elasticities, found by pricing the step again with every knob turned a little.
They add up to 1, and what overlaps is counted as it is: communication that computation hides has no
share, and computation that hides it has less than its seconds.
"""

from dataclasses import replace
from math import log
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from syncwall.answer.pricing import Pricing
from syncwall.cost.knobs import KNOBS, Knobs
from syncwall.describe import Cluster, Layout, Model

_TURN: Final = 1.02


def shares_of(
    pricing: Pricing, model: Model, layout: Layout, seq: Any, cluster: Cluster
) -> NDArray[np.float64]:
    """A row with the share of every knob for each of `layout`, which is resolved: one or arrays."""
    turned = _turned(pricing.knobs)
    steps = pricing.turned(turned).step(model, layout, seq, cluster).step_s
    logs = np.log(np.asarray(steps, dtype=float))
    grown = (logs[1:] - logs[0]) / log(_TURN)
    shares = np.maximum(grown, 0.0)
    return np.asarray((shares / shares.sum(axis=0)).T, dtype=float)


def _turned(knobs: Knobs) -> Knobs:
    """Arrays in which first no knob is turned, then one after the other."""
    count = len(KNOBS)
    by_name = knobs.by_name()
    grid = 1.0 + (_TURN - 1.0) * np.eye(count + 1)[1:]
    return replace(
        knobs, **{name: by_name[name] * grid[i][:, None] for i, name in enumerate(KNOBS)}
    )
