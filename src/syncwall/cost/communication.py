"""Seconds of communication on a machine.

Holds `Network`, the interface that prices collectives and transfers, `NcclNetwork`, its closed
form: NCCL's own model on the paths of the groups, corrected by what machines really reach,
`nic_reached` and `merged_share`.
"""

from typing import Protocol

import numpy as np

from syncwall.cost.calibration import NetworkFit
from syncwall.cost.nccl import GENERATIONS, Choices, Graph, Tuner, constants
from syncwall.cost.nccl import Group as Ranks
from syncwall.cost.path import Path, path
from syncwall.cost.reached import Terms, across, either, inside, transport
from syncwall.describe import Cluster
from syncwall.work.number import Number, least
from syncwall.work.operations import Collective, CollectiveKind, Group, Transfer

_GENERATION = {"volta": 0, "ampere": 1, "ada": 1, "hopper": 2, "blackwell": 3}
_NEAREST = _GENERATION["hopper"]
"""Whose constants an architecture takes that NCCL has none for; the answer says so."""
_CHANNEL_BYTES_PER_S = 45e9
"""Most that NCCL sends over one channel between nodes."""
_ALL_TO_ALL_US = 8.0
"""Start of an all-to-all in a domain; `latency` of the fit scales it."""
_PEER_S, _NETWORK_S = 0.3e-6, 10e-6
"""All-to-all over nodes: for each peer on another one, and at all; assumed."""
_POINT_TO_POINT_S = 15e-6
"""Start of a message between two GPUs on different nodes, both sides ready."""
_SOCKET_HOP_S = 50e-6
"""One hop of a ring over TCP between processes."""


class Network(Protocol):
    """Anything that can price communication: a formula, a simulation, a measurement."""

    def collective_seconds(self, collective: Collective) -> Number:
        """Time of all calls of `collective`, every group of its axis working at once."""

    def transfer_seconds(self, transfer: Transfer) -> Number:
        """Time of a message between neighbouring pipeline stages."""


