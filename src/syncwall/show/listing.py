"""All entries of a kind as one table.

Holds `listing`: the rows as plain data, `heading` and `cell`: the same as text, and
`listing_table`: the same for the terminal.
"""

from collections.abc import Callable
from typing import Any, Final

from rich.table import Table

from syncwall import catalogue, units
from syncwall.catalogue import Kind
from syncwall.describe import lookup
from syncwall.describe.choice import Dtype
from syncwall.describe.framework import at
from syncwall.describe.job import FailureRates
from syncwall.show.headed import plain_table
from syncwall.units import Dimension

Line = dict[str, Any]

# Columns that are quantities; the others are shown as they are.
_DIMENSIONS: Final = {
    "bf16_flop_per_s": Dimension.FLOP_PER_S,
    "memory_bytes": Dimension.BYTES,
    "memory_bytes_per_s": Dimension.BYTES_PER_S,
    "scale_up_bytes_per_s": Dimension.BYTES_PER_S,
    "nic_bytes_per_s": Dimension.BYTES_PER_S,
    "rate_bytes_per_s": Dimension.BYTES_PER_S,
    "tdp_w": Dimension.WATTS,
    "host_per_operation_s": Dimension.SECONDS,
    "price_usd_per_gpu_hour": Dimension.USD_PER_GPU_HOUR,
}
_UNITS_IN_NAMES: Final = ("_flop_per_s", "_bytes_per_s", "_bytes", "_usd_per_gpu_hour", "_w", "_s")


def listing(kind: Kind) -> list[Line]:
    """One line of plain data for every entry of a kind, SI units in the names."""
    if kind is Kind.PRICE:
        return [line for name in catalogue.names(kind) for line in _offers(name)]
    return [_LINES[kind](name) for name in catalogue.names(kind)]


def listing_table(lines: list[Line]) -> Table:
    """`lines` with units for people."""
    table = plain_table(header=True)
    columns = list(lines[0]) if lines else []
    for column in columns:
        numeric = isinstance(lines[0][column], (int, float)) or column in _DIMENSIONS
        table.add_column(heading(column), justify="right" if numeric else "left", overflow="fold")
    for line in lines:
        table.add_row(*(cell(column, line[column]) for column in columns))
    return table


def heading(column: str) -> str:
    """The name of a column for people."""
    for unit in _UNITS_IN_NAMES:
        column = column.removesuffix(unit)
    return column.replace("_", " ")


def cell(column: str, value: Any) -> str:
    """A value of a column with its unit."""
    if value is None:
        return "–"
    if column in _DIMENSIONS:
        return units.format(value, _DIMENSIONS[column], digits=4)
    return f"{value:,}" if isinstance(value, int) else str(value)


def _device(name: str) -> Line:
    device = lookup.device(name)
    return {
        "name": name,
        "title": device.title,
        "bf16_flop_per_s": _number(device.peak_flop_per_s.get(Dtype.BF16)),
        "memory_bytes": _number(device.memory.size_bytes),
        "memory_bytes_per_s": _number(device.memory.rate_bytes_per_s),
        "scale_up_bytes_per_s": _number(device.scale_up and device.scale_up.rate_bytes_per_s),
        "tdp_w": _number(device.tdp_w),
        "released": device.released,
    }


def _link(name: str) -> Line:
    link = lookup.link(name)
    best = max(link.effective, key=lambda effective: effective.fraction, default=None)
    return {
        "name": name,
        "kind": link.kind,
        "rate_bytes_per_s": _number(link.rate_bytes_per_s),
        "per": link.per,
        "best_measured": best and f"{best.fraction:.0%} ({best.what})",
    }


def _cluster(name: str) -> Line:
    cluster = lookup.cluster(name)
    nics, scale_up = cluster.node.nics, cluster.scale_up
    return {
        "name": name,
        "gpus_per_node": int(cluster.node.gpus),
        "device": cluster.device.name,
        "scale_up_gpus": int(scale_up.gpus) if scale_up else 1,
        "scale_up_bytes_per_s": _number(scale_up and scale_up.rate_bytes_per_s),
        "nics": int(nics.count) if nics else 0,
        "nic_bytes_per_s": _number(nics and nics.rate_bytes_per_s),
        "title": cluster.title,
    }


def _model(name: str) -> Line:
    model = lookup.model(name)
    return {
        "name": name,
        "parameters": model.parameters,
        "active": model.active_parameters,
        "layers": int(model.layers),
        "hidden": int(model.hidden),
        "heads": int(model.attention.heads),
        "kv_heads": model.kv_heads,
        "experts": int(model.moe.experts) if model.moe else None,
        "train_seq": model.train_seq,
    }


def _framework(name: str) -> Line:
    framework = lookup.framework(name)
    return {
        "name": name,
        "attention": at(framework.attention, None),
        "kernels": framework.kernels,
        "host_per_operation_s": float(framework.host.per_operation_s),
        "title": framework.title,
    }


def _switch(name: str) -> Line:
    switch = lookup.switch(name)
    return {
        "name": name,
        "ports": int(switch.ports),
        "rate_bytes_per_s": _number(switch.rate_bytes_per_s),
        "most_ports": int(switch.most_ports or switch.ports),
        "title": switch.title,
    }


def _failures(name: str) -> Line:
    rates = lookup.failure_rates(name)
    return {
        "name": name,
        "per_1000_node_days": round(_of_a_node(rates), 2),
        "deviation": rates.deviation,
        "causes": ", ".join(cause.name for cause in rates.causes),
        "title": rates.title,
    }


def _of_a_node(rates: FailureRates) -> float:
    """Failures a day of 1,000 nodes of 8 GPUs and 8 NICs, four to a rack."""
    many = {"gpu": 8.0, "nic": 8.0, "node": 1.0, "rack": 0.25}
    return sum(cause.per_1000_days * many.get(cause.per, 0.0) for cause in rates.causes)


def _offers(seller: str) -> list[Line]:
    return [
        {
            "seller": seller,
            "device": offer.device,
            "price_usd_per_gpu_hour": _number(offer.price_usd_per_gpu_hour),
            "terms": offer.terms,
            "date": offer.date,
            "instance": offer.instance,
            "region": offer.region,
        }
        for offer in lookup.price_list(seller).offers
    ]


def _number(value: Any) -> float | None:
    return None if value is None else float(value)


_LINES: Final[dict[Kind, Callable[[str], Line]]] = {
    Kind.DEVICE: _device,
    Kind.LINK: _link,
    Kind.CLUSTER: _cluster,
    Kind.MODEL: _model,
    Kind.FRAMEWORK: _framework,
    Kind.SWITCH: _switch,
    Kind.FAILURE: _failures,
}
