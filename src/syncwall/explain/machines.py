"""Which machine the files of one job are from, and whether they agree on it.

Holds `Sighting`, what one file says of the GPUs; `sightings`; `different_machines`, a finding if
no device fits all of them; `Recognised` and `recognised`, the machines of the catalogue that fit.
"""

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from syncwall import catalogue
from syncwall.catalogue import CatalogueKind
from syncwall.describe import Cluster
from syncwall.describe.lookup import cluster, device
from syncwall.explain.finding import Finding
from syncwall.explain.topology.identity import devices_named, devices_of
from syncwall.read.detect import FileKind
from syncwall.read.nccl_facts import NcclLog
from syncwall.read.topology import HostTopology

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
    facts = (*dict.fromkeys(f"{one.says} ({one.file})" for one in seen),
             f"{gpus_per_node} GPUs a host")  # fmt: skip
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
    return Sighting(
        file, "NVLS", tuple(name for name in names if device(name).architecture in _MULTICAST)
    )


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
