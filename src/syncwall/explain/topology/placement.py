"""Where GPUs, adapters and processors stand to each other.

Holds `check_distance`, `check_shared`, `check_pcie`, `check_direct`, `check_peers` and
`check_memory_nodes`. `Used`, `used_by` (from a log) and `check_used`: what NCCL used against what
the host has.
"""

from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from syncwall.answer.changed_machine import with_nics
from syncwall.describe import Cluster, Run
from syncwall.explain.changed_machine import slowdown
from syncwall.explain.finding import Finding
from syncwall.read.nccl_facts import NcclLog
from syncwall.read.topology import Distance, HostTopology


def check_distance(topology: HostTopology, machine: Cluster, run: Run | None) -> Iterator[Finding]:
    """GPUs whose nearest adapter is beyond a CPU; only a note on machines built with a single one.

    NCCL uses GPUDirect RDMA by itself only where traffic stays below the CPU. Far GPUs hand their
    data to a GPU beside an adapter (PXN) where NVLink joins them, so that all share these adapters.
    """
    nearest = [topology.nearest_nic(i) for i in range(len(topology.gpus))]
    if machine.node.nics is None or None in nearest or not nearest:
        return
    far = [i for i, d in enumerate(nearest) if d is not None and not d.near]
    if not far:
        return
    names = ", ".join(topology.gpus[i].name for i in far)
    worst = max(d for d in nearest if d is not None)
    some = len(far) < len(nearest)
    alone = machine.node.nics.count == len(topology.nics) == 1
    beside = {nic for i in range(len(nearest)) for nic in topology.near_nics(i)}
    count = min(len(beside), machine.node.nics.count) if beside else None
    yield Finding(
        "note" if alone else "wrong" if some else "suspect",
        f"{names}: nearest adapter at {worst.name}"
        + (", the other GPUs have one below the same PCIe switch" if some else ""),
        "beyond a PCIe switch data passes the CPU, and NCCL leaves GPUDirect RDMA off",
        "move adapters so that every GPU has one below its switch; until then keep PXN on"
        if some
        else "in a virtual machine give NCCL the real tree (NCCL_TOPO_FILE); on bare metal check "
        "the slots",
        topology.where(topology.gpus[far[0]]),
        slowdown(run, with_nics(run, count=count)) if run and some and count else None,
    )


def check_shared(topology: HostTopology, machine: Cluster, run: Run | None) -> Iterator[Finding]:
    """More GPUs on an adapter than described."""
    nics = machine.node.nics
    if nics is None or not topology.nics:
        return
    groups: dict[tuple[int, ...], list[int]] = defaultdict(list)
    for gpu in range(len(topology.gpus)):
        if near := topology.near_nics(gpu):
            groups[near].append(gpu)
    expected = max(machine.node.gpus / nics.count, 1.0)
    for near, gpus in groups.items():
        ratio = len(gpus) / len(near)
        if ratio > 1.01 * expected:
            left = max(int(machine.node.gpus / ratio), 1)
            shared = topology.nics[near[0]]
            yield Finding(
                "suspect",
                f"{', '.join(topology.gpus[i].name for i in gpus)} share "
                f"{', '.join(topology.nics[i].name for i in near)}",
                f"{ratio:.3g} GPUs an adapter where {expected:.3g} are described: each has so much "
                "less of the network, and the slowest group sets the pace",
                "check that no adapter is missing below this switch",
                topology.where(shared if shared.line else topology.gpus[gpus[0]]),
                slowdown(run, with_nics(run, count=left)) if run else None,
            )


def check_pcie(topology: HostTopology, machine: Cluster, run: Run | None) -> Iterator[Finding]:
    """Adapters whose PCIe link is slower than their ports; GPUs with a slower link than others."""
    ports: dict[str, list[int]] = defaultdict(list)
    for i, nic in enumerate(topology.nics):
        if nic.bus and nic.pcie_bytes_per_s and nic.rate_bytes_per_s:
            ports[nic.bus].append(i)
    for bus, indices in ports.items():
        nic = topology.nics[indices[0]]
        rate = sum(topology.nics[i].rate_bytes_per_s or 0.0 for i in indices)
        pcie = nic.pcie_bytes_per_s or rate
        if pcie < rate and machine.node.nics is not None:
            per_nic = machine.node.nics.rate_bytes_per_s * pcie / rate
            changed = with_nics(run, rate_bytes_per_s=per_nic) if run else None
            yield Finding(
                "wrong",
                f"{nic.name} at {bus} has a PCIe link of {pcie * 8e-9:.0f} Gb/s for ports of "
                f"{rate * 8e-9:.0f} Gb/s",
                "the adapter cannot send faster than the host feeds it",
                "lspci -vv: compare LnkSta with LnkCap; reseat the card or use a wider slot",
                topology.where(nic),
                slowdown(run, changed),
            )
    rates = [gpu.pcie_bytes_per_s for gpu in topology.gpus if gpu.pcie_bytes_per_s]
    slow = [g for g in topology.gpus if g.pcie_bytes_per_s and g.pcie_bytes_per_s < max(rates)]
    if slow:
        yield Finding(
            "suspect",
            f"{slow[0].name} has a PCIe link of {(slow[0].pcie_bytes_per_s or 0) * 8e-9:.0f} Gb/s, "
            f"others {max(rates) * 8e-9:.0f}",
            "copies between host and this GPU, and GPUDirect RDMA, are slower; an idle GPU may "
            "only have put its link to sleep",
            "read it again under load (nvidia-smi -q -d PCIE)",
            topology.where(slow[0]),
        )


