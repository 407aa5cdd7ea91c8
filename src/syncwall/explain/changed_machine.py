"""What a fault of the machine costs a run: the same run predicted on both machines.

Holds `machine_with_nics` and `machine_with_scale_up`, a machine with a fault; `with_nics`,
`with_scale_up`, a run on it, and `slowdown`. `price_for`: what a finding in a NCCL log costs a
run, by predicting it on the machine that NCCL used. The run is taken as it should be; the log says
what of its machine was left idle.
"""

from collections.abc import Callable
from math import gcd
from typing import Any, Literal

from pydantic import ValidationError

from syncwall.answer.prediction import predict
from syncwall.describe import Cluster, Run
from syncwall.describe.lookup import link
from syncwall.read.nccl_facts import NcclLog


def machine_with_nics(
    machine: Cluster,
    count: int | None = None,
    rate_bytes_per_s: float | None = None,
    transport: Literal["rdma", "tcp", "gloo"] | None = None,
) -> Cluster | None:
    """`machine` with other adapters; None if there would be none.

    GPUs are dealt out to fewer adapters evenly, and rails are reduced to what they can share.
    """
    nics = machine.node.nics
    if nics is None or count == 0:
        return None
    changes: dict[str, Any] = {}
    if count is not None and count != nics.count:
        changes |= {"count": count, "serves": None}
    if rate_bytes_per_s is not None:
        changes["rate_bytes_per_s"] = rate_bytes_per_s
    if transport is not None:
        changes["transport"] = transport
    node = machine.node.model_copy(update={"nics": nics.model_copy(update=changes)})
    rails = gcd(machine.fabric.rails, changes.get("count", nics.count))
    fabric = machine.fabric.model_copy(update={"rails": rails})
    return _changed(machine, {"node": node, "fabric": fabric})


def machine_with_scale_up(machine: Cluster, share: float) -> Cluster | None:
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


def _changed(machine: Cluster, changes: dict[str, Any]) -> Cluster:
    stated = {name: getattr(machine, name) for name in Cluster.model_fields} | changes
    return Cluster.model_construct(**stated)


def with_nics(
    run: Run,
    count: int | None = None,
    rate_bytes_per_s: float | None = None,
    transport: Literal["rdma", "tcp", "gloo"] | None = None,
) -> Run | None:
    """`run` on the same machine with other adapters; None if there would be none."""
    return _on(run, machine_with_nics(run.cluster, count, rate_bytes_per_s, transport))


def with_scale_up(run: Run, share: float) -> Run | None:
    """`run` with `share` of each GPU's links; None as for `machine_with_scale_up`."""
    return _on(run, machine_with_scale_up(run.cluster, share))


def _on(run: Run, machine: Cluster | None) -> Run | None:
    if machine is None:
        return None
    try:
        return Run(
            model=run.model, cluster=machine, layout=run.layout, software=run.software, seq=run.seq
        )
    except ValidationError:
        return None


def slowdown(run: Run | None, changed: Run | None) -> float | None:
    """Predicted step of `changed` over that of `run`; None if one of them is not known."""
    if run is None or changed is None:
        return None
    return predict(changed).step_s / predict(run).step_s


def price_for(run: Run) -> Callable[[str, NcclLog], float | None]:
    """Slowdown by key of the finding: socket, rails, p2p-off; None for what is not modelled."""

    def price(key: str, log: NcclLog) -> float | None:
        changed: Run | None = None
        if key == "socket":
            changed = with_nics(run, transport="tcp")
        elif key == "rails" and log.nics and run.cluster.node.nics is not None:
            kept = run.cluster.node.nics.count * len(log.nics_used) // len(log.nics)
            changed = with_nics(run, count=max(kept, 1))
        elif key == "p2p-off" and not any(name.startswith("P2P") for name in log.transports):
            changed = with_scale_up(run, 0.0)
        return slowdown(run, changed)

    return price
