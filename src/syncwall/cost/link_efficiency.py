"""What collectives reach of NCCL's own model, inside a scale-up domain and over the network.

Holds `CollectiveTime`, the time of one kind of collective as a function of its size, `inside` and
`across`, which make them, and `TransportFit` with `transport`, what networks reach. Formulas and
sources are in docs/explanation/communication.md; the numbers are fitted by
bench/fit/collectives.py.
"""

from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Final

import numpy as np

from syncwall.catalogue import BUILT_IN
from syncwall.cost.calibration import KindFit
from syncwall.cost.nccl import Choices, NcclGroup, constants, is_ours
from syncwall.cost.path import FREE, Crossing
from syncwall.describe.cluster import Nics
from syncwall.documents import read_document
from syncwall.work.number import Number, anywhere
from syncwall.work.operations import CollectiveKind

_STAGED_HOP_S: Final = 2e-6
"""More on each hop without GPUDirect RDMA: PCIe is crossed once more on both sides, a microsecond
each (pcie-bench, Neugebauer 2018: 0.5 to 1 us for a small read by an adapter)."""
_DEEPEST: Final = 8
"""Ranks from which on more of them add no latency of their own: a switch sums for all."""
_PASSES: Final = {"all-reduce": 2.0}
_RAMPS: Final = {"all-reduce": 4.0}
"""Ramp of an all-reduce over that of an all-gather, as measured on a3-mega, which has both."""


@dataclass(frozen=True, slots=True)
class TransportFit:
    """What one kind of network reaches when a collective runs alone."""

    rate: float
    """Of the NICs' line rate."""
    hop_s: float
    """Added to NCCL's latency for every doubling of domains and every pass."""
    ramp_s: float
    """Longest time that filling pipelines takes, for every doubling of domains."""
    ramp_bytes: float
    """Size at which half of it is spent."""
    tree: float = 1.0
    """Rate of trees over more than two domains, over NCCL's own prediction."""


@dataclass(frozen=True, slots=True)
class CollectiveTime:
    """Time of a collective: the fastest choice, and the ramps on top."""

    choices: Choices
    """Latency (s) and seconds per byte of each way that NCCL considers."""
    near_s: Number = 0.0
    """Longest ramp inside a domain; 0 for groups over several."""
    near_bytes2: Number = 1.0
    """Square of the size at which half of it is spent."""
    far_s: Number = 0.0
    """Longest ramp over the network; 0 for groups inside a domain."""
    far_root: float = 1.0
    """Square root of the size at which half of it is spent."""

    def seconds(self, size: Number, factors: Choices) -> Number:
        """Time for `size` bytes, with NCCL's `factors` that depend on the size."""
        best: Number | None = None
        with np.errstate(invalid="ignore"):  # no bytes over a way that is not allowed
            for name, (latency_s, s_per_byte) in self.choices.items():
                if name in factors:
                    slower, faster = factors[name]
                    taken = latency_s * slower + size / faster * s_per_byte
                else:
                    taken = latency_s + size * s_per_byte
                best = taken if best is None else np.fmin(best, taken)
        assert best is not None, "there is always a choice"
        return best + self.ramp_s(size)

    def ramp_s(self, size: Number) -> Number:
        """Time lost while pipelines fill; it grows with the size up to a limit."""
        found: Number = 0.0
        if anywhere(self.near_s):
            square = size * size
            found = self.near_s * square / (square + self.near_bytes2)
        if anywhere(self.far_s):
            root = np.sqrt(size)
            found = found + self.far_s * root / (root + self.far_root)
        return found

    def through(self, crossing: Crossing) -> "CollectiveTime":
        """The same over a fabric whose tiers are narrower than the NICs below them."""
        if crossing is FREE:
            return self
        slower: Choices = {
            name: (start_s, s * (crossing.tree if "Tree" in name else crossing.ring))
            for name, (start_s, s) in self.choices.items()
        }
        return replace(self, choices=slower)

    def delayed(self, factor: Number) -> "CollectiveTime":
        """The same with `factor` times every latency, and the ramp over the network."""
        slower = {name: (start_s * factor, s) for name, (start_s, s) in self.choices.items()}
        return CollectiveTime(slower, self.near_s, self.near_bytes2, self.far_s * factor, self.far_root)


