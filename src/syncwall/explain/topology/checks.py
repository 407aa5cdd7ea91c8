"""A host's topology against its description, what a job used and how its processes are bound.

Holds `check_topology`, which runs every check; `check_gpus`, `check_links` and `check_nics` (GPUs,
their links, adapters and their rates, with the predicted cost where a run is given); and
`check_fabric` (slow cables, leaves with few uplinks, hosts that miss adapters).
"""

from collections import Counter
from collections.abc import Iterator, Mapping
from itertools import chain

from syncwall.answer.changed_machine import with_nics, with_scale_up
from syncwall.describe import Cluster, Run
from syncwall.explain.changed_machine import slowdown
from syncwall.explain.finding import Finding, worst_first
from syncwall.explain.topology.identity import LIKELY_RATE, devices_of
from syncwall.explain.topology.placement import (
    Used,
    check_direct,
    check_distance,
    check_memory_nodes,
    check_pcie,
    check_peers,
    check_shared,
    check_used,
)
from syncwall.read.fabric_graph import FabricGraph
from syncwall.read.topology import Gpu, HostTopology


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
            slowdown(run, with_nics(run, rate_bytes_per_s=sum(rates) / nics.count))
            if run
            else None,
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
            f"{node.title or name} has {up} cables upwards for {down} downwards; most leaves have "
            f"{usual}",
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
            f"{len(fewer)} of {len(counts)} hosts show fewer than {usual} adapters: "
            f"{', '.join(fewer[:4])}",
            "a host with fewer adapters slows every job that it takes part in"
            + (f"; {nameless} adapters tell no host, so they may be theirs" if nameless else ""),
            "ibstat on these hosts: is a port down, or its description not set?",
            fabric.source,
        )


_CHECKS = (
    check_gpus, check_links, check_nics, check_distance, check_shared, check_pcie, check_direct,
    check_peers,
)  # fmt: skip


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
