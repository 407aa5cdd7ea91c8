"""Hosts and fabrics: what stands where, and what is wrong with it."""

from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from itertools import chain

from syncwall.answer.pricing import with_nics, with_scale_up
from syncwall.describe import Cluster, Run
from syncwall.explain.finding import Finding, worst_first
from syncwall.explain.machines import LIKELY_RATE, devices_of
from syncwall.explain.remedies import slowdown
from syncwall.read.fabric_file import FabricGraph
from syncwall.read.nccl_facts import NcclLog
from syncwall.read.topology import Distance, Gpu, HostTopology


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
        else "in a virtual machine give NCCL the real tree (NCCL_TOPO_FILE); on bare metal check the slots",
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
            "peers this far apart often cannot access each other (P2P): NCCL then copies through host memory",
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


def check_used(topology: HostTopology, machine: Cluster, used: Used, run: Run | None) -> Iterator[Finding]:
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


def check_gpus(topology: HostTopology, machine: Cluster, run: Run | None) -> Iterator[Finding]:
    """Fewer GPUs than described, other GPUs, or GPUs that differ."""
    found, built = len(topology.gpus), machine.node.gpus
    used = run.gpus_per_node if run else built
    if 0 < found < built:
        yield Finding(
            "wrong" if found < used else "note",
            f"{found} of {built} GPUs are there",
            f"{machine.name} has {built} GPUs a node; a GPU that fell off the bus, or is hidden by "
            "CUDA_VISIBLE_DEVICES or a container, leaves its share of the work to nobody",
            "look for Xid messages in dmesg; compare with nvidia-smi -L outside the container",
            topology.where(),
        )
    kinds = {(gpu.pci_id, gpu.model, gpu.architecture) for gpu in topology.gpus}
    if len(kinds) > 1:
        yield Finding(
            "suspect",
            f"GPUs of {len(kinds)} kinds in one host",
            "in synchronous training all wait for the slowest",
            "use GPUs of one kind, or give the slower ones less work",
            topology.where(topology.gpus[0]),
        )
    for gpu in topology.gpus[:1]:
        names = devices_of(gpu)
        if names and machine.device.name not in names:
            yield Finding(
                "wrong",
                f"the GPUs are {' or '.join(names)}, the description says {machine.device.name}",
                "every prediction rests on the device",
                "describe the machine that you have (--cluster), or check what was booked",
                topology.where(gpu),
            )


def check_links(topology: HostTopology, machine: Cluster, run: Run | None) -> Iterator[Finding]:
    """NVLinks or xGMI links that are missing."""
    domain, built = machine.scale_up, machine.device.scale_up
    if domain is None or domain.topology == "pcie":
        return
    shares = {}
    for gpu in topology.gpus:
        if gpu.link_bytes_per_s is not None:
            shares[gpu.name] = gpu.link_bytes_per_s / domain.rate_bytes_per_s
        elif gpu.links is not None and built is not None:
            shares[gpu.name] = gpu.links / built.links
    poor = {name: share for name, share in shares.items() if share < 0.95}
    if not poor:
        return
    worst = min(poor.values())
    gpu = next(gpu for gpu in topology.gpus if gpu.name in poor)
    yield Finding(
        "wrong",
        f"{_names(list(poor))} {_links_left(gpu, worst)}",
        f"{machine.name} joins its GPUs at {domain.rate_bytes_per_s / 1e9:.0f} GB/s each way; "
        "tensor parallelism and collectives inside the node run at the pace of the poorest GPU",
        "nvidia-smi nvlink -s on the host; look for Xid 74 and a stopped nvidia-fabricmanager",
        topology.where(gpu),
        slowdown(run, with_scale_up(run, worst)) if run else None,
    )


def _links_left(gpu: Gpu, share: float) -> str:
    """How the worst GPU stands: the number of links where the file counts them."""
    if share == 0:
        return "reach the others over PCIe only"
    counted = f" ({gpu.links} links)" if gpu.links is not None else ""
    return f"have {share:.0%} of their links{counted}"


def check_nics(topology: HostTopology, machine: Cluster, run: Run | None) -> Iterator[Finding]:
    """Fewer adapters than described, or slower ones."""
    nics = machine.node.nics
    if nics is None or not topology.gpus:
        return
    rates = [nic.rate_bytes_per_s for nic in topology.nics if nic.rate_bytes_per_s]
    found = len(topology.nics)
    if found < nics.count and not rates and topology.nics:
        yield Finding(
            "wrong",
            f"{found} of {nics.count} adapters are there",
            "each GPU has so much less of the network",
            "ibdev2netdev, lspci and the container's devices: is an adapter down or not passed on?",
            topology.where(topology.nics[0]),
            slowdown(run, with_nics(run, count=found)) if run else None,
        )
    if not rates:
        return
    expected = nics.count * nics.rate_bytes_per_s
    if sum(rates) < LIKELY_RATE[0] * expected:
        slow = min(topology.nics, key=lambda nic: nic.rate_bytes_per_s or float("inf"))
        yield Finding(
            "wrong",
            f"{len(rates)} ports give {sum(rates) * 8e-9:.0f} of {expected * 8e-9:.0f} Gb/s",
            f"{machine.name} has {nics.count} adapters of {nics.rate_bytes_per_s * 8e-9:.0f} Gb/s; "
            "everything between nodes is slower by as much",
            "check speed and width of each port (ibstat, ethtool) and which of them NCCL may use "
            "(NCCL_IB_HCA)",
            topology.where(slow),
            slowdown(run, with_nics(run, rate_bytes_per_s=sum(rates) / nics.count)) if run else None,
        )
    if len(set(rates)) > 1:
        slow = min(topology.nics, key=lambda nic: nic.rate_bytes_per_s or float("inf"))
        yield Finding(
            "suspect",
            f"ports of different rates: {_rates(rates)} Gb/s",
            "a ring over all of them runs at the pace of the slowest, unless NCCL leaves it out",
            f"leave {slow.name} out with NCCL_IB_HCA=^{slow.name} if it is not for training",
            topology.where(slow),
        )


