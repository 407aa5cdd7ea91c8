"""All entries of a kind as lines of plain data, and what `show` answers.

Holds `ShowRecord`, `listing` and `plugin_lines`. Numbers stand in the middle of a line, and at its
end what narrow screens can do without.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Final, get_args

from syncwall import catalogue, plugins
from syncwall.catalogue import CatalogueKind
from syncwall.describe import lookup
from syncwall.describe.choice import Dtype
from syncwall.describe.job import FailureRates
from syncwall.describe.software import at
from syncwall.public import published

Line = dict[str, Any]


@published()
@dataclass(frozen=True)
class ShowRecord:
    """All entries of a kind, or one of them."""

    kind: str
    """What one entry is: device, link, cluster, model, price, framework, switch, failure, run, term
    or plugin."""
    entries: list[dict[str, Any]] | None = None
    """A few figures of each, SI units in the names; null if one was asked for."""
    entry: dict[str, Any] | None = None
    """The one that was asked for: its fields, what follows from them, and under `provenance` the
    origin of every number by its dotted path."""


def listing(kind: CatalogueKind) -> list[Line]:
    """One line of plain data for every entry of a kind, SI units in the names."""
    if kind is CatalogueKind.PRICE:
        return [line for name in catalogue.names(kind) for line in _offers(name)]
    return [_LINES[kind](name) for name in catalogue.names(kind)]


def plugin_lines() -> list[Line]:
    """What packages add to each table, and why some of it is not used."""
    from syncwall.answer.pricing import networks
    from syncwall.cost.nccl import algorithms
    from syncwall.describe.huggingface import architectures
    from syncwall.describe.settings.formats import formats
    from syncwall.explain.readers import readers

    for table in (architectures, catalogue.plugged, algorithms, networks, readers, formats):
        table()
    return [
        {"name": one.name, "group": one.group, "package": one.package, "problem": one.problem}
        for group in get_args(plugins.Group)
        for one in plugins.added(group)
    ]


def _device(name: str) -> Line:
    device = lookup.device(name)
    return {
        "name": name,
        "bf16_flop_per_s": _number(device.peak_flop_per_s.get(Dtype.BF16)),
        "memory_bytes": _number(device.memory.size_bytes),
        "memory_bytes_per_s": _number(device.memory.rate_bytes_per_s),
        "scale_up_bytes_per_s": _number(device.scale_up and device.scale_up.rate_bytes_per_s),
        "tdp_w": _number(device.tdp_w),
        "released": device.released,
        "title": device.title,
    }


def _link(name: str) -> Line:
    link = lookup.link(name)
    best = max(link.effective, key=lambda effective: effective.fraction, default=None)
    return {
        "name": name,
        "kind": link.kind,
        "per": link.per,
        "rate_bytes_per_s": _number(link.rate_bytes_per_s),
        "best_measured": best and f"{best.fraction:.0%} ({best.what})",
    }


def _cluster(name: str) -> Line:
    cluster = lookup.cluster(name)
    nics, scale_up = cluster.node.nics, cluster.scale_up
    return {
        "name": name,
        "device": cluster.device.name,
        "gpus_per_node": int(cluster.node.gpus),
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
            "terms": offer.terms,
            "price_usd_per_gpu_hour": _number(offer.price_usd_per_gpu_hour),
            "date": offer.date,
            "instance": offer.instance,
            "region": offer.region,
        }
        for offer in lookup.price_list(seller).offers
    ]


def _number(value: Any) -> float | None:
    return None if value is None else float(value)


_LINES: Final[dict[CatalogueKind, Callable[[str], Line]]] = {
    CatalogueKind.DEVICE: _device,
    CatalogueKind.LINK: _link,
    CatalogueKind.CLUSTER: _cluster,
    CatalogueKind.MODEL: _model,
    CatalogueKind.FRAMEWORK: _framework,
    CatalogueKind.SWITCH: _switch,
    CatalogueKind.FAILURE: _failures,
}
