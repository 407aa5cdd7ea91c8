"""What an algorithm for collectives is, and what its cost depends on.

Holds `Algorithm` and `Asked` with `NcclGroup` (ranks and nodes) and `ChannelGraph` (channels and
speeds that NCCL found). The algorithms themselves are in `cost.nccl`.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from syncwall.work.number import Number
from syncwall.work.operations import CollectiveKind


@dataclass(frozen=True, slots=True)
class NcclGroup:
    """The ranks of a collective."""

    ranks: Number
    nodes: Number
    """Scale-up domains that they stand in; ranks in a domain are `ranks / nodes`."""


@dataclass(frozen=True, slots=True)
class ChannelGraph:
    """What NCCL's topology search found; rates in bytes per second, per channel."""

    channels: Number
    intra: Number
    inter: Number
    tree_channels: Number
    tree_intra: Number
    tree_inter: Number
    nvls_channels: Number = 0
    """0 without NVLink SHARP."""
    nvls_intra: Number = 0.0
    nvlink: bool = True
    tree_penalty: float = 1.0
    """0.85 where a plain tree was needed."""
    ll128: bool = True
    sharp: bool = False
    """True if InfiniBand switches can reduce (CollNet)."""
    link: Number = 0.0
    """One way of one GPU to others of its scale-up domain, all links together."""
    nic: Number = 0.0
    """One way of one GPU's share of the NICs; both as NCCL counts them, a little below the line."""


@dataclass(frozen=True, slots=True)
class Asked:
    """A collective of which the cost is asked."""

    kind: CollectiveKind
    group: NcclGroup
    graph: ChannelGraph
    protocol: int
    """Index into the algorithm's protocols."""


@dataclass(frozen=True, slots=True)
class Algorithm:
    """One way to do a collective."""

    kinds: tuple[CollectiveKind, ...]
    """What it can do."""
    cost: Callable[[Any, Asked], tuple[Number, Number]]
    """Latency (us), and bytes of the collective per second (0 where it cannot be used), from
    NCCL's `Tuner` for the device and what is asked. Arrays of groups broadcast."""
    protocols: tuple[str, ...] = ("Simple",)
    possible: Callable[[ChannelGraph], bool] = lambda graph: True
    """Whether a machine has what it needs."""
    formula: str = ""
    """For people: what `cost` computes, and from where."""
