"""NCCL's own cost model: seconds of a collective for each algorithm and protocol, and its
choice.

The algorithms themselves are in `cost.nccl`.

Source: NVIDIA/nccl, src/graph/tuning.cc of 2.28 to 2.30; constants in
`catalogue/tuning/nccl-2.28.yaml`. Everything broadcasts over arrays of sizes and groups.
"""

from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, Final, get_args

import numpy as np
from numpy.typing import NDArray

from syncwall import plugins
from syncwall.catalogue import BUILT_IN
from syncwall.documents import read_document
from syncwall.work.number import Number, anywhere
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
class CollectiveRequest:
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
    cost: Callable[[Any, CollectiveRequest], tuple[Number, Number]]
    """Latency (us), and bytes of the collective per second (0 where it cannot be used), from
    NCCL's `Tuner` for the device and what is asked. Arrays of groups broadcast."""
    protocols: tuple[str, ...] = ("Simple",)
    possible: Callable[[ChannelGraph], bool] = lambda graph: True
    """Whether a machine has what it needs."""
    formula: str = ""
    """For people: what `cost` computes, and from where."""


GENERATIONS: Final = ("volta", "ampere", "hopper", "blackwell")
PROTOCOLS: Final = ("LL", "LL128", "Simple")
_NEVER: Final = np.inf
Choices = dict[str, tuple[Number, Number]]
"""Latency (us) and algorithm bandwidth (bytes per second) by algorithm and protocol."""


