"""Rates that NCCL counts with, and what is reached of them.

Holds `nccl_generation`, `merged_share`, `nic_reached`, `rings_only`, `channels_of` and
`at_most`; `gloo_seconds`; `PRICED_AS`.
"""

from typing import Final

import numpy as np

from syncwall.cost.calibration import NetworkFit
from syncwall.cost.nccl import Choices, is_ours
from syncwall.cost.path import Path
from syncwall.describe import Cluster
from syncwall.work.number import Number
from syncwall.work.operations import CollectiveKind, expected_places

GENERATION = {"volta": 0, "turing": 0, "ampere": 1, "ada": 1, "hopper": 2, "blackwell": 3}
"""NCCL's numbers of architectures; it has one for all before Ampere."""
PRICED_AS: Final[dict[CollectiveKind, CollectiveKind]] = {
    "reduce": "broadcast",
    "gather": "all-to-all",
    "scatter": "all-to-all",
}
"""Collectives that NCCL has no model of: a broadcast backwards, and one rank's share of an
all-to-all."""

_SOCKET_HOP_S: Final = 50e-6
"""One hop of a ring over TCP between processes."""


def nccl_generation(architecture: str) -> int | None:
    """NCCL's number of a GPU architecture; None if NCCL has no constants for it."""
    known = GENERATION.items()
    return next((number for name, number in known if architecture.startswith(name)), None)


def merged_share(places: Number, copies: Number, most: Number = np.inf) -> Number:
    """What is left to send when copies of an element for the same place are sent once.

    The expected number of different places (ranks, or scale-up domains) among `copies` random ones,
    where a router that spreads a token over at most `most` of them has no others to choose from.
    Source: DeepEP's and HybridEP's dispatch, which forward inside the node.
    """
    open_to = np.minimum(places, most)
    return np.minimum(expected_places(open_to, copies) / copies, 1.0)


def nic_reached(cluster: Cluster, fit: NetworkFit) -> float:
    """Share of the NICs' line rate that is reached; measured on the machine beats the rest.

    Where GPUs share a NIC, some of them are far from it and get less.
    """
    nics = cluster.node.nics
    usual = fit.nic if nics is None or nics.transport == "rdma" else fit.tcp
    reached = nics.reached if nics and nics.reached else usual
    shared = any(len(gpus) > 1 for gpus in cluster.nic_groups)
    return reached * (fit.shared_nic if shared else 1.0)


def rings_only(found: Choices, path: Path) -> Choices:
    """`found` without trees and NVLS for groups over several nodes of a rack.

    NCCL 2.26 on 72 to 1,440 GPUs of GB200 took as long as its rings.
    """
    several = path.nodes > 1
    return {
        name: (start_us, np.where(several, 0.0, rate) if _is_no_ring(name) else rate)
        for name, (start_us, rate) in found.items()
    }


def _is_no_ring(way: str) -> bool:
    """True for all of NCCL's own algorithms but rings."""
    return is_ours(way) and not way.startswith("Ring")


def steps_us(choices: Choices) -> Number:
    """Latency of a ring with LL128, or of what packages add if that has less."""
    found: Number = choices["Ring/LL128"][0]
    for name, (latency_us, rate) in choices.items():
        if not is_ours(name):
            found = np.minimum(found, np.where(np.asarray(rate) > 0, latency_us, np.inf))
    return found


def channels_of(raw: Number, speeds: list[float]) -> tuple[Number, Number]:
    """Number and speed of channels that NCCL packs into `raw` bytes per second."""
    speed = at_most(raw, speeds)
    count = np.maximum(1.0, np.floor(raw / np.maximum(speed, 1.0)))
    doubled = speed >= 25e9
    return np.where(doubled, 2 * count, count), np.where(doubled, speed / 2, speed)


def at_most(rate: Number, speeds: list[float]) -> Number:
    """The largest of NCCL's speeds (GB/s) that is not above `rate`; `rate` if all are."""
    found: Number = rate
    for speed in sorted(speeds):
        found = np.where(rate >= speed * 1e9, speed * 1e9, found)
    return found


def gloo_seconds(kind: CollectiveKind, size: Number, path: Path, fit: NetworkFit, latency: Number) -> Number:
    """A ring of CPUs: two passes for all-reduce, one for the others."""
    ranks = path.ranks
    passes = 2.0 if kind == "all-reduce" else 1.0
    nic = path.nic_bytes_per_s_per_gpu * path.ranks_in_domain * fit.tcp
    wire = np.where(path.domains > 1, np.maximum(nic, 1.0), np.inf)
    rate = np.minimum(fit.gloo_bytes_per_s, wire)
    hop_s = _SOCKET_HOP_S * np.where(path.domains > 1, latency, 1.0)
    return passes * (ranks - 1) * (size / ranks / rate + hop_s)