class NcclNetwork:
    """NCCL on one machine.

    `alone` prices collectives as benchmarks time them: nothing else uses the NICs. `latency` is a
    factor on what does not depend on the size, between scale-up domains.
    """

    def __init__(
        self, cluster: Cluster, fit: NetworkFit, *, alone: bool = False, latency: Number = 1.0
    ) -> None:
        self._cluster = cluster
        self._fit = fit
        self._latency = latency
        known = nccl_generation(cluster.device.architecture)
        number = self._number = _NEAREST if known is None else known
        nics = cluster.node.nics
        self._transport = nics.transport if nics else "rdma"
        self._wires = transport(nics)
        self._alone = alone and self._transport == "rdma"
        measured = nics.reached if nics else None
        self._reached_of_nics = (
            measured or self._wires.rate if self._alone else nic_reached(cluster, fit)
        )
        self._tuner = Tuner(GENERATIONS[number])
        self._paths: dict[Group, Path] = {}
        self._graphs: dict[Group, Graph] = {}
        self._terms: dict[tuple[str, Group], Terms] = {}
        self._known: dict[tuple[str, Group, int, int, int], tuple[Collective, Number]] = {}

    def collective_seconds(self, collective: Collective) -> Number:
        """NCCL's fastest choice; zero for one rank or no bytes."""
        if isinstance(collective.bytes, float) and not collective.bytes:
            return 0.0
        key = (collective.kind, collective.group, id(collective.bytes), id(collective.calls),
               id(collective.copies))  # fmt: skip
        if key not in self._known:  # keeps the operands alive, so that no id is used again
            self._known[key] = (collective, self._seconds(collective))
        seconds = self._known[key][1]
        return seconds if _is_one(collective.share) else seconds * collective.share

    def _seconds(self, collective: Collective) -> Number:
        path, kind = self.path(collective.group), collective.kind
        several = not _is_one(collective.calls)
        size = collective.bytes / collective.calls if several else collective.bytes
        if np.any(collective.copies > 1):
            size = size * merged_share(path.domains, collective.copies)
        real = (size > 0) & (path.ranks > 1)
        if not np.any(real):
            return 0.0
        if self._transport == "gloo":
            once = self._gloo(kind, size, path)
        else:
            graph, terms = self._terms_of(kind, collective.group)
            once = terms.seconds(size, self.factors(kind, size, path, graph))
            if several:  # one after the other keeps pipelines filled
                once = once - terms.ramp_s(size) * (1.0 - 1.0 / collective.calls)
        return np.where(real, once * collective.calls if several else once, 0.0)

    def transfer_seconds(self, transfer: Transfer) -> Number:
        """A message to the next stage, over NVLink or the NIC."""
        path = self.path(transfer.group)
        _, raw = self._scale_up_as_nccl_counts(2.0)
        near = np.maximum(raw * self._fit.all_to_all.rate, 1.0)
        far = path.nic_bytes_per_s_per_gpu * self._reached_of_nics
        rate = np.where(path.domains > 1, np.maximum(far, 1.0), near)
        real = transfer.bytes > 0
        start_s = _POINT_TO_POINT_S * np.where(path.domains > 1, self._latency, 1.0)
        return np.where(real, transfer.bytes / rate + start_s, 0.0)

    def graph(self, path: Path) -> Graph:
        """Channels and speeds as NCCL's search would find them for a group."""
        within, several = path.ranks_in_domain, path.domains > 1
        nvlink, raw = self._scale_up_as_nccl_counts(within)
        speeds = constants()["intra_speeds"][self._number]
        channels, speed = _channels(raw, speeds)
        nic = path.nic_bytes_per_s_per_gpu * constants()["net_fraction"] * within
        most = np.where(within < 2, np.inf, channels * speed)
        total = np.where(several, np.minimum(nic, most), channels * speed)
        nics = self._cluster.node.nics
        rails = within * (nics.count / self._cluster.node.gpus if nics else 0.0)
        count = np.maximum(np.round(total / _CHANNEL_BYTES_PER_S), np.round(rails))
        count = np.where(several, np.maximum(1.0, count), channels)
        each = total / count
        pair = (path.domains == 2) & (rails > 1)  # a tree of two sends a byte once each way
        trees = count * (1.0 + pair)
        tree_intra = np.where(pair, np.minimum(2.0 * nic, most), total) / trees
        heads = within if self._has_nvls else 0.0 * within
        share = _at_most(raw / (within + 1.0), speeds)
        sharp = self._cluster.fabric.in_network_reduction
        return Graph(count, each, each, trees, tree_intra, total / trees, heads, share,
                     nvlink=nvlink, sharp=sharp)  # fmt: skip

    @property
    def _has_nvls(self) -> bool:
        domain = self._cluster.scale_up
        return bool(domain and domain.in_switch_reduction)

    def path(self, group: Group) -> Path:
        """Where the ranks of `group` stand on this machine."""
        if group not in self._paths:
            self._paths[group] = path(group, self._cluster)
        return self._paths[group]

    def _terms_of(self, kind: CollectiveKind, group: Group) -> tuple[Graph, Terms]:
        """Graph of a group, and what a collective in it takes."""
        if group not in self._graphs:
            self._graphs[group] = self.graph(self.path(group))
        if (kind, group) not in self._terms:
            self._terms[kind, group] = self._made(kind, group)
        return self._graphs[group], self._terms[kind, group]

    def factors_and_terms(
        self, kind: CollectiveKind, size: Number, group: Group
    ) -> tuple[Choices, Terms]:
        """NCCL's factors for a size, and what a collective in a group takes in each way."""
        graph, terms = self._terms_of(kind, group)
        return self.factors(kind, size, self.path(group), graph), terms

    def _made(self, kind: CollectiveKind, group: Group) -> Terms:
        path = self.path(group)
        ranks, far = Ranks(path.ranks, path.domains), path.domains > 1
        choices = self.choices(kind, path, self._graphs[group])
        if not np.any(far):
            return inside(kind, choices, path.ranks, self._fit.of(kind))
        several = self._all_to_all_across(path) if kind == "all-to-all" else across(
            kind, choices, ranks, self._wires, self._reached(ranks), alone=self._alone
        )  # fmt: skip
        if not _is_one(self._latency):
            several = several.delayed(self._latency)
        if np.all(far):
            return several
        return either(far, inside(kind, choices, path.ranks, self._fit.of(kind)), several)

    def choices(self, kind: CollectiveKind, path: Path, graph: Graph) -> Choices:
        """Latency (us) and bytes per second of each way that NCCL considers, without corrections.

        It has no model of an all-to-all, in which each rank sends to all others of its domain.
        """
        if kind != "all-to-all":
            return self._tuner.candidates(kind, Ranks(path.ranks, path.domains), graph)
        within = path.ranks_in_domain
        _, raw = self._scale_up_as_nccl_counts(within)
        sent = np.maximum(within - 1.0, 1e-9) / path.ranks
        return {"Peers": (_ALL_TO_ALL_US + 0.0 * path.ranks, np.maximum(raw, 1.0) / sent)}

    def factors(self, kind: CollectiveKind, size: Number, path: Path, graph: Graph) -> Choices:
        """Factors on latency and rate of these ways that depend on the size."""
        return self._tuner.by_size(kind, size, Ranks(path.ranks, path.domains), graph, smooth=True)

    def _reached(self, group: Ranks) -> Number:
        """Share of the NICs' line rate."""
        lost = 0.0 if self._alone else self._fit.nic_per_doubling * np.log2(group.nodes)
        return np.maximum(0.3, self._reached_of_nics - lost)

    def _all_to_all_across(self, path: Path) -> Terms:
        """Every rank sends an equal part to every other: the longer of inside and outside."""
        fit, ranks, within = self._fit.all_to_all, path.ranks, path.ranks_in_domain
        _, raw = self._scale_up_as_nccl_counts(within)
        near = (within - 1.0) / ranks / np.maximum(raw * fit.rate, 1.0)
        nic = np.maximum(path.nic_bytes_per_s_per_gpu * self._reached_of_nics, 1.0)
        far = (ranks - within) / ranks / nic
        levels = np.log2(path.domains)
        start_s = _ALL_TO_ALL_US * 1e-6 * fit.latency + _NETWORK_S + self._wires.hop_s * levels
        choices: Choices = {"Peers": (start_s + _PEER_S * (ranks - within), np.maximum(near, far))}
        return Terms(choices, far_s=self._wires.ramp_s * levels,
                     far_root=float(np.sqrt(self._wires.ramp_bytes)))  # fmt: skip

    def _gloo(self, kind: str, size: Number, path: Path) -> Number:
        """A ring of CPUs: two passes for all-reduce, one for the others."""
        ranks = path.ranks
        passes = 2.0 if kind == "all-reduce" else 1.0
        nic = path.nic_bytes_per_s_per_gpu * path.ranks_in_domain * self._fit.tcp
        wire = np.where(path.domains > 1, np.maximum(nic, 1.0), np.inf)
        rate = np.minimum(self._fit.gloo_bytes_per_s, wire)
        hop_s = _SOCKET_HOP_S * np.where(path.domains > 1, self._latency, 1.0)
        return passes * (ranks - 1) * (size / ranks / rate + hop_s)

    def _scale_up_as_nccl_counts(self, ranks: Number) -> tuple[bool, Number]:
        """True for NVLink and the like, and the one-way rate of a GPU as NCCL counts it."""
        domain = self._cluster.scale_up
        if domain is None:
            return False, 0.0 * ranks
        rate = domain.rate_among(least(ranks, domain.gpus))
        if domain.topology == "pcie":
            return False, rate * constants()["pci_fraction"] + 0.0 * ranks
        nominal = 50.0 if self._number == 3 else 25.0
        return True, rate * constants()["nvlink_gb_per_s"][self._number] / nominal + 0.0 * ranks