class Tuner:
    """The model for one generation of GPUs and kind of CPU."""

    def __init__(self, generation: str, cpu: str = "intel", version: str = "2.28") -> None:
        self._c = constants()
        self._version = version
        self._g = GENERATIONS.index(generation)
        self._cpu = cpu

    def seconds(self, kind: CollectiveKind, size: Number, group: NcclGroup, graph: ChannelGraph) -> Number:
        """The fastest of what NCCL would consider, in seconds."""
        times = self.choices(kind, size, group, graph)
        best: Number | None = None
        for latency_us, rate in times.values():
            taken = _time(latency_us, rate, size)
            best = taken if best is None else np.minimum(best, taken)
        assert best is not None, "there is always a ring"
        return best

    def chosen(self, kind: CollectiveKind, size: float, group: NcclGroup, graph: ChannelGraph) -> str:
        """Name of the choice, such as "Ring/Simple"."""
        times = self.choices(kind, size, group, graph)
        return min(times, key=lambda name: float(_time(*times[name], size)))

    def choices(self, kind: CollectiveKind, size: Number, group: NcclGroup, graph: ChannelGraph) -> Choices:
        """Latency (us) and algorithm bandwidth (bytes per second) of each candidate."""
        found = self.candidates(kind, group, graph)
        for name, (slower, faster) in self.by_size(kind, size, group, graph).items():
            if name in found:
                found[name] = (found[name][0] * slower, found[name][1] * faster)
        return found

    def candidates(self, kind: CollectiveKind, group: NcclGroup, graph: ChannelGraph) -> Choices:
        """The same before what depends on the size."""
        found: Choices = {}
        for name, one in algorithms().items():
            if kind in one.kinds and one.possible(graph):
                for number, protocol in enumerate(one.protocols):
                    if protocol != "LL128" or graph.ll128:
                        asked = CollectiveRequest(kind, group, graph, number)
                        found[f"{name}/{protocol}"] = one.cost(self, asked)
        return found

    def by_size(
        self,
        kind: CollectiveKind,
        size: Number,
        group: NcclGroup,
        graph: ChannelGraph,
        *,
        smooth: bool = False,
    ) -> Choices:
        """Factors on latency and bandwidth that depend on the size: only all-reduce has them.

        A tree dips at medium sizes; a ring over nodes has a plateau of latency. `smooth` goes
        straight between the dip's steps, so that fewer bytes never take longer.
        """
        if kind != "all-reduce":
            return {}
        plateau = (group.nodes > 1) & (size >= 64 * graph.channels * group.ranks)
        slower = 1.0 + (self._c["ring_plateau"][self._g] - 1.0) * plateau
        dips = {
            f"Tree/{protocol}": (1.0, self._correction(size, number, smooth))
            for number, protocol in enumerate(PROTOCOLS)
        }
        return {"Ring/Simple": (slower, 1.0), **dips}

    def ring(self, asked: CollectiveRequest) -> tuple[Number, Number]:
        """Every rank to the next."""
        graph, protocol = asked.graph, asked.protocol
        ranks, nodes = asked.group.ranks, asked.group.nodes
        bus = graph.channels * _by_reach(nodes, graph.intra, graph.inter)
        if protocol == 0:
            bus = np.minimum(self._ll_max(nodes), 0.5 * bus)
        elif protocol == 1:
            most = graph.channels * self._c["ring_ll128_per_channel"][self._g] * 1e9
            bus = np.minimum(0.92 * bus, most)
        return self._ring_us(asked), bus * ranks / _steps(asked.kind, ranks)

    def _ring_us(self, asked: CollectiveRequest) -> Number:
        kind, graph, protocol = asked.kind, asked.graph, asked.protocol
        ranks, nodes = asked.group.ranks, asked.group.nodes
        base: float = self._c["base_us"]["ring"][protocol]
        hop: Number = self._hop(graph, "ring", protocol)
        net = np.where(ranks == nodes, self._net("tree", protocol), self._net("ring", protocol))
        if kind == "broadcast":
            return base + np.where(nodes > 1, self._net("ring", protocol), hop)
        overhead = self._c["net_overhead_us"][self._cpu] * (3.0 if protocol == 2 else 1.0)
        hop = np.where(nodes > 1, np.maximum(hop, overhead), hop)
        across = (2.0 if kind == "all-reduce" else 1.0) * (nodes - 1)
        return base + (_steps(kind, ranks) - across) * hop + across * net

    def tree(self, asked: CollectiveRequest) -> tuple[Number, Number]:
        """Two binary trees over nodes, a chain in each."""
        graph, protocol, nodes = asked.graph, asked.protocol, asked.group.nodes
        within = asked.group.ranks / nodes
        channels = graph.tree_channels
        raw = channels * _by_reach(nodes, graph.tree_intra, graph.tree_inter)
        bus = np.minimum(0.92 * raw, channels * self._by_nodes("tree_per_channel", nodes))
        if protocol == 0:
            bus = np.minimum(bus / 3.8, self._ll_max(nodes))
        elif protocol == 1:
            most = channels * self._by_nodes("tree_ll128_per_channel", nodes)
            bus = np.minimum(bus * np.where(nodes == 1, 7 / 9, 120 / 128), most)
        bus = bus * graph.tree_penalty
        latency = self._c["base_us"]["tree"][protocol] + 2.0 * (
            (within - 1) * self._hop(graph, "tree", protocol)
            + np.floor(np.log2(nodes)) * self._net("tree", protocol)
        )
        return latency, 0.5 * bus

    def _correction(self, size: Number, protocol: int, smooth: bool) -> Number:
        table: NDArray[np.float64] = np.asarray(self._c["tree_correction"][protocol])
        position = np.log2(np.maximum(size, 1.0) / 64.0)
        if smooth:
            between: Number = np.interp(position, np.arange(len(table) + 1), [*table, 1.0])
            return between
        index = np.floor(position)
        factor = table[np.clip(index, 0, len(table) - 1).astype(int)]
        return np.where((index < 0) | (index >= len(table)), 1.0, factor)

    def nvls(self, asked: CollectiveRequest) -> tuple[Number, Number]:
        """Sums formed in the switches of NVLink."""
        kind, group, graph = asked.kind, asked.group, asked.graph
        within = group.ranks / group.nodes
        intra = self._nvls_intra(graph)
        intra = intra * (2.0 if kind == "all-reduce" else (within - 1) / within)
        bus = graph.nvls_channels * intra * np.where(group.nodes == 1, 1.0, 0.0)
        latency = self._hop(graph, "nvls", None)
        steps = _steps(kind, group.ranks) if kind == "all-reduce" else group.ranks
        return latency, bus * group.ranks / steps

    def nvls_tree(self, asked: CollectiveRequest) -> tuple[Number, Number]:
        """The same, and a tree over nodes."""
        graph, ranks, nodes = asked.graph, asked.group.ranks, asked.group.nodes
        inter = graph.tree_inter * graph.tree_channels / np.maximum(graph.nvls_channels, 1)
        inter = inter * np.where(nodes <= 2, 2.0, 1.0)
        each = np.minimum(2.0 * self._nvls_intra(graph), inter)
        each = np.minimum(each, self._by_nodes("nvls_tree_per_channel", nodes))
        bus = graph.nvls_channels * each * (nodes > 1)
        latency = self._hop(graph, "nvls_tree", None) + 2.0 * np.floor(np.log2(nodes)) * self._net(
            "nvls_tree", None
        )
        return latency, bus * ranks / _steps("all-reduce", ranks)

    def _nvls_intra(self, graph: ChannelGraph) -> Number:
        channels = np.maximum(graph.nvls_channels, 1)
        efficiency: float = self._c["nvls_efficiency"][self._version][self._g]
        return graph.nvls_intra * efficiency * (channels - 1) / channels

    def pat(self, asked: CollectiveRequest) -> tuple[Number, Number]:
        """Parallel aggregated trees; only with one GPU a node."""
        group, graph = asked.group, asked.graph
        alone = (group.ranks == group.nodes) & (group.nodes > 1)
        bus = 0.75 * graph.channels * _by_reach(group.nodes, graph.intra, graph.inter) * alone
        latency = (
            self._c["base_us"]["pat"]
            + np.floor(np.log2(group.nodes)) * self._net("pat", None) / 3.5
            + 2.8 * group.ranks
        )
        return latency, bus * group.ranks / (group.ranks - 1 + (group.ranks == 1))

    def coll_net_chain(self, asked: CollectiveRequest) -> tuple[Number, Number]:
        """Sums formed in the switches of the network, and by a chain in nodes."""
        hop, net = self._c["coll_net_us"]["chain"]
        within = asked.group.ranks / asked.group.nodes
        return 2.0 * (within - 1) * hop + net, 0.5 * _over_switches(asked)

    def coll_net_direct(self, asked: CollectiveRequest) -> tuple[Number, Number]:
        """The same, and by exchanges of all in nodes."""
        hop, net = self._c["coll_net_us"]["direct"]
        within = asked.group.ranks / asked.group.nodes
        spread = np.maximum(within / asked.graph.channels, 1.0)
        bus = _over_switches(asked) / (spread - (spread - 1.0) / 2.0)
        bus = bus * (0.85 if self._g >= 2 else 1.0)
        latency = 2.0 * (np.minimum(1.0, within - 1) * hop + (within - 1) * 0.4) + net
        return latency, 0.5 * bus

    def _ll_max(self, nodes: Number) -> Number:
        one = self._c["ll_max_one_node"][self._g]
        two, more = self._c["ll_max_more_nodes"][self._cpu]
        return _by_count(nodes, one, two, more)

    def _by_nodes(self, name: str, nodes: Number) -> Number:
        return _by_count(nodes, *self._c[name][self._g])

    def _hop(self, graph: ChannelGraph, algorithm: str, protocol: int | None) -> float:
        table = self._c["nvlink_us" if graph.nvlink else "pci_us"][algorithm]
        hop_us: float = table if protocol is None else table[protocol]
        return hop_us

    def _net(self, algorithm: str, protocol: int | None) -> float:
        table = self._c["net_us"][algorithm]
        net_us: float = table if protocol is None else table[protocol]
        return net_us


