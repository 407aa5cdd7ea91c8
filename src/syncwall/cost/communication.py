"""Seconds of communication on a machine.

Holds `Network`, the interface that prices collectives and transfers, `NcclNetwork`, its closed
form: NCCL's own model on the paths of the groups, corrected by what machines really reach.
"""

from dataclasses import replace
from typing import Protocol

import numpy as np

from syncwall.cost.calibration import NetworkFit
from syncwall.cost.link_efficiency import PCIE_CROWDING, CollectiveTime, across, either, inside, transport
from syncwall.cost.nccl import GENERATIONS, ChannelGraph, Choices, NcclGroup, Tuner, constants
from syncwall.cost.path import Path, path
from syncwall.cost.rates import (
    GENERATION,
    PRICED_AS,
    at_most,
    channels_of,
    gloo_seconds,
    merged_share,
    nccl_generation,
    nic_reached,
    rings_only,
    steps_us,
)
from syncwall.cost.torus import REACHED, Torus, torus_time
from syncwall.describe import Cluster
from syncwall.work.number import Number, anywhere, is_one, least
from syncwall.work.operations import Collective, CollectiveKind, Group, Transfer

_NEAREST = GENERATION["hopper"]
"""Constants for architectures that NCCL has none for; the answer says so."""
_CHANNEL_BYTES_PER_S = 45e9
"""Most that NCCL sends over one channel between nodes."""
_ALL_TO_ALL_US = 8.0
"""Start of an all-to-all in a domain; `latency` of the fit scales it."""
_PEER_S, _NETWORK_S = 0.3e-6, 10e-6
"""All-to-all over nodes: for each peer on another one, and at all; assumed."""
_POINT_TO_POINT_S = 15e-6
"""Start of a message between two GPUs on different nodes, both sides ready."""
_MERGED_NICS = 1.15
"""NIC rate of kernels that send a token once to each domain over that of NCCL's all-to-all in a
step: DeepEP combines over 4 and 8 nodes of H100 at 0.83 and 0.90 of the line (aiconfigurator)."""


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
        self._reached_of_nics = measured or self._wires.rate if self._alone else nic_reached(cluster, fit)
        self._tuner = Tuner(GENERATIONS[number])
        self._torus = Torus.of(cluster)
        self._paths: dict[Group, Path] = {}
        self._graphs: dict[Group, ChannelGraph] = {}
        self._terms: dict[tuple[str, Group], CollectiveTime] = {}
        self._ring_starts: dict[tuple[CollectiveKind, Group], Number] = {}
        self._known: dict[tuple[str, Group, tuple[int, ...]], tuple[Collective, Number]] = {}
        self._merged: dict[tuple[Group, int, int], tuple[Collective, CollectiveTime]] = {}

    def collective_seconds(self, collective: Collective) -> Number:
        """NCCL's fastest choice; zero for one rank or no bytes."""
        if isinstance(collective.bytes, float) and not collective.bytes:
            return 0.0
        if collective.kind in PRICED_AS:
            collective = replace(collective, kind=PRICED_AS[collective.kind])
        one = collective
        numbers = (id(one.bytes), id(one.calls), id(one.copies), id(one.domains))
        key = (one.kind, one.group, numbers)
        if key not in self._known:  # keeps the operands alive, so that no id is used again
            self._known[key] = (collective, self._seconds(collective))
        seconds = self._known[key][1]
        return seconds if is_one(collective.share) else seconds * collective.share

    def _seconds(self, collective: Collective) -> Number:
        path, kind = self.path(collective.group), collective.kind
        several = not is_one(collective.calls)
        size = collective.bytes / collective.calls if several else collective.bytes
        real = (size > 0) & (path.ranks > 1)
        if not anywhere(real):
            return 0.0
        if self._transport == "gloo":
            once = gloo_seconds(kind, size, path, self._fit, self._latency)
        else:
            graph, terms = self._terms_of(kind, collective.group)
            if anywhere(collective.copies > 1):
                terms = self._merged_terms(collective)
            once = terms.seconds(size, self.factors(kind, size, path, graph))
            if several:  # one after the other keeps pipelines filled
                once = once - terms.ramp_s(size) * (1.0 - 1.0 / collective.calls)
        return np.where(real, once * collective.calls if several else once, 0.0)

    def ring_start_seconds(self, collective: Collective) -> Number:
        """What NCCL counts for all steps of a ring over the network, whatever the size.

        Only of all-gather and reduce-scatter, for which it has nothing but rings.
        """
        if collective.kind not in ("all-gather", "reduce-scatter") or self._transport == "gloo":
            return 0.0
        key = (collective.kind, collective.group)
        if key not in self._ring_starts:
            self._terms_of(*key)
        start_s = self._ring_starts[key] * (collective.bytes > 0)
        plain = is_one(collective.calls) and is_one(collective.share)
        return start_s if plain else start_s * collective.calls * collective.share

    def transfer_seconds(self, transfer: Transfer) -> Number:
        """A message to the next stage, over NVLink or the NIC."""
        path = self.path(transfer.group)
        _, raw = self._scale_up_as_nccl_counts(2.0)
        near = np.maximum(raw * self._fit.all_to_all.rate, 1.0)
        if self._torus is not None:  # one link leads to the neighbour
            near = self._torus.link_bytes_per_s * REACHED
        far = path.nic_bytes_per_s_per_gpu * self._reached_of_nics / path.crossing.ring
        rate = np.where(path.domains > 1, np.maximum(far, 1.0), near)
        real = transfer.bytes > 0
        start_s = _POINT_TO_POINT_S * np.where(path.domains > 1, self._latency, 1.0)
        return np.where(real, transfer.bytes / rate + start_s, 0.0)

    def graph(self, path: Path) -> ChannelGraph:
        """Channels and speeds as NCCL's search would find them for a group."""
        within, several = path.ranks_in_domain, path.domains > 1
        nvlink, raw = self._scale_up_as_nccl_counts(within)
        speeds = constants()["intra_speeds"][self._number]
        channels, speed = channels_of(raw, speeds)
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
        share = at_most(raw / (within + 1.0), speeds)
        sharp = self._cluster.fabric.in_network_reduction
        tree = (trees, tree_intra, total / trees)
        more = {"nvlink": nvlink, "sharp": sharp, "link": raw, "nic": nic / within}
        return ChannelGraph(count, each, each, *tree, heads, share, **more)

    @property
    def _has_nvls(self) -> bool:
        domain = self._cluster.scale_up
        return bool(domain and domain.in_switch_reduction)

    def path(self, group: Group) -> Path:
        """Where the ranks of `group` stand on this machine."""
        if group not in self._paths:
            found = path(group, self._cluster)
            if self._fit.one_rail and not self._alone:
                share = found.nic_bytes_per_s_per_gpu / max(len(self._cluster.nic_groups), 1)
                found = replace(found, nic_bytes_per_s_per_gpu=share)
            self._paths[group] = found
        return self._paths[group]

    def _terms_of(self, kind: CollectiveKind, group: Group) -> tuple[ChannelGraph, CollectiveTime]:
        """Graph of a group, and what a collective in it takes."""
        if group not in self._graphs:
            self._graphs[group] = self.graph(self.path(group))
        if (kind, group) not in self._terms:
            self._terms[kind, group] = self._made(kind, group)
        return self._graphs[group], self._terms[kind, group]

    def _merged_terms(self, collective: Collective) -> CollectiveTime:
        """What an all-to-all takes in which copies are sent together."""
        if self._torus is not None:  # no kernels are known that send copies once
            return self._terms[collective.kind, collective.group]
        key = (collective.group, id(collective.copies), id(collective.domains))
        if key not in self._merged:  # keeps the operands alive, so that no id is used again
            terms = self._all_to_all(collective.group, collective.copies, collective.domains)
            self._merged[key] = (collective, terms)
        return self._merged[key][1]

    def factors_and_terms(
        self, kind: CollectiveKind, size: Number, group: Group
    ) -> tuple[Choices, CollectiveTime]:
        """NCCL's factors for a size, and what a collective in a group takes in each way."""
        graph, terms = self._terms_of(kind, group)
        return self.factors(kind, size, self.path(group), graph), terms

    def _made(self, kind: CollectiveKind, group: Group) -> CollectiveTime:
        if self._torus is not None:
            self._ring_starts[kind, group] = 0.0
            return torus_time(kind, group, self.path(group), self._torus, self._reached_of_nics)
        if kind == "all-to-all":
            return self._all_to_all(group)
        path = self.path(group)
        ranks, far = NcclGroup(path.ranks, path.domains), path.domains > 1
        choices = self.choices(kind, path, self._graphs[group])
        if "Ring/LL128" in choices:
            start_s = steps_us(choices) * 1e-6 * self._latency
            self._ring_starts[kind, group] = np.where(far, start_s, 0.0)
        one = None if np.all(far) else self._inside(kind, choices, path.ranks)
        several = None
        if anywhere(far):
            rank_s = 0.0 if self._alone else self._fit.ring_rank_s
            reached = self._reached_of(kind, path)
            several = across(kind, choices, ranks, self._wires, reached, rank_s)
            several = several.through(path.crossing)
        return self._near_or_far(far, one, several)

    def _all_to_all(self, group: Group, copies: Number = 1, most: Number = np.inf) -> CollectiveTime:
        """Time of an all-to-all in which `copies` of an element for a rank may be sent once."""
        path = self.path(group)
        far = path.domains > 1
        one = several = None
        if not np.all(far):
            share = merged_share(path.ranks, copies)
            found = self.choices("all-to-all", path, self._graphs[group])
            choices = {name: (start, rate / share) for name, (start, rate) in found.items()}
            one = self._inside("all-to-all", choices, path.ranks)
        if anywhere(far):
            several = self._all_to_all_across(path, copies, most)
        return self._near_or_far(far, one, several)

    def _inside(self, kind: CollectiveKind, choices: Choices, ranks: Number) -> CollectiveTime:
        crowding = PCIE_CROWDING if self._meets_in_host else 0.0
        return inside(kind, choices, ranks, self._fit.of(kind), crowding=crowding)

    @property
    def _meets_in_host(self) -> bool:
        domain = self._cluster.scale_up
        return domain is not None and domain.topology == "pcie"

    def _near_or_far(
        self, far: Number, one: CollectiveTime | None, several: CollectiveTime | None
    ) -> CollectiveTime:
        """Time of groups in one domain, in several, or (arrays) some of them in several."""
        if several is None:
            assert one is not None, "a group stands somewhere"
            return one
        if not is_one(self._latency):
            several = several.delayed(self._latency)
        return several if one is None else either(far, one, several)

    def choices(self, kind: CollectiveKind, path: Path, graph: ChannelGraph) -> Choices:
        """Latency (us) and bytes per second of each way that NCCL considers, without corrections.

        It has no model of an all-to-all, in which each rank sends to all others of its domain.
        """
        if kind != "all-to-all":
            found = self._tuner.candidates(kind, NcclGroup(path.ranks, path.domains), graph)
            return rings_only(found, path) if self._is_rack else found
        within = path.ranks_in_domain
        _, raw = self._scale_up_as_nccl_counts(within)
        sent = np.maximum(within - 1.0, 1e-9) / path.ranks
        return {"Peers": (_ALL_TO_ALL_US + 0.0 * path.ranks, np.maximum(raw, 1.0) / sent)}

    def factors(self, kind: CollectiveKind, size: Number, path: Path, graph: ChannelGraph) -> Choices:
        """Factors on latency and rate of these ways that depend on the size."""
        return self._tuner.by_size(kind, size, NcclGroup(path.ranks, path.domains), graph, smooth=True)

    @property
    def _is_rack(self) -> bool:
        """True if scale-up domains hold several nodes."""
        domain = self._cluster.scale_up
        return bool(domain and domain.gpus > self._cluster.node.gpus)

    def _reached_of(self, kind: CollectiveKind, path: Path) -> Number:
        """Share of the NICs' line rate, for NCCL's rates; racks have more NICs than links need."""
        reached = self._reached(NcclGroup(path.ranks, path.domains))
        if not self._is_rack:
            return reached
        within, fraction = path.ranks_in_domain, constants()["net_fraction"]
        _, raw = self._scale_up_as_nccl_counts(within)
        channels, speed = channels_of(raw, constants()["intra_speeds"][self._number])
        links, nics = channels * speed, path.nic_bytes_per_s_per_gpu * fraction * within
        inside = fraction * self._fit.of(kind).rate
        more = np.minimum(reached * nics / np.maximum(links, 1.0), inside)
        return np.where(nics > links, more, reached)

    def _reached(self, group: NcclGroup) -> Number:
        """Share of the NICs' line rate."""
        lost = 0.0 if self._alone else self._fit.nic_per_doubling * np.log2(group.nodes)
        return np.maximum(0.3, self._reached_of_nics - lost)

    def _all_to_all_across(self, path: Path, copies: Number, most: Number) -> CollectiveTime:
        """Every rank sends an equal part to every other: the longer of inside and outside.

        Copies that are sent together cross the network once for each domain, to the GPU of the same
        number there, which hands them on inside.
        """
        fit, ranks, within = self._fit.all_to_all, path.ranks, path.ranks_in_domain
        _, raw = self._scale_up_as_nccl_counts(within)
        inside_s = (within - 1.0) / np.maximum(raw * fit.rate, 1.0)
        nic = np.maximum(path.nic_bytes_per_s_per_gpu, 1.0)
        outside = (ranks - within) / ranks / nic * path.crossing.all_to_all
        reached = self._reached_of_nics
        taken = np.maximum(inside_s / ranks, outside / reached)
        if anywhere(copies > 1):
            handed_on = inside_s / within * merged_share(ranks, copies)
            crossing = outside * merged_share(path.domains, copies, most)
            merged = np.maximum(handed_on, crossing / np.minimum(reached * _MERGED_NICS, 1.0))
            taken = np.where(copies > 1, np.minimum(taken, merged), taken)
        levels = np.log2(path.domains)
        start_s = _ALL_TO_ALL_US * 1e-6 * fit.latency + _NETWORK_S + self._wires.hop_s * levels
        choices: Choices = {"Peers": (start_s + _PEER_S * (ranks - within), taken)}
        root = float(np.sqrt(self._wires.ramp_bytes))
        return CollectiveTime(choices, far_s=self._wires.ramp_s * levels, far_root=root)

    def _scale_up_as_nccl_counts(self, ranks: Number) -> tuple[bool, Number]:
        """True for NVLink and the like, and the one-way rate of a GPU as NCCL counts it."""
        domain = self._cluster.scale_up
        if domain is None:
            return False, 0.0 * ranks
        rate = domain.rate_among(least(ranks, domain.gpus))
        if self._meets_in_host:
            return False, rate * constants()["pci_fraction"] + 0.0 * ranks
        nominal = 50.0 if self._number == 3 else 25.0
        return True, rate * constants()["nvlink_gb_per_s"][self._number] / nominal + 0.0 * ranks


def ring_start_seconds(network: Network, collective: Collective) -> Number:
    """Time of a ring's steps over `network` that computation beside it does not hide.

    A custom network that does not provide it has none.
    """
    start = getattr(network, "ring_start_seconds", None)
    seconds: Number = 0.0 if start is None else start(collective)
    return seconds