def nccl_generation(architecture: str) -> int | None:
    """NCCL's number of a GPU architecture; None if NCCL has no constants for it."""
    known = _GENERATION.items()
    return next((number for name, number in known if architecture.startswith(name)), None)


def merged_share(domains: Number, copies: Number) -> Number:
    """What is left to send when copies of an element for the same domain cross once.

    The expected number of different domains among `copies` random ones; all of them inside one
    domain. Source: DeepEP's and HybridEP's dispatch, which forward inside the node.
    """
    different = domains * (1.0 - (1.0 - 1.0 / domains) ** copies)
    return np.where(domains > 1, np.minimum(different / copies, 1.0), 1.0)


def nic_reached(cluster: Cluster, fit: NetworkFit) -> float:
    """Share of the NICs' line rate that is reached; measured on the machine beats the rest.

    Where GPUs share a NIC, some of them are far from it and get less.
    """
    nics = cluster.node.nics
    usual = fit.nic if nics is None or nics.transport == "rdma" else fit.tcp
    reached = nics.reached if nics and nics.reached else usual
    shared = any(len(gpus) > 1 for gpus in cluster.nic_groups)
    return reached * (fit.shared_nic if shared else 1.0)


def _channels(raw: Number, speeds: list[float]) -> tuple[Number, Number]:
    """Number and speed of channels that NCCL packs into `raw` bytes per second."""
    speed = _at_most(raw, speeds)
    count = np.maximum(1.0, np.floor(raw / np.maximum(speed, 1.0)))
    doubled = speed >= 25e9
    return np.where(doubled, 2 * count, count), np.where(doubled, speed / 2, speed)


def _at_most(rate: Number, speeds: list[float]) -> Number:
    """The largest of NCCL's speeds (GB/s) that is not above `rate`; `rate` if all are."""
    found: Number = rate
    for speed in sorted(speeds):
        found = np.where(rate >= speed * 1e9, speed * 1e9, found)
    return found


def _is_one(factor: Number) -> bool:
    """True for the plain number 1, with which arrays need not be multiplied."""
    return np.ndim(factor) == 0 and factor == 1
