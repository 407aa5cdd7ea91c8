"""A fabric, whatever wrote it.

Holds `read_fabric`.
"""

from pathlib import Path

from syncwall.read.fabric_graph import FabricGraph
from syncwall.read.fabric_models import read_netq, read_topograph
from syncwall.read.ibnetdiscover import read_ibnetdiscover
from syncwall.read.limited import open_limited


def read_fabric(path: Path | str) -> FabricGraph:
    """What ibnetdiscover, NetQ or topograph's models say; the kind is seen from the content."""
    with open_limited(path) as stream:
        head = stream.read(1 << 16)
    if head.lstrip().startswith((b"[", b"{")):
        return read_netq(path)
    if b"vendid=" in head or b"Switch\t" in head or b"Ca\t" in head:
        return read_ibnetdiscover(path)
    return read_topograph(path)
