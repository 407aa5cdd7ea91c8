"""Fit of collectives inside a scale-up domain: `KindFit` of each device and kind.

Holds `Fitted`, `fit_device` and `means`, the values for devices that nobody measured.
"""

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

import syncwall as sw
from bench.fit.collective_tables import KINDS, Table
from bench.fit.search import Values, rounded, search
from syncwall.cost.calibration import KindFit, calibration
from syncwall.cost.communication import NcclNetwork
from syncwall.cost.link_efficiency import inside
from syncwall.cost.nccl import Choices
from syncwall.describe import Cluster
from syncwall.work.operations import CollectiveKind, Group

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
    "crowding": (0.1, 3.0),
}
"""Least and largest values that a search may give."""


@dataclass(frozen=True)
class Fitted:
    """Parameters of one kind, and predicted over measured time for each table."""

    kind: CollectiveKind
    values: Values
    ratios: list[tuple[Table, NDArray[np.float64]]]

    @property
    def mean_error(self) -> float:
        """Mean of |predicted / measured - 1|."""
        return float(np.mean(np.abs(np.concatenate([r for _, r in self.ratios]) - 1.0)))


@dataclass(frozen=True)
class _Ready:
    """A table with what NCCL's model says of it."""

    table: Table
    choices: Choices
    factors: Choices
    seconds: NDArray[np.float64]

    def ratio(self, fit: KindFit) -> NDArray[np.float64]:
        terms = inside(self.table.kind, self.choices, self.table.ranks, fit)
        found: Any = terms.seconds(self.table.sizes, self.factors)
        return np.asarray(found / self.seconds, dtype=float)


def fit_device(tables: list[Table]) -> list[Fitted]:
    """Every kind of one device."""
    return [
        _fit_kind(kind, [ready(table) for table in tables if table.kind == kind])
        for kind in KINDS.values()
    ]


def means(all_fits: list[list[Fitted]]) -> dict[CollectiveKind, Values]:
    """Geometric means over devices, kind by kind."""
    found = {}
    for number, kind in enumerate(KINDS.values()):
        values = [fits[number].values for fits in all_fits]
        found[kind] = {
            name: rounded(float(np.exp(np.mean([np.log(v[name]) for v in values]))))
            for name in values[0]
        }
    return found


def stated(values: Values) -> dict[str, Any]:
    """Parameters as a calibration states them."""
    found: dict[str, Any] = {
        "latency": values["latency"],
        "per_rank": f"{values['per_rank_us']:g} us",
        "rate": values["rate"],
        "own_part": values["own_part"],
        "ramp": f"{values['ramp_us']:g} us",
        "ramp_at": f"{values['ramp_kb']:g} kB",
    }
    return found | ({"crowding": values["crowding"]} if "crowding" in values else {})


def soft_loss(ratios: list[NDArray[np.float64]]) -> float:
    """Mean over tables of an error that is squared when small and plain when large."""
    scaled = [np.log(ratio) / SOFT for ratio in ratios]
    return float(np.mean([np.mean(np.sqrt(1.0 + e * e) - 1.0) for e in scaled]))


def ready(table: Table) -> _Ready:
    """NCCL's model for the group of `table`."""
    network, path = priced_on(sw.cluster(table.machine, nodes=1), table.ranks)
    graph = network.graph(path)
    return _Ready(
        table,
        network.choices(table.kind, path, graph),
        network.factors(table.kind, table.sizes, path, graph),
        table.seconds(),
    )


def priced_on(machine: Cluster, ranks: int) -> tuple[NcclNetwork, Any]:
    """The network of a machine for one benchmark, and the path of `ranks` neighbours on it."""
    network = NcclNetwork(machine, calibration(machine.device).network, alone=True)
    return network, network.path(neighbours(ranks))


def neighbours(ranks: int) -> Group:
    """`ranks` ranks, one beside the other."""
    return Group("dp", ranks)


def _fit_kind(kind: CollectiveKind, tables: list[_Ready]) -> Fitted:
    best: tuple[float, Values] | None = None
    for ramp_kb in STARTS_KB.get(kind, _USUAL_STARTS_KB):
        start = {"latency": 1.0, "per_rank_us": 0.3, "rate": 0.95, "own_part": 0.4,
                 "ramp_us": 4.0, "ramp_kb": ramp_kb}  # fmt: skip
        if tables[0].table.machine == "l40s-8":
            start |= {"crowding": 1.5}

        def loss(values: Values) -> float:
            fit = _kind_fit(values)
            return soft_loss([table.ratio(fit) for table in tables])

        values = search(loss, start, LIMITS)
        found = loss(values)
        if best is None or found < best[0]:
            best = (found, values)
    assert best is not None
    fit = _kind_fit(best[1])
    return Fitted(kind, best[1], [(each.table, each.ratio(fit)) for each in tables])


def _kind_fit(values: Values) -> KindFit:
    return KindFit.model_construct(
        latency=values["latency"],
        per_rank_s=values["per_rank_us"] * 1e-6,
        rate=values["rate"],
        own_part=values["own_part"],
        ramp_s=values["ramp_us"] * 1e-6,
        ramp_bytes=values["ramp_kb"] * 1e3,
        crowding=values.get("crowding", 0.0),
    )
