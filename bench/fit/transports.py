"""Fit of collectives over the network: `TransportFit` of each kind of network.

Holds `FittedTransport` and `fit_transports`. Latency comes from the smallest messages, the rest
from those of 1 MiB and more; between them some networks change protocols, which is not modelled.
"""

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

import syncwall as sw
from bench.fit.collective_tables import Table
from bench.fit.domains import priced_on, soft_loss
from bench.fit.search import Values, rounded, search
from syncwall.cost.algorithm import NcclGroup
from syncwall.cost.link_efficiency import TransportFit, across
from syncwall.cost.nccl import Choices

CLASSES = {
    "infiniband": ("cw_h100_",),
    "roce": ("gcp_a3ultra_", "oci_"),
    "efa": ("aws_p", "ml_engineering_b200_"),
    "slingshot": ("alps_", "cscs_gh200_"),
    "gcp-tcpxo": ("gcp_a3mega_",),
    "gcp-tcpx": ("gcp_a3high_",),
}
"""How the names of sources on each network begin."""
WITHOUT_RAMP = ("infiniband", "roce")
"""RDMA verbs: their tables show none, so none is fitted."""
WITH_TREES = ("slingshot",)
"""Networks with tables of enough nodes and sizes to tell trees from rings."""
ASSUMED_HOP_US = {"infiniband": 4.0}
"""No public table has small messages; this makes latency on two nodes 1.3 times NCCL's."""
HOPS_OF = {"gcp-tcpx": "gcp-tcpxo"}
SMALL, LARGE = (512, 2048), 2**20
CALM = 0.25
"""Quantile of repeats taken: above 64 nodes many runs on Alps met the traffic of others."""
LIMITS = {"rate": (0.3, 0.96), "ramp_us": (0.1, 3000.0), "ramp_mb": (0.1, 1000.0),
          "tree": (0.3, 1.2)}  # fmt: skip
"""Least and largest values that a search may give; NCCL counts with 0.96 of the line rate."""


@dataclass(frozen=True)
class FittedTransport:
    """Parameters of one network, and predicted over measured time for each table."""

    name: str
    values: Values
    ratios: list[tuple[Table, NDArray[np.float64]]]


@dataclass(frozen=True)
class _Ready:
    """A table with what NCCL's model says of it."""

    table: Table
    group: NcclGroup
    choices: Choices
    factors: Choices
    seconds: NDArray[np.float64]

    def ratio(self, fit: TransportFit) -> NDArray[np.float64]:
        terms = across(self.table.kind, self.choices, self.group, fit, fit.rate)
        found: Any = terms.seconds(self.table.sizes, self.factors)
        return np.asarray(found / self.seconds, dtype=float)

    def hop_us(self) -> float:
        """What small messages take beyond NCCL's latency, for each pass and doubling."""
        free = TransportFit(0.96, 0.0, 0.0, 1.0)
        beyond_s = np.median(self.seconds * (1.0 - self.ratio(free)))
        passes = 2.0 if self.table.kind == "all-reduce" else 1.0
        return max(0.1, float(beyond_s) * 1e6 / passes / float(np.log2(self.group.nodes)))


def fit_transports(tables: list[Table]) -> list[FittedTransport]:
    """Every network; `tables` must not contain held-out sources."""
    found: dict[str, FittedTransport] = {}
    for name, starts in CLASSES.items():
        own = [t for t in tables if t.nodes > 1 and t.source.startswith(starts)]
        hop_us = _hop_us(name, own, found)
        large = [_ready(t.between(LARGE)) for t in own if t.sizes.max() >= LARGE]
        found[name] = _fit(name, hop_us, large)
    return list(found.values())


def _hop_us(name: str, tables: list[Table], found: dict[str, FittedTransport]) -> float:
    if name in HOPS_OF:
        return found[HOPS_OF[name]].values["hop_us"]
    small = [t.between(*SMALL) for t in tables]
    each = [_ready(t).hop_us() for t in small if len(t.sizes)]
    return rounded(float(np.exp(np.mean(np.log(each))))) if each else ASSUMED_HOP_US[name]


def _fit(name: str, hop_us: float, tables: list[_Ready]) -> FittedTransport:
    start = {"rate": 0.93}
    if name not in WITHOUT_RAMP:
        start |= {"ramp_us": 200.0, "ramp_mb": 30.0}
    if name in WITH_TREES:
        start |= {"tree": 0.9}
    fixed = {"hop_us": hop_us, "ramp_us": 0.0, "ramp_mb": 1.0}

    def loss(values: Values) -> float:
        fit = _transport_fit(fixed | values)
        return soft_loss([table.ratio(fit) for table in tables])

    values = fixed | search(loss, start, LIMITS)
    fit = _transport_fit(values)
    return FittedTransport(name, values, [(each.table, each.ratio(fit)) for each in tables])


def _transport_fit(values: Values) -> TransportFit:
    return TransportFit(values["rate"], values["hop_us"] * 1e-6, values["ramp_us"] * 1e-6,
                        values["ramp_mb"] * 1e6, values.get("tree", 1.0))  # fmt: skip


def _ready(table: Table) -> _Ready:
    machine = sw.cluster(table.machine, nodes=table.nodes)
    network, path = priced_on(machine, table.ranks)
    graph = network.graph(path)
    return _Ready(
        table,
        NcclGroup(path.ranks, path.domains),
        network.choices(table.kind, path, graph),
        network.factors(table.kind, table.sizes, path, graph),
        table.seconds(CALM),
    )
