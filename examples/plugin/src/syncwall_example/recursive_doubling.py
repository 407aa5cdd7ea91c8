"""All-gather and reduce-scatter by recursive doubling between nodes.

NCCL has rings for them (where a node has more than one GPU), whose steps grow with the number of
ranks. Here GPUs of the same number in all nodes exchange twice as much with a partner twice as far
in every round, log2(nodes) rounds in all, and hand on in their node over its links, chunk by chunk:

    latency = log2(d) × 14 us + (g - 1) × 1.2 us
    rate    = 1 / max((d - 1) / (d × g × nic), (g - 1) / (g × link))

for d nodes of g ranks. Source of the rounds: Thakur, Rabenseifner and Gropp, "Optimization of
Collective Communication Operations in MPICH" (2005). The two times are assumed; measure yours.
"""

import numpy as np

from syncwall.cost.nccl import Algorithm, CollectiveRequest, Tuner
from syncwall.work.number import Number

NETWORK_US, LINK_US = 14.0, 1.2


def cost(tuner: Tuner, asked: CollectiveRequest) -> tuple[Number, Number]:
    """Latency (us) and bytes of the collective per second; 0 in one node, where nothing is won."""
    nodes, within = asked.group.nodes, asked.group.ranks / asked.group.nodes
    latency_us = np.log2(nodes) * NETWORK_US + (within - 1) * LINK_US
    over_nics = (nodes - 1) / (nodes * within * np.maximum(asked.graph.nic, 1.0))
    over_links = (within - 1) / (within * np.maximum(asked.graph.link, 1.0))
    rate = 1.0 / np.maximum(np.maximum(over_nics, over_links), 1e-30)
    return latency_us, np.where(nodes > 1, rate, 0.0)


RECURSIVE_DOUBLING = Algorithm(
    kinds=("all-gather", "reduce-scatter"),
    cost=cost,
    formula="log2(nodes) × 14 us + ranks in a node × 1.2 us + bytes / the slower of NICs and links",
)
