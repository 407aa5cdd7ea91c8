"""Which device and machine the files of one job are from, and whether they agree on it."""

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any, Final

from syncwall import catalogue
from syncwall.catalogue import BUILT_IN, CatalogueKind
from syncwall.describe import Cluster
from syncwall.describe.lookup import cluster, device, link
from syncwall.documents import read_document
from syncwall.explain.finding import Finding
from syncwall.read.detect import FileKind
from syncwall.read.nccl_facts import NcclLog
from syncwall.read.topology import Gpu, HostTopology
from syncwall.units import plural

LIKELY_RATE: Final = (0.85, 1.05)
"""A port's rate over that of the catalogue at which both are the same kind: some clouds hold back
10% (Oracle's topology file of the H100 says 180 of 200 Gb/s)."""


def devices_of(gpu: Gpu) -> tuple[str, ...]:
    """Names in the catalogue that `gpu` may be; none if the file does not tell."""
    known = _identities()
    if gpu.pci_id in known["pci"]:
        return (known["pci"][gpu.pci_id],)
    if named := devices_named(gpu.model or ""):
        return named
    architecture = known["architecture"].get(gpu.architecture)
    return tuple(name for name, found in _architectures().items() if found == architecture)


def devices_named(name: str) -> tuple[str, ...]:
    """The device of the catalogue that drivers call `name`; none if nobody knows it."""
    known = _identities()["model"]
    full = (name, f"NVIDIA {name}")  # older drivers left the vendor out
    begins = [start for start in known if name and any(one.startswith(start) for one in full)]
    return (known[max(begins, key=len)],) if begins else ()


def likely_cluster(topology: HostTopology) -> list[tuple[str, list[str]]]:
    """Machines of the catalogue that the topology does not contradict, most reasons first."""
    found = []
    for name in catalogue.names(CatalogueKind.CLUSTER):
        reasons = _reasons(topology, cluster(name))
        if reasons:
            found.append((name, reasons))
    return sorted(found, key=lambda pair: (-len(pair[1]), pair[0]))


def _reasons(topology: HostTopology, machine: Cluster) -> list[str]:
    """Facts that fit `machine`; none if one of them does not."""
    if len(topology.gpus) != machine.node.gpus:
        return []
    tests = (
        _device(topology, machine),
        _links(topology, machine),
        _nics(topology, machine),
        _ports(topology, machine),
        _pcie(topology, machine),
    )
    if any(fits is False for fits, _ in tests) or not any(fits for fits, _ in tests):
        return []
    return [f"{len(topology.gpus)} GPUs", *(reason for fits, reason in tests if fits)]


def _device(topology: HostTopology, machine: Cluster) -> tuple[bool | None, str]:
    names = devices_of(topology.gpus[0])
    if not names:
        return (None if topology.gpus[0].architecture is None else False), ""
    return machine.device.name in names, f"GPU {machine.device.name}"


def _links(topology: HostTopology, machine: Cluster) -> tuple[bool | None, str]:
    """Links of a GPU, or their rate, against the device's."""
    built = machine.device.scale_up
    gpu = topology.gpus[0]
    if gpu.link_bytes_per_s is not None:
        expected = machine.scale_up.rate_bytes_per_s if machine.scale_up else 0.0
        near = abs(gpu.link_bytes_per_s - expected) <= 0.1 * expected
        return near, f"links of {gpu.link_bytes_per_s / 1e9:.0f} GB/s a GPU"
    if gpu.links is None or (topology.format == "nvidia-smi" and topology.switched is None):
        return None, ""
    return gpu.links == (built.links if built else 0), f"{gpu.links} links a GPU"


def _nics(topology: HostTopology, machine: Cluster) -> tuple[bool | None, str]:
    """Ports near GPUs against the adapters of the machine; their rate where the file has it."""
    expected = machine.node.nics
    if not topology.nics or expected is None:
        return None, ""
    near = {i for gpu in range(len(topology.gpus)) for i in topology.near_nics(gpu)}
    count = len(near) or len(topology.nics)
    rates = [nic.rate_bytes_per_s for nic in topology.nics if nic.rate_bytes_per_s]
    if rates:
        total = sum(rates) / expected.count / expected.rate_bytes_per_s
        whole = f"{len(rates)} ports, {sum(rates) * 8e-9:.0f} Gb/s in all"
        return LIKELY_RATE[0] <= total <= LIKELY_RATE[1], whole
    return count == expected.count or len(topology.nics) == expected.count, plural(count, "adapter")


def _ports(topology: HostTopology, machine: Cluster) -> tuple[bool | None, str]:
    """As many ports as adapters speaks for a machine; another number does not speak against it."""
    nics = machine.node.nics
    rates = [nic.rate_bytes_per_s for nic in topology.nics if nic.rate_bytes_per_s]
    same = nics is not None and len(rates) == nics.count
    return (True if same else None), f"{len(rates)} ports as in the catalogue"


def _pcie(topology: HostTopology, machine: Cluster) -> tuple[bool | None, str]:
    """A link to the host faster than the device has rules it out; a slower one may be asleep."""
    seen = topology.gpus[0].pcie_bytes_per_s
    if seen is None or machine.device.pcie is None:
        return None, ""
    share = seen / link(machine.device.pcie).rate_bytes_per_s
    name = machine.device.pcie
    return (False if share > 1.05 else share > 0.95 or None), f"host link {name}"


