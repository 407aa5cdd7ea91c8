"""What to expect of a run that may stall.

Holds `expected_slowdown`. A prediction is the time of a run in which nothing goes wrong; of several
layouts that are predicted alike, the one that stalls less often is the better choice. How often is
data of a framework, fitted by bench/fit/stalls.py; most have none.
"""

import numpy as np

from syncwall.describe import Cluster, Layout
from syncwall.describe.software import Framework, Stalls
from syncwall.work.number import Number


def expected_slowdown(family: Framework, layout: Layout, cluster: Cluster) -> Number:
    """Expected over predicted step time of resolved layouts, 1 inside a node.

    The expectation is that of the logarithm, so that a rare run that takes twenty times as long
    does not outweigh all others.
    """
    several = layout.gpus > cluster.gpus_per_node
    plain = _expected(family.stalls, layout.gpus)
    pipelined = _expected(family.pipeline_stalls, layout.gpus)
    return np.where(several, np.where(layout.pp > 1, pipelined, plain), 1.0)


def probability(stalls: Stalls, gpus: Number) -> Number:
    """Share of runs on `gpus` GPUs that stall: logistic in the logarithm of the GPUs."""
    odds = stalls.per_doubling * np.log2(gpus / stalls.half_at_gpus)
    return 1.0 / (1.0 + np.exp(-odds))


def _expected(stalls: Stalls | None, gpus: Number) -> Number:
    if stalls is None:
        return 1.0
    return stalls.slowdown ** probability(stalls, gpus)