PCIE_CROWDING: Final = 0.5
"""Where GPUs meet in hosts and PCIe switches, a group's rate goes as (2 / ranks) to this power.
Eight RTX 5090 reach 0.8 of the rate of four (NCCL issue 1639: 28 and 35 GB/s), which would be 0.3;
one server of eight L40S without peer access fell from 20 GB/s on two to 1.3 on all of them
(aiconfigurator), which would be 2. Assumed between; servers differ tenfold: measure yours."""


def inside(
    kind: CollectiveKind, choices: Choices, ranks: Number, fit: KindFit, *, crowding: float = 0.0
) -> CollectiveTime:
    """Time of groups in one scale-up domain, from NCCL's latencies (us) and rates."""
    steps = _PASSES.get(kind, 1.0) * np.maximum(ranks - 1.0, 1.0)
    deep = np.minimum(ranks, _DEEPEST)
    copied = (1.0 + fit.own_part / steps) * (ranks / 2.0) ** crowding / fit.rate
    start_s = fit.per_rank_s * deep
    with np.errstate(divide="ignore"):  # a rate of 0 means: not allowed
        found = {
            name: (latency_us * (1e-6 * fit.latency) + start_s, copied / rate)
            for name, (latency_us, rate) in choices.items()
        }
    filled = 1.0 if kind == "all-to-all" else _PASSES.get(kind, 1.0) * (deep - 1.0)
    return CollectiveTime(found, fit.ramp_s * filled, (ranks * fit.ramp_bytes) ** 2)


def across(
    kind: CollectiveKind,
    choices: Choices,
    group: NcclGroup,
    fit: TransportFit,
    reached: Number,
    ring_rank_s: float = 0.0,
) -> CollectiveTime:
    """Time of groups over several domains.

    `reached` is the share of the NICs' line rate, `ring_rank_s` what each rank adds to all-gather
    and reduce-scatter, for which NCCL has no trees.
    """
    levels = np.log2(group.nodes)
    start_s = _PASSES.get(kind, 1.0) * fit.hop_s * levels
    ring_s = ring_rank_s * (group.ranks - 1.0) if kind != "all-reduce" else 0.0
    slower = constants()["net_fraction"] / reached
    trees = slower / np.where(group.nodes > 2, fit.tree, 1.0)
    with np.errstate(divide="ignore"):
        found: Choices = {
            name: (
                latency_us * 1e-6 + start_s + (ring_s if is_ours(name) else 0.0),
                (trees if name.startswith("Tree") else slower) / rate,
            )
            for name, (latency_us, rate) in choices.items()
        }
    longest_s = fit.ramp_s * _RAMPS.get(kind, 1.0) * levels
    return CollectiveTime(found, far_s=longest_s, far_root=float(np.sqrt(fit.ramp_bytes)))


def either(far: Number, one: CollectiveTime, several: CollectiveTime) -> CollectiveTime:
    """Time of groups some of which stand in one domain and some in several (`far`)."""
    choices: Choices = {
        name: (
            np.where(far, latency_s, one.choices[name][0]),
            np.where(far, s_per_byte, one.choices[name][1]),
        )
        for name, (latency_s, s_per_byte) in several.choices.items()
    }
    near_s, far_s = np.where(far, 0.0, one.near_s), np.where(far, several.far_s, 0.0)
    return CollectiveTime(choices, near_s, one.near_bytes2, far_s, several.far_root)


def transport(nics: Nics | None) -> TransportFit:
    """What the network of `nics` reaches, by the name of its link.

    If none is given, InfiniBand for RDMA and Ethernet for TCP.
    """
    usual = "ethernet" if nics is not None and nics.transport == "tcp" else "infiniband"
    found = _transport((nics.link if nics else None) or usual)
    if nics is None or nics.gpu_direct or nics.transport != "rdma":
        return found
    return replace(found, hop_s=found.hop_s + _STAGED_HOP_S)


@lru_cache(maxsize=64)
def _transport(link: str) -> TransportFit:
    table = read_document(BUILT_IN / "tuning" / "transports.yaml").value
    blocks = {name: block for name, block in table.items() if isinstance(block, dict)}
    found = next(
        (block for block in blocks.values() if link.startswith(tuple(block["links"]))),
        blocks["infiniband"],
    )
    hop_s, ramp_s = found["hop_us"] * 1e-6, found["ramp_us"] * 1e-6
    return TransportFit(found["rate"], hop_s, ramp_s, found["ramp_mb"] * 1e6, found.get("tree", 1.0))
