"""Fits communication to measured collectives: inside a scale-up domain, and over the network.

Over the network, latency comes from the smallest messages, the rest from those of 1 MiB and more;
between them some networks change protocols, which is not modelled.
"""

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

import syncwall as sw
from bench import Dir
from bench.fit.files import update, with_block
from bench.fit.search import Values, rounded, search
from bench.fit.tables import (
    HELD_OUT,
    KINDS,
    OLDEST,
    SYSTEMS,
    Array,
    Table,
    nccl_tests,
    single_node,
)
from syncwall.catalogue import BUILT_IN
from syncwall.cost.calibration import KindFit, calibration
from syncwall.cost.communication import NcclNetwork
from syncwall.cost.link_efficiency import TransportFit, across, inside
from syncwall.cost.nccl import NcclGroup
from syncwall.describe import Cluster
from syncwall.work.operations import CollectiveKind, Group

NAME = "collectives"
CALIBRATIONS, TRANSPORTS = BUILT_IN / "calibrations", BUILT_IN / "tuning" / "transports.yaml"
BANDS = {"to 64 kB": (0, 65536), "to 4 MB": (65537, 4194304), "more": (4194305, np.inf)}
NVLINK = ("a100_sxm", "h100_sxm", "h200_sxm", "b200_sxm", "b300_sxm")
"""Systems whose means serve devices that nobody measured."""
PCIE, PAIR = "l40s-8", 2
SOFT = 0.05
"""Relative error from which on the loss grows no faster than the error."""
STARTS_KB = {"all-to-all": (20.0, 80.0)}
_USUAL_STARTS_KB = (400.0, 3000.0, 8000.0)
LIMITS = {
    "latency": (0.1, 3.0),
    "per_rank_us": (0.01, 3.0),
    "rate": (0.1, 1.5),
    "own_part": (0.01, 2.0),
    "ramp_us": (0.1, 100.0),
    "ramp_kb": (1.0, 30000.0),
}
"""Least and largest values of a kind inside a domain that a search may give."""
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
NETWORK_LIMITS = {
    "rate": (0.3, 0.96),  # NCCL counts with 0.96 of the line rate
    "ramp_us": (0.1, 3000.0),
    "ramp_mb": (0.1, 1000.0),
    "tree": (0.3, 1.2),
}


@dataclass(frozen=True)
class Fitted:
    name: str
    values: Values
    ratios: list[tuple[Table, Array]]

    @property
    def mean_error(self) -> float:
        return _mean(np.concatenate([ratio for _, ratio in self.ratios]))


def _mean(ratio: Array) -> float:
    return float(np.mean(np.abs(ratio - 1.0)))


def priced_on(machine: Cluster, ranks: int) -> tuple[NcclNetwork, Any]:
    """The network of a machine for one benchmark, and the path of `ranks` neighbours on it."""
    network = NcclNetwork(machine, calibration(machine.device).network, alone=True)
    return network, network.path(neighbours(ranks))


def neighbours(ranks: int) -> Group:
    return Group("dp", ranks)


class Prepared:
    def __init__(self, table: Table, nodes: int, share: float = 0.5) -> None:
        network, self.path = priced_on(sw.cluster(table.machine, nodes=nodes), table.ranks)
        graph = network.graph(self.path)
        self.table, self.seconds = table, table.seconds(share)
        self.choices = network.choices(table.kind, self.path, graph)
        self.factors = network.factors(table.kind, table.sizes, self.path, graph)

    def ratio(self, fit: KindFit | TransportFit) -> Array:
        kind = self.table.kind
        if isinstance(fit, KindFit):
            terms = inside(kind, self.choices, self.table.ranks, fit)
        else:
            group = NcclGroup(self.path.ranks, self.path.domains)
            terms = across(kind, self.choices, group, fit, fit.rate)
        found: Any = terms.seconds(self.table.sizes, self.factors)
        return np.asarray(found / self.seconds, dtype=float)

    def hop_us(self) -> float:
        """What small messages take beyond NCCL's latency, for each pass and doubling."""
        free = TransportFit(0.96, 0.0, 0.0, 1.0)
        beyond_s = np.median(self.seconds * (1.0 - self.ratio(free)))
        passes = 2.0 if self.table.kind == "all-reduce" else 1.0
        return max(0.1, float(beyond_s) * 1e6 / passes / float(np.log2(self.path.domains)))


