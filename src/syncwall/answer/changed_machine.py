"""The same run on a machine that differs in one thing: adapters, links of GPUs, clocks.

Holds `with_nics`, `with_scale_up` and `with_power`; `scale_up_held`, a machine alone. What is left
idle or held down is what a fault of the machine costs when both runs are predicted.
"""

from math import gcd
from typing import Any, Literal

from pydantic import ValidationError

from syncwall.describe import Cluster, Run
from syncwall.describe.lookup import link
from syncwall.describe.names import varied


def with_nics(
    run: Run,
    count: int | None = None,
    rate_bytes_per_s: float | None = None,
    transport: Literal["rdma", "tcp", "gloo"] | None = None,
    *,
    gpu_direct: bool | None = None,
) -> Run | None:
    """`run` on the same machine with other adapters; None if there would be none.

    GPUs are dealt out to fewer adapters evenly, and rails are reduced to what they can share.
    """
    nics = run.cluster.node.nics
    if nics is None or count == 0:
        return None
    changes: dict[str, Any] = {}
    if count is not None and count != nics.count:
        changes |= {"count": count, "serves": None}
    if rate_bytes_per_s is not None:
        changes["rate_bytes_per_s"] = rate_bytes_per_s
    if transport is not None:
        changes["transport"] = transport
    if gpu_direct is not None:
        changes["gpu_direct"] = gpu_direct
    node = run.cluster.node.model_copy(update={"nics": nics.model_copy(update=changes)})
    rails = gcd(run.cluster.fabric.rails, changes.get("count", nics.count))
    fabric = run.cluster.fabric.model_copy(update={"rails": rails})
    return _on(run, {"node": node, "fabric": fabric})


def with_scale_up(run: Run, share: float) -> Run | None:
    """`run` with `share` of each GPU's links; None as for `scale_up_held`."""
    machine = scale_up_held(run.cluster, share)
    return None if machine is None else _on(run, {"scale_up": machine.scale_up})


def scale_up_held(machine: Cluster, share: float) -> Cluster | None:
    """`machine` with `share` of each GPU's links; with none of them, over PCIe.

    None if it has no such links, or nobody says which PCIe it has.
    """
    domain = machine.scale_up
    if domain is None or domain.topology == "pcie":
        return None
    changes: dict[str, Any] = {"rate_bytes_per_s": domain.rate_bytes_per_s * share}
    if share <= 0:
        name = machine.device.pcie
        if name is None:
            return None
        rate = link(name).rate_bytes_per_s
        changes = {"topology": "pcie", "rate_bytes_per_s": rate, "link": name}
        changes |= {"in_switch_reduction": False, "gpus": min(domain.gpus, machine.node.gpus)}
    return _changed(machine, {"scale_up": domain.model_copy(update=changes)})


def with_power(run: Run, share: float) -> Run | None:
    """`run` on devices that are held to a `share` of their power; None if nobody states that."""
    device = run.cluster.device
    if device.tdp_w is None:
        return None
    held = varied(device, {"power_limit": float(device.power_limit_w or device.tdp_w) * share})
    node = run.cluster.node.model_copy(update={"device": held})
    return _on(run, {"node": node})


def _changed(machine: Cluster, changes: dict[str, Any]) -> Cluster:
    stated = {name: getattr(machine, name) for name in Cluster.model_fields} | changes
    return Cluster.model_construct(**stated)


def _on(run: Run, changes: dict[str, Any]) -> Run | None:
    machine = _changed(run.cluster, changes)
    try:
        return Run(
            model=run.model, cluster=machine, layout=run.layout, software=run.software, seq=run.seq
        )
    except ValidationError:
        return None
