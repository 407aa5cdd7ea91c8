"""Which device, and which machine of the catalogue, a topology shows.

Holds `devices_of`, `devices_named`, `likely_cluster` and `LIKELY_RATE`.
"""

from functools import lru_cache
from typing import Any, Final

from syncwall import catalogue
from syncwall.catalogue import BUILT_IN, CatalogueKind
from syncwall.describe import Cluster
from syncwall.describe.lookup import cluster, device, link
from syncwall.documents import read_document
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
