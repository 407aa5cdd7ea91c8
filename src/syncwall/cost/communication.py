"""Seconds of communication on a machine.

Holds `Network`, the interface that prices collectives and transfers, `NcclNetwork`, its closed
form: NCCL's own model on the paths of the layout, corrected by what networks really reach, and
`nic_reached`.
"""

from typing import Any, Protocol

import numpy as np

from syncwall.cost.calibration import NetworkFit
from syncwall.cost.nccl import GENERATIONS, Choices, Graph, Group, Tuner, constants
from syncwall.cost.path import Path, paths
from syncwall.describe import Cluster, Layout
from syncwall.work.operations import Collective, Transfer

_GENERATION = {"volta": 0, "ampere": 1, "ada": 1, "hopper": 2, "blackwell": 3}
_POINT_TO_POINT_S = 15e-6
"""Start of a message between two GPUs on different nodes, both sides ready."""
_SOCKET_HOP_S = 50e-6
"""One hop of a ring over TCP between processes."""


class Network(Protocol):
    """Anything that can price communication: a formula, a simulation, a measurement."""

    def collective_seconds(self, collective: Collective) -> Any:
        """Time of all calls of `collective`, every group of its axis working at once."""

    def transfer_seconds(self, transfer: Transfer) -> Any:
        """Time of a message between neighbouring pipeline stages."""


class NcclNetwork:
    """NCCL on the paths of one layout (or of arrays of layouts)."""

    def __init__(self, layout: Layout, cluster: Cluster, fit: NetworkFit) -> None:
        self._cluster = cluster
        self._fit = fit
        self._paths = paths(layout, cluster)
        number = next(
            (n for name, n in _GENERATION.items() if cluster.device.architecture.startswith(name)),
            2,
        )
        self._number = number
        nics = cluster.node.nics
        self._transport = nics.transport if nics else "rdma"
        self._reached_of_nics = nic_reached(cluster, fit)
        self._tuner = Tuner(GENERATIONS[number])
        self._graphs: dict[str, Graph] = {}
        self._candidates: dict[tuple[str, str], Choices] = {}
        self._known: dict[tuple[str, str, int, int], tuple[Collective, Any]] = {}

    def collective_seconds(self, collective: Collective) -> Any:
        """NCCL's fastest choice; zero for one rank or no bytes."""
        key = (collective.kind, collective.axis, id(collective.bytes), id(collective.calls))
        if key not in self._known:  # keeps the operands alive, so that no id is used again
            self._known[key] = (collective, self._seconds(collective))
        seconds = self._known[key][1]
        return seconds if _is_one(collective.share) else seconds * collective.share

    def _seconds(self, collective: Collective) -> Any:
        path = self._paths[collective.axis]
        several = not _is_one(collective.calls)
        size = collective.bytes / collective.calls if several else collective.bytes
        if not np.any((size > 0) & (path.ranks > 1)):
            return 0.0
        if self._transport == "gloo":
            once = self._gloo(collective.kind, size, path)
        elif collective.kind == "all-to-all":
            once = self._all_to_all(size, path)
        else:
            group = Group(path.ranks, path.domains)
            once = self._corrected(collective.kind, size, group, collective.axis)
        real = (size > 0) & (path.ranks > 1)
        return np.where(real, once * collective.calls if several else once, 0.0)

    def transfer_seconds(self, transfer: Transfer) -> Any:
        """A message to the next stage, over NVLink or the NIC."""
        path = self._paths["pp"]
        near = self._scale_up(2.0)
        far = path.nic_bytes_per_s_per_gpu * self._reached_of_nics
        rate = np.where(path.domains > 1, np.maximum(far, 1.0), near)
        real = transfer.bytes > 0
        return np.where(real, transfer.bytes / rate + _POINT_TO_POINT_S, 0.0)

    def graph(self, path: Path) -> Graph:
        """Channels and speeds as NCCL's search would find them for a group."""
        within = path.ranks_in_domain
        nvlink, raw = self._scale_up_as_nccl_counts(within)
        speeds = constants()["intra_speeds"][self._number]
        channels, speed = _channels(raw, speeds)
        several = path.domains > 1
        nic = path.nic_bytes_per_s_per_gpu * constants()["net_fraction"] * within
        alone = within < 2
        total = np.where(several, np.where(alone, nic, np.minimum(nic, channels * speed)),
                         channels * speed)  # fmt: skip
        count = np.where(several, np.maximum(1.0, np.round(total / 45e9)), channels)
        each = total / count
        heads = within if self._has_nvls else 0.0 * within
        share = _at_most(raw / (within + 1.0), speeds)
        sharp = self._cluster.fabric.in_network_reduction
        return Graph(count, each, each, count, each, each, heads, share, nvlink=nvlink, sharp=sharp)

    @property
    def _has_nvls(self) -> bool:
        domain = self._cluster.scale_up
        return bool(domain and domain.in_switch_reduction)

    def _corrected(self, kind: Any, size: Any, group: Group, axis: str) -> Any:
        """NCCL's time with its latency and rates scaled to what is reached."""
        graph, candidates = self._candidates_of(kind, axis, group)
        factors = self._tuner.by_size(kind, size, group, graph, smooth=True)
        best: Any = None
        with np.errstate(invalid="ignore"):  # no bytes over a way that is not allowed
            for name, (latency_s, seconds_per_byte) in candidates.items():
                slower, faster = factors.get(name, (1.0, 1.0))
                taken = latency_s * slower + size / faster * seconds_per_byte
                best = taken if best is None else np.fmin(best, taken)
        return best

    def _candidates_of(self, kind: Any, axis: str, group: Group) -> tuple[Graph, Choices]:
        """Graph of an axis, and latency and seconds per byte of each way that NCCL considers."""
        if axis not in self._graphs:
            self._graphs[axis] = self.graph(self._paths[axis])
        graph = self._graphs[axis]
        if (kind, axis) not in self._candidates:
            reached = self._reached(group)
            with np.errstate(divide="ignore"):  # a rate of 0 means: not allowed
                self._candidates[kind, axis] = {
                    name: (latency_us * (1e-6 * self._fit.latency), 1.0 / (rate * reached))
                    for name, (latency_us, rate) in self._tuner.candidates(
                        kind, group, graph
                    ).items()
                }
        return graph, self._candidates[kind, axis]

    def _reached(self, group: Group) -> Any:
        """Real rates over those that NCCL counts with."""
        fit = self._fit
        lost = fit.nic_per_doubling * np.log2(group.nodes)
        across = np.maximum(0.3, self._reached_of_nics - lost) / constants()["net_fraction"]
        return np.where(group.nodes > 1, across, fit.scale_up)

    def _all_to_all(self, size: Any, path: Path) -> Any:
        """Every rank sends an equal part to every other: the longer of inside and outside."""
        ranks, within = path.ranks, path.ranks_in_domain
        inside = size * (within - 1) / ranks / self._scale_up(within)
        nic = path.nic_bytes_per_s_per_gpu * self._reached_of_nics
        outside = size * (ranks - within) / ranks / np.maximum(nic, 1.0)
        latency = (8.0 + 0.3 * (ranks - within) + 10.0 * (path.domains > 1)) * 1e-6
        return np.maximum(inside, outside) + latency * self._fit.latency

    def _gloo(self, kind: str, size: Any, path: Path) -> Any:
        """A ring of CPUs: two passes for all-reduce, one for the others."""
        ranks = path.ranks
        passes = 2.0 if kind == "all-reduce" else 1.0
        nic = path.nic_bytes_per_s_per_gpu * path.ranks_in_domain * self._fit.tcp
        wire = np.where(path.domains > 1, np.maximum(nic, 1.0), np.inf)
        rate = np.minimum(self._fit.gloo_bytes_per_s, wire)
        return passes * (ranks - 1) * (size / ranks / rate + _SOCKET_HOP_S)

    def _scale_up(self, ranks: Any) -> Any:
        """Reached one-way rate of a GPU to others of its domain."""
        _, raw = self._scale_up_as_nccl_counts(ranks)
        return np.maximum(raw * self._fit.scale_up, 1.0)

    def _scale_up_as_nccl_counts(self, ranks: Any) -> tuple[bool, Any]:
        """True for NVLink and the like, and the one-way rate of a GPU as NCCL counts it."""
        domain = self._cluster.scale_up
        if domain is None:
            return False, 0.0 * ranks
        rate = domain.rate_among(ranks)
        if domain.topology == "pcie":
            return False, rate * constants()["pci_fraction"] + 0.0 * ranks
        nominal = 50.0 if self._number == 3 else 25.0
        return True, rate * constants()["nvlink_gb_per_s"][self._number] / nominal + 0.0 * ranks


