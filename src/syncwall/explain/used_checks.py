"""What NCCL used against what the host has.

Holds `Used`, `used_by` (from a log) and `check_used`.
"""

from collections.abc import Iterator
from dataclasses import dataclass

from syncwall.describe import Cluster, Run
from syncwall.explain.changed_machine import slowdown, with_nics
from syncwall.explain.finding import Finding
from syncwall.read.nccl_facts import NcclLog
from syncwall.read.topology import Topology


@dataclass(frozen=True, slots=True)
class Used:
    """What a job's communication ran over; None where unknown."""

    source: str
    """The file that says so."""
    nics: tuple[str, ...] = ()
    """Adapters with connections, by name."""
    direct: bool | None = None
    """True if all connections between nodes used GPUDirect RDMA."""
    transport: str | None = None
    """IB, Socket, OFI."""


def used_by(log: NcclLog) -> Used:
    """What `log` says was used."""
    names = {nic.index: nic.name for nic in log.nics}
    nics = tuple(names.get(index, "") for index in sorted(log.nics_used))
    return Used(log.source, tuple(name for name in nics if name), log.gdr, log.inter_node)


def check_used(
    topology: Topology, machine: Cluster, used: Used, run: Run | None
) -> Iterator[Finding]:
    """Adapters left idle, far adapters in use, and GPUDirect RDMA that could be on."""
    if machine.node.nics is None:
        return
    yield from _socket(machine, used, run)
    gpus = range(len(topology.gpus))
    beside = {topology.nics[i].name for gpu in gpus for i in topology.near_nics(gpu)}
    names = beside or {nic.name for nic in topology.nics}
    known = {nic.name for nic in topology.nics}
    idle = sorted(names - set(used.nics))
    if used.nics and idle and set(used.nics) & known:
        left = max(machine.node.nics.count * (len(names) - len(idle)) // len(names), 1)
        yield Finding(
            "wrong",
            f"NCCL used {len(names) - len(idle)} of {len(names)} adapters next to GPUs; "
            f"{', '.join(idle[:4])} idle",
            "rails that are not used are bandwidth that is paid for and lost",
            "check NCCL_IB_HCA and that every port is up; NCCL_CROSS_NIC and the fabric's rails "
            "decide the rest",
            used.source,
            slowdown(run, with_nics(run, count=left)) if run else None,
        )
    stray = sorted(set(used.nics) & known - beside) if beside else []
    if stray:
        yield Finding(
            "suspect",
            f"NCCL used {', '.join(stray[:4])}, which is next to no GPU",
            "its traffic passes the CPU; such adapters are mostly for storage or management",
            f"leave them out: NCCL_IB_HCA=^{','.join(stray[:4])}",
            used.source,
        )
    near = [topology.nearest_nic(gpu) for gpu in gpus]
    if used.direct is False and near and all(d is not None and d.near for d in near):
        yield Finding(
            "wrong",
            "NCCL went through host memory though every GPU has an adapter below its switch",
            "GPUDirect RDMA is possible here and would spare the CPU's memory and PCIe links",
            "load nvidia-peermem, switch PCIe ACS off, unset NCCL_NET_GDR_LEVEL",
            used.source,
        )


def _socket(machine: Cluster, used: Used, run: Run | None) -> Iterator[Finding]:
    nics = machine.node.nics
    if used.transport == "Socket" and nics is not None and nics.transport == "rdma":
        yield Finding(
            "wrong",
            f"NCCL used TCP sockets on {machine.name}, whose adapters can RDMA",
            "sockets cost CPU time and copies",
            "find out why NET/IB or the vendor's plugin did not load: NCCL_DEBUG=INFO, "
            "NCCL_IB_DISABLE, devices and plugin in the container",
            used.source,
            slowdown(run, with_nics(run, transport="tcp")) if run else None,
        )