_SUMS: Final[tuple[CollectiveKind, ...]] = ("all-reduce",)
_SHARED: Final[tuple[CollectiveKind, ...]] = ("all-gather", "reduce-scatter")
ALGORITHMS: Final = {
    "Ring": Algorithm(get_args(CollectiveKind), Tuner.ring, PROTOCOLS),
    "Tree": Algorithm(_SUMS, Tuner.tree, PROTOCOLS),
    "NVLS": Algorithm((*_SUMS, *_SHARED), Tuner.nvls, possible=lambda g: anywhere(g.nvls_channels)),
    "NVLSTree": Algorithm(_SUMS, Tuner.nvls_tree, possible=lambda g: anywhere(g.nvls_channels)),
    "CollNetDirect": Algorithm(_SUMS, Tuner.coll_net_direct, possible=lambda g: g.sharp),
    "CollNetChain": Algorithm(_SUMS, Tuner.coll_net_chain, possible=lambda g: g.sharp),
    "PAT": Algorithm(_SHARED, Tuner.pat),
}
"""NCCL's own, by the names in its logs."""


def algorithms() -> dict[str, Algorithm]:
    """Every algorithm, with those that packages add."""
    return plugins.table("collectives", ALGORITHMS, Algorithm)


def is_ours(way: str) -> bool:
    """True for algorithms of NCCL itself, False for those that packages add."""
    return way.split("/", maxsplit=1)[0] in ALGORITHMS


def _over_switches(asked: CollectiveRequest) -> Number:
    """Rate to switches that form sums; 0 in one node, which needs none."""
    return asked.graph.channels * asked.graph.inter * (asked.group.nodes > 1)


def bus_factor(kind: CollectiveKind, ranks: Number) -> Number:
    """Bytes that pass each link for one byte of a collective; busbw is this over the time.

    As in nccl-tests: 2 (n - 1) / n for all-reduce, 1 for broadcast and reduce, else (n - 1) / n.
    """
    if kind in ("broadcast", "reduce"):
        return 1.0
    return (2.0 if kind == "all-reduce" else 1.0) * (ranks - 1) / ranks


def _steps(kind: CollectiveKind, ranks: Number) -> Number:
    if kind == "broadcast":
        return 1.0 * ranks
    return np.maximum((2.0 if kind == "all-reduce" else 1.0) * (ranks - 1), 1.0)


def _by_count(nodes: Number, one: float, two: float, more: float) -> Number:
    """Bytes per second, from GB/s on one node, on two and on more."""
    return np.where(nodes == 1, one, np.where(nodes == 2, two, more)) * 1e9


def _by_reach(nodes: Number, intra: Number, inter: Number) -> Number:
    """The rate that NCCL counts with: that inside a node up to two nodes, else that between."""
    return intra if intra is inter else np.where(nodes <= 2, intra, inter)


def _time(latency_us: Number, rate: Number, size: Number) -> Number:
    with np.errstate(divide="ignore", invalid="ignore"):
        moving = np.where(np.asarray(rate) > 0, size / np.asarray(rate, dtype=float), _NEVER)
    return latency_us * 1e-6 + moving


@lru_cache(maxsize=1)
def constants() -> dict[str, Any]:
    """The constants of NCCL's tuner."""
    value: dict[str, Any] = read_document(BUILT_IN / "tuning" / "nccl-2.28.yaml").value
    return value