def nic_reached(cluster: Cluster, fit: NetworkFit) -> float:
    """Share of the NICs' line rate that is reached; measured on the machine beats the rest.

    Where GPUs share a NIC, some of them are far from it and get less.
    """
    nics = cluster.node.nics
    usual = fit.nic if nics is None or nics.transport == "rdma" else fit.tcp
    reached = nics.reached if nics and nics.reached else usual
    shared = any(len(gpus) > 1 for gpus in cluster.nic_groups)
    return reached * (fit.shared_nic if shared else 1.0)


def _channels(raw: Any, speeds: list[float]) -> tuple[Any, Any]:
    """Number and speed of channels that NCCL packs into `raw` bytes per second."""
    speed = _at_most(raw, speeds)
    count = np.maximum(1.0, np.floor(raw / np.maximum(speed, 1.0)))
    doubled = speed >= 25e9
    return np.where(doubled, 2 * count, count), np.where(doubled, speed / 2, speed)


def _at_most(rate: Any, speeds: list[float]) -> Any:
    """The largest of NCCL's speeds (GB/s) that is not above `rate`; `rate` if all are."""
    found: Any = rate
    for speed in sorted(speeds):
        found = np.where(rate >= speed * 1e9, speed * 1e9, found)
    return found


def _is_one(factor: Any) -> bool:
    """True for the plain number 1, with which arrays need not be multiplied."""
    return np.ndim(factor) == 0 and factor == 1