def soft_loss(
    tables: list[Prepared], made: Callable[[Values], KindFit | TransportFit]
) -> Callable[[Values], float]:
    """Mean over tables of an error that is squared when small and plain when large."""

    def loss(values: Values) -> float:
        fit = made(values)
        scaled = [np.log(table.ratio(fit)) / SOFT for table in tables]
        return float(np.mean([np.mean(np.sqrt(1.0 + e * e) - 1.0) for e in scaled]))

    return loss


def fit_device(tables: list[Table]) -> list[Fitted]:
    """Over PCIe only from pairs: what more GPUs share differs from server to server."""
    if tables[0].machine == PCIE:
        tables = [table for table in tables if table.ranks == PAIR]
    return [
        _fit_kind(kind, [Prepared(table, 1) for table in tables if table.kind == kind])
        for kind in KINDS.values()
    ]


def _fit_kind(kind: CollectiveKind, tables: list[Prepared]) -> Fitted:
    loss = soft_loss(tables, _kind_fit)
    start = {"latency": 1.0, "per_rank_us": 0.3, "rate": 0.95, "own_part": 0.4, "ramp_us": 4.0}
    starts = [start | {"ramp_kb": kb} for kb in STARTS_KB.get(kind, _USUAL_STARTS_KB)]
    best = min((search(loss, start, LIMITS) for start in starts), key=loss)
    fit = _kind_fit(best)
    return Fitted(kind, best, [(each.table, each.ratio(fit)) for each in tables])


def _kind_fit(values: Values) -> KindFit:
    return KindFit.model_construct(
        latency=values["latency"],
        per_rank_s=values["per_rank_us"] * 1e-6,
        rate=values["rate"],
        own_part=values["own_part"],
        ramp_s=values["ramp_us"] * 1e-6,
        ramp_bytes=values["ramp_kb"] * 1e3,
    )


def stated(values: Values) -> dict[str, Any]:
    units = {"per_rank_us": ("per_rank", "us"), "ramp_us": ("ramp", "us")}
    units["ramp_kb"] = ("ramp_at", "kB")
    found: dict[str, Any] = {}
    for name, value in values.items():
        key, unit = units.get(name, (name, ""))
        found[key] = f"{value:g} {unit}" if unit else value
    return found


def means(all_fits: list[list[Fitted]]) -> dict[str, Values]:
    found = {}
    for fits in zip(*all_fits, strict=True):
        logs = {name: np.mean([np.log(f.values[name]) for f in fits]) for name in fits[0].values}
        found[fits[0].name] = {name: rounded(float(np.exp(log))) for name, log in logs.items()}
    return found


def fit_transports(tables: list[Table]) -> list[Fitted]:
    found: dict[str, Fitted] = {}
    for name, starts in CLASSES.items():
        own = [t for t in tables if t.nodes > 1 and t.source.startswith(starts)]
        small = [one for t in own if len((one := t.between(*SMALL)).sizes)]
        each = [Prepared(t, t.nodes, CALM).hop_us() for t in small]
        if name in HOPS_OF:
            hop_us = found[HOPS_OF[name]].values["hop_us"]
        else:
            logs = np.mean(np.log(each)) if each else 0.0
            hop_us = rounded(float(np.exp(logs))) if each else ASSUMED_HOP_US[name]
        large = [Prepared(t.between(LARGE), t.nodes, CALM) for t in own if t.sizes.max() >= LARGE]
        found[name] = _fit_network(name, hop_us, large)
    return list(found.values())


