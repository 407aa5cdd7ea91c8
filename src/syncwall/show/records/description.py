"""Descriptions as plain data for JSON, with the source of every number.

Holds `record`, and `derived`, the values that follow from an entry but do not stand in it.
"""

from collections.abc import Iterator
from dataclasses import asdict
from typing import Any

from syncwall.describe import Cluster, Device, Link, Model, Run
from syncwall.describe.base import Description
from syncwall.describe.provenance import Count, SourcedNumber
from syncwall.describe.stack import of_a_sample
from syncwall.show.records.interface import plain


def record(description: Description) -> dict[str, Any]:
    """`description` and what follows from it, ready for `json.dumps`.

    Numbers are plain and in SI units; `provenance` has the origin of each by its dotted path.
    """
    fields: dict[str, Any] = plain(description)
    origins = dict(_origins(description, ()))
    return fields | derived(description) | {"provenance": origins}


def _origins(value: Any, path: tuple[str, ...]) -> Iterator[tuple[str, dict[str, Any]]]:
    """Dotted path and provenance of every sourced number inside."""
    if isinstance(value, (SourcedNumber, Count)):
        yield ".".join(path), value.provenance.as_dict()
    elif isinstance(value, Description):
        for name in type(value).model_fields:
            yield from _origins(getattr(value, name), (*path, name))
    elif isinstance(value, dict):
        for key, inner in value.items():
            yield from _origins(inner, (*path, str(key)))
    elif isinstance(value, (list, tuple)):
        for number, inner in enumerate(value):
            yield from _origins(inner, (*path, str(number)))


def derived(description: Description) -> dict[str, Any]:
    """Values that follow from `description`, by name with unit."""
    if isinstance(description, Model):
        return _of_model(description)
    if isinstance(description, Cluster):
        return _of_cluster(description)
    if isinstance(description, Device):
        return _of_device(description)
    if isinstance(description, Link):
        return {"effective_fraction": [round(e.fraction, 4) for e in description.effective]}
    if isinstance(description, Run):
        return {"gpus": description.gpus, "tokens_per_step": description.tokens_per_step}
    return {}


def _of_model(model: Model) -> dict[str, Any]:
    count = model.parameter_count
    counted = {
        "parameters": count.total,
        "active_parameters": count.active,
        "parameters_by_part": asdict(count),
    }
    if model.stack is not None:
        return counted | of_a_sample(model.stack)
    return {
        **counted,
        "dense_layers": model.dense_layers,
        "moe_layers": model.moe_layers,
        "full_attention_layers": model.full_attention_layers,
        "kv_heads": model.kv_heads,
        "head_dim": model.head_dim,
    }


def _of_cluster(cluster: Cluster) -> dict[str, Any]:
    nics, scale_up = cluster.node.nics, cluster.scale_up
    return {
        "gpus": cluster.gpus,
        "scale_up_gpus": cluster.domain_gpus,
        "scale_up_bytes_per_s_per_gpu": float(scale_up.rate_bytes_per_s) if scale_up else None,
        "nics_per_node": int(nics.count) if nics else 0,
        "nic_bytes_per_s": float(nics.rate_bytes_per_s) if nics else None,
        "nic_bytes_per_s_per_gpu": float(cluster.nic_bytes_per_s_per_gpu),
        "gpus_of_each_nic": [list(group) for group in cluster.nic_groups],
    }


def _of_device(device: Device) -> dict[str, Any]:
    achieved = device.achieved_flop_per_s
    return {
        "achieved_fraction": {
            str(dtype): round(rate / device.peak_flop_per_s[dtype], 4)
            for dtype, rate in achieved.items()
            if dtype in device.peak_flop_per_s
        }
    }