@lru_cache(maxsize=1)
def _identities() -> dict[str, Any]:
    table: dict[str, Any] = read_document(BUILT_IN / "identities.yaml").value
    return table


@lru_cache(maxsize=1)
def _architectures() -> dict[str, str]:
    return {name: device(name).architecture for name in catalogue.names(CatalogueKind.DEVICE)}


_MULTICAST: Final = ("hopper", "blackwell", "blackwell-ultra")
"""Architectures whose NVLink switches can add (NVLS)."""
_CHIP: Final = re.compile(r"\b[a-z]{1,3}\d{1,4}[a-z]?\b")
_SHOWN: Final = 4


@dataclass(frozen=True, slots=True)
class Sighting:
    """What one file says of the GPUs."""

    file: str
    says: str
    devices: tuple[str, ...]
    """Those of the catalogue that it may be."""


@dataclass(frozen=True)
class Recognised:
    """What the catalogue has for the machine that was seen."""

    machines: tuple[Cluster, ...]
    """All that fit, as they stand in the catalogue."""
    evidence: tuple[str, ...]


def sightings(
    read: Mapping[str, Sequence[Any]],
    traced: str | None,
    hosts: Sequence[HostTopology],
) -> tuple[Sighting, ...]:
    """What each file says; `traced` is the name of the device that traces ran on."""
    found = [_named("traces", traced)]
    found += [_named(one.path.name, name) for one, name in _benchmarked(read)]
    found += [_of_log(one.path.name, one.what) for one in read.get(FileKind.NCCL_LOG, ())]
    found += [_of_topology(host) for host in hosts]
    return tuple(one for one in found if one is not None)


def different_machines(seen: Sequence[Sighting]) -> Iterator[Finding]:
    """A finding if the files cannot be from one machine."""
    if not seen or set.intersection(*(set(one.devices) for one in seen)):
        return
    by_devices: dict[tuple[str, ...], Sighting] = {}
    for one in seen:
        by_devices.setdefault(one.devices, one)
    kinds = list(by_devices.values())[:_SHOWN]
    yield Finding(
        "wrong",
        "the files are from different machines: "
        + ", ".join(f"{one.file} ({_devices(one.devices)})" for one in kinds),
        "; ".join(f"{one.file} says {one.says}" for one in kinds)
        + ": what one of them says does not hold for the others",
        "give the files of one job: syncwall explain "
        + " ".join(one.file for one in seen if one.devices == kinds[0].devices),
        kinds[0].file,
    )


def recognised(seen: Sequence[Sighting], gpus_per_node: int, nodes: int) -> Recognised | None:
    """Machines whose GPUs were seen, and that have so many in a node."""
    if not seen:
        return None
    devices = set.intersection(*(set(one.devices) for one in seen))
    every = [cluster(name) for name in catalogue.names(CatalogueKind.CLUSTER)]
    fits = [one for one in every if one.device.name in devices and one.node.gpus >= gpus_per_node]
    whole = [one for one in fits if one.node.gpus == gpus_per_node]
    fits = [one for one in whole or fits if nodes <= (one.built_nodes or nodes)]
    facts = (*dict.fromkeys(f"{one.says} ({one.file})" for one in seen), f"{gpus_per_node} GPUs a host")
    return Recognised(tuple(fits), facts) if fits else None


def _benchmarked(read: Mapping[str, Sequence[Any]]) -> Iterator[tuple[Any, str | None]]:
    for one in read.get(FileKind.NCCL_TESTS, ()):
        yield one, one.what.devices[0].name if one.what.devices else None
    for one in read.get(FileKind.MEASURED, ()):
        yield one, one.what.device


def _named(file: str, name: str | None) -> Sighting | None:
    devices = devices_named(name or "") or _family(name or "")
    return Sighting(file, str(name), devices) if devices else None


def _family(name: str) -> tuple[str, ...]:
    """Devices of the catalogue of which a name tells only the chip: "Tesla V100-DGXS-32GB"."""
    words = set(_CHIP.findall(name.lower()))
    names = catalogue.names(CatalogueKind.DEVICE)
    return tuple(one for one in names if one.partition("-")[0] in words)


def _of_log(file: str, log: NcclLog) -> Sighting | None:
    if not log.nvls:
        return None
    names = catalogue.names(CatalogueKind.DEVICE)
    return Sighting(file, "NVLS", tuple(name for name in names if device(name).architecture in _MULTICAST))


def _of_topology(host: HostTopology) -> Sighting | None:
    if not host.gpus:
        return None
    file, gpu = Path(host.source).name, host.gpus[0]
    if devices := devices_of(gpu):
        return Sighting(file, str(gpu.model or gpu.pci_id or gpu.architecture), devices)
    if not gpu.links or not host.switched or len({one.links for one in host.gpus}) > 1:
        return None  # links that only some have are faults
    names = catalogue.names(CatalogueKind.DEVICE)
    built = {name: device(name).scale_up for name in names}
    same = tuple(name for name, up in built.items() if up is not None and up.links == gpu.links)
    return Sighting(file, f"{gpu.links} links a GPU", same) if same else None


def _devices(names: tuple[str, ...]) -> str:
    more = len(names) - _SHOWN
    return " or ".join(names[:_SHOWN]) + (f" or {more} others" if more > 0 else "")