def _rates(rates: list[float]) -> str:
    return ", ".join(f"{rate * 8e-9:.0f}" for rate in sorted(set(rates)))


def _names(names: list[str]) -> str:
    return ", ".join(names) if len(names) < 5 else f"{names[0]} and {len(names) - 1} more GPUs"


def check_fabric(fabric: FabricGraph) -> tuple[Finding, ...]:
    """What is uneven in `fabric`, the worst first; what most parts have is taken as meant."""
    return worst_first((*_slow(fabric), *_uplinks(fabric), *_adapters(fabric)))


def _slow(fabric: FabricGraph) -> Iterator[Finding]:
    """Cables below the usual rate: a worn cable trains down to fewer lanes or a lower speed."""
    rates = Counter(c.rate_bytes_per_s for c in fabric.cables if c.rate_bytes_per_s)
    if not rates:
        return
    usual = rates.most_common(1)[0][0] or 0.0
    slow = [c for c in fabric.cables if c.rate_bytes_per_s and c.rate_bytes_per_s < usual]
    for cable in sorted(slow, key=lambda c: c.rate_bytes_per_s or 0.0)[:5]:
        names = [fabric.nodes[end].title or end for end in (cable.a, cable.b)]
        rate = (cable.rate_bytes_per_s or 0.0) * 8e-9
        yield Finding(
            "wrong",
            f"{names[0]} to {names[1]} runs at {cable.width} ({rate:.0f} Gb/s)",
            f"most cables run at {usual * 8e-9:.0f} Gb/s; calls through this one have its pace",
            "clean or replace the cable; read errors with ibqueryerrors",
            f"{fabric.source}:{cable.line}",
        )


def _uplinks(fabric: FabricGraph) -> Iterator[Finding]:
    """Leaves whose cables to hosts outnumber those upwards by more than most leaves'."""
    leaves = [name for name, tier in fabric.tiers.items() if tier == 1]
    counts = {name: fabric.down_and_up(name) for name in leaves}
    ups = Counter(up for _, up in counts.values() if up)
    if not ups:
        return
    usual = ups.most_common(1)[0][0]
    poor = [name for name, (down, up) in counts.items() if 0 < up < usual and down > up]
    for name in sorted(poor, key=lambda name: counts[name][1])[:5]:
        down, up = counts[name]
        node = fabric.nodes[name]
        yield Finding(
            "suspect",
            f"{node.title or name} has {up} cables upwards for {down} downwards; most leaves have {usual}",
            f"when all its hosts send away at once each gets {up / down:.0%} of its rate",
            "look for cables that are down (ibnetdiscover again, or the switch's own list)",
            f"{fabric.source}:{node.line}",
        )


def _adapters(fabric: FabricGraph) -> Iterator[Finding]:
    """Hosts that show fewer adapters than most hosts do."""
    counts = Counter(node.host for node in fabric.adapters if node.host is not None)
    sizes = Counter(counts.values())
    if len(sizes) < 2:
        return
    usual = sizes.most_common(1)[0][0]
    fewer = sorted(str(host) for host, count in counts.items() if count < usual)
    nameless = sum(node.host is None for node in fabric.adapters)
    if fewer:
        yield Finding(
            "note" if nameless else "suspect",
            f"{len(fewer)} of {len(counts)} hosts show fewer than {usual} adapters: {', '.join(fewer[:4])}",
            "a host with fewer adapters slows every job that it takes part in"
            + (f"; {nameless} adapters tell no host, so they may be theirs" if nameless else ""),
            "ibstat on these hosts: is a port down, or its description not set?",
            fabric.source,
        )


_CHECKS = (
    check_gpus,
    check_links,
    check_nics,
    check_distance,
    check_shared,
    check_pcie,
    check_direct,
    check_peers,
)


def check_topology(
    topology: HostTopology,
    machine: Cluster,
    run: Run | None = None,
    used: Used | None = None,
    bound: Mapping[int, frozenset[int]] | None = None,
) -> tuple[Finding, ...]:
    """What is wrong with the host for this machine's description, the worst first.

    With `run` (on `machine` as described) each finding that the model can price says what it costs.
    `used` adds what NCCL did, `bound` the processors that each GPU's process may use.
    """
    found = chain(
        chain.from_iterable(check(topology, machine, run) for check in _CHECKS),
        check_memory_nodes(topology, bound),
        check_used(topology, machine, used, run) if used else (),
    )
    return worst_first(found)
