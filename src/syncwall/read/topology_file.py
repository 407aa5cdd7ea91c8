"""A topology of a host, whatever wrote it.

Holds `read_topology`.
"""

from pathlib import Path

from syncwall.problems import InputError
from syncwall.read.limited import open_limited
from syncwall.read.lstopo import read_lstopo
from syncwall.read.nccl_topology import read_nccl_topology
from syncwall.read.safe_xml import read_xml
from syncwall.read.smi_topology import read_smi_topology
from syncwall.read.topology import Topology


def read_topology(path: Path | str) -> Topology:
    """What NCCL, hwloc, nvidia-smi or rocm-smi wrote; the kind is seen from the content."""
    with open_limited(path) as stream:
        head = stream.read(4096)
    if not head.lstrip(b"\xef\xbb\xbf \t\r\n").startswith(b"<"):
        return read_smi_topology(path)
    root, _ = read_xml(path)
    if root.tag == "system":
        return read_nccl_topology(path)
    if root.tag == "topology":
        return read_lstopo(path)
    raise InputError.of(
        f"holds <{root.tag}>, neither a topology of NCCL (<system>) nor of hwloc (<topology>)",
        file=str(path),
    )