def check_direct(topology: HostTopology, machine: Cluster, run: Run | None) -> Iterator[Finding]:
    """GPUDirect RDMA that the machine should have and the file denies.

    The cost is not predicted: the model has no term for the way through host memory.
    """
    nics = machine.node.nics
    if nics is None or not nics.gpu_direct or nics.transport != "rdma":
        return
    denied = [nic for nic in topology.nics if nic.direct is False]
    gpus = [gpu for gpu in topology.gpus if gpu.direct is False]
    for kind, devices in (("adapters", denied), ("GPUs", gpus)):
        if devices:
            yield Finding(
                "suspect" if run and run.nodes == 1 else "wrong",
                f"GPUDirect RDMA is off for {len(devices)} {kind}, {devices[0].name} first",
                "every byte between nodes passes host memory and the CPU's PCIe links twice",
                "load nvidia-peermem (or use DMA-BUF with an open driver), switch PCIe ACS off on "
                "bare metal, and look for GDRDMA in NCCL_DEBUG=INFO",
                topology.where(devices[0]),
            )
            return


def check_peers(topology: HostTopology, machine: Cluster, run: Run | None) -> Iterator[Finding]:
    """GPUs joined by PCIe across sockets, where direct access may be impossible."""
    del run
    pairs = [
        (i, j)
        for i, row in enumerate(topology.gpu_gpu)
        for j, distance in enumerate(row)
        if i < j and distance in (Distance.NODE, Distance.SYS)
    ]
    linked = machine.scale_up is not None and machine.scale_up.topology != "pcie"
    if pairs and not linked:
        i, j = pairs[0]
        yield Finding(
            "note",
            f"{len(pairs)} pairs of GPUs meet across sockets, {topology.gpus[i].name} and "
            f"{topology.gpus[j].name} first",
            "peers this far apart often cannot access each other (P2P): NCCL then copies through "
            "host memory",
            "nvidia-smi topo -p2p r shows which pairs can; put tensor parallelism inside a socket",
            topology.where(topology.gpus[i]),
        )


def check_memory_nodes(
    topology: HostTopology, bound: Mapping[int, frozenset[int]] | None = None
) -> Iterator[Finding]:
    """GPUs spread unevenly over memory nodes, and processes bound to far processors.

    `bound` has the processors that the process of each GPU (by number) may use.
    """
    homes = Counter(gpu.numa for gpu in topology.gpus if gpu.numa is not None and gpu.numa >= 0)
    if len(homes) > 1 and len(set(homes.values())) > 1:
        spread = ", ".join(f"{count} on node {node}" for node, count in sorted(homes.items()))
        yield Finding(
            "note",
            f"GPUs lie unevenly on memory nodes: {spread}",
            "data loaders and copies of the fuller node share its memory and PCIe links",
            "spread loader processes by node, or use the GPUs evenly",
            topology.where(topology.gpus[0]),
        )
    for number, cpus in (bound or {}).items():
        gpu = topology.gpus[number] if 0 <= number < len(topology.gpus) else None
        if gpu is not None and gpu.cpus and cpus and not cpus & gpu.cpus:
            yield Finding(
                "wrong",
                f"the process of {gpu.name} is bound to processors {_span(cpus)}, its own are "
                f"{_span(gpu.cpus)}",
                "launches and copies cross the link between sockets",
                "bind by GPU: numactl --cpunodebind, Slurm --gpu-bind=closest, or no binding",
                topology.where(gpu),
            )


def _span(cpus: frozenset[int]) -> str:
    return f"{min(cpus)}-{max(cpus)}"


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
    topology: HostTopology, machine: Cluster, used: Used, run: Run | None
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