def _fit_network(name: str, hop_us: float, tables: list[Prepared]) -> Fitted:
    start = {"rate": 0.93}
    start |= {} if name in WITHOUT_RAMP else {"ramp_us": 200.0, "ramp_mb": 30.0}
    start |= {"tree": 0.9} if name in WITH_TREES else {}
    fixed = {"hop_us": hop_us, "ramp_us": 0.0, "ramp_mb": 1.0}

    def made(values: Values) -> TransportFit:
        v = fixed | values
        rates = (v["rate"], v["hop_us"] * 1e-6, v["ramp_us"] * 1e-6, v["ramp_mb"] * 1e6)
        return TransportFit(*rates, v.get("tree", 1.0))

    values = fixed | search(soft_loss(tables, made), start, NETWORK_LIMITS)
    return Fitted(name, values, [(each.table, each.ratio(made(values))) for each in tables])


def regenerated(directory: Path) -> dict[Path, str]:
    texts: dict[Path, str] = {}
    tables = single_node(directory)
    fits = {one: fit_device([t for t in tables if t.source == one]) for one in SYSTEMS}
    for system, found in fits.items():
        path = CALIBRATIONS / f"{sw.cluster(SYSTEMS[system]).device.name}.yaml"
        values = {fit.name: stated(fit.values) for fit in found}
        if "\nbase: " not in path.read_text():  # a variant of a chip has the links of its base
            texts[path] = with_block(path.read_text(), "network", values, {NAME: _of_device(found)})
        print(f"\n{system}")
        for fit in found:
            print(f"  {fit.name:15s} mean error {fit.mean_error:6.1%}   {stated(fit.values)}")
            for table, ratio in fit.ratios:
                bands = "   ".join(
                    f"{name} {_mean(ratio[(table.sizes >= low) & (table.sizes <= high)]):.1%}"
                    for name, (low, high) in BANDS.items()
                )
                print(f"    {table.ranks} GPUs   {_mean(ratio):6.1%}   {bands}")
    path = CALIBRATIONS / "generic.yaml"
    usual = {kind: stated(v) for kind, v in means([fits[system] for system in NVLINK]).items()}
    said = f"Geometric means of the fits of {', '.join(NVLINK)}."
    texts[path] = with_block(path.read_text(), "network", usual, {NAME: said})
    text = TRANSPORTS.read_text()
    for network in fit_transports(nccl_tests(directory, held_out=False)):
        names = ("rate", "tree", "hop_us", "ramp_us", "ramp_mb")
        ordered = {name: network.values[name] for name in names if name in network.values}
        said = _of_network(network)
        text = with_block(text, network.name, ordered, {NAME: said})
        print(f"\n{network.name}   {ordered}\n  {said}")
    texts[TRANSPORTS] = text
    print("never read, only validated on:", " ".join(HELD_OUT))
    return texts


def _of_device(fits: list[Fitted]) -> str:
    rows = sum(len(table.sizes) for fit in fits for table, _ in fit.ratios)
    ranks = sorted({table.ranks for table, _ in fits[0].ratios})
    errors = ", ".join(f"{fit.name} {fit.mean_error:.1%}" for fit in fits)
    return (
        f"aiconfigurator, nccl-tests of one node, 16 bits, NCCL {OLDEST} and later: {rows} sizes"
        f" from 512 B to 512 MB on {' and '.join(map(str, ranks))} GPUs (medians over repeats)."
        f" Mean error: {errors}."
    )


def _of_network(found: Fitted) -> str:
    parts = [
        f"{table.source} {table.kind} on {table.nodes} nodes, {len(table.sizes)} sizes,"
        f" mean error {_mean(ratio):.1%}"
        for table, ratio in found.ratios
    ]
    assumed = " hop_us is assumed." if found.name in ASSUMED_HOP_US else ""
    return f"Alone, from 1 MiB: {'; '.join(parts)}.{assumed}"


def fit(directory: Dir, check: bool = False) -> int:
    """Fit communication to the measured tables of collectives in DIR.

    Writes the `network` blocks of the calibrations and `catalogue/tuning/transports.yaml`, the
    same bytes on every run. With --check nothing is written: 1 if a file would change.
    """
    return update(regenerated(directory), check=check)
