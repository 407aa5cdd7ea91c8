"""Seconds of what goes through the host: copies over its link, and updates in its memory.

Holds `offload_seconds` and `host_link_bytes_per_s`.
"""

from syncwall.catalogue import CatalogueKind
from syncwall.describe.device import Device, Link
from syncwall.describe.names import load
from syncwall.work.number import Number
from syncwall.work.operations import Offload

REACHED = 0.85
"""Share of the link's rate that copies reach: 55 of 63 GB/s over PCIe 5, 359 to 377 of 450 GB/s
over NVLink-C2C (nvbandwidth, in the catalogue's links)."""
HOST_BYTES_PER_S = 17e9
"""Memory traffic of the host's processor for one device while all eight of a node update at once:
fitted to the two shortest runs with CPU Adam of ml-engineering. ZeRO-Offload (Ren 2021, table 5)
updates a billion parameters in 0.22 s, an eighth of which is 18 GB/s."""
_USUAL_LINK = "pcie-4"


def host_link_bytes_per_s(device: Device) -> float:
    """Rate of copies between `device` and its host, one way."""
    link = load(CatalogueKind.LINK, Link, device.pcie or _USUAL_LINK)
    return REACHED * float(link.rate_bytes_per_s)


def offload_seconds(offload: Offload, device: Device) -> Number:
    """Time of the copy and of what the host does after it."""
    return offload.bytes / host_link_bytes_per_s(device) + offload.host_bytes / HOST_BYTES_PER_S
