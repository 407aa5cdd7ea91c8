"""The machine of a published run.

Holds `cluster_of`: the catalogue's machine with that accelerator and the NICs that the row states,
and `CannotRepresent`.
"""

import os
import re
from functools import lru_cache
from typing import Any

from syncwall.catalogue import VARIABLE
from syncwall.describe import Cluster
from syncwall.describe.lookup import cluster, device
from syncwall.validate.row import Row

_MACHINES = {
    "A100": "dgx-a100", "H100": "dgx-h100", "H200": "dgx-h200", "B200": "dgx-b200",
    "B300": "dgx-b300", "GB200": "gb200-nvl72", "GB300": "gb300-nvl72", "V100": "dgx-2",
    "H800": "deepseek-h800", "L40S": "l40s-8", "MI300X": "mi300x-8", "MI325X": "mi300x-8",
    "MI350X": "mi300x-8", "MI355X": "mi300x-8",
}  # fmt: skip
_DEVICES = {"MI325X": "mi325x", "MI350X": "mi355x", "MI355X": "mi355x"}


class CannotRepresent(ValueError):  # noqa: N818 - it reads as what it says
    """A row describes something that syncwall has no words for; the message says what."""


def cluster_of(row: Row) -> Cluster:
    """The cluster that a row describes, with the nodes it used."""
    name = row.text("gpu").upper()
    kind = re.split(r"[-\s(]", name)[0]
    if kind not in _MACHINES:
        raise CannotRepresent(f"no machine with a {row.text('gpu')} is known")
    efa = "EFA" in row.text("inter_link") and kind == "H100"
    base = _base("aws-p5" if efa else _MACHINES[kind], os.environ.get(VARIABLE, ""))
    gpus, built = row.whole("gpus"), row.whole("gpus_per_node", base.node.gpus)
    used = min(gpus, built)
    if gpus % used:
        raise CannotRepresent(f"{gpus} GPUs do not fill nodes of {used}")
    node: dict[str, Any] = {"device": _device(name, kind, base), "gpus": max(built, base.node.gpus)}
    if base.node.nics:
        node["nics"] = _nics(row, base, node["gpus"])
    fields = {"name": base.name, "node": node, "scale_up": base.scale_up, "nodes": gpus // used}
    return Cluster.model_validate(fields | {"gpus_per_node": used})


@lru_cache(maxsize=32)
def _base(name: str, directories: str) -> Cluster:
    """Read once for each name and each setting of the user's catalogue directories."""
    return cluster(name)


def _device(name: str, kind: str, base: Cluster) -> Any:
    if kind == "H100" and "500W" in name:
        return device("h100-sxm-500w")
    return device(_DEVICES[kind]) if kind in _DEVICES else base.device


def _nics(row: Row, base: Cluster, gpus: int) -> dict[str, Any]:
    """One NIC a GPU at the stated rate; the machine's own where the row is silent."""
    nics = base.node.nics
    assert nics is not None
    rate = row.number("inter_gbps_per_gpu")
    bytes_per_s = rate * 1e9 / 8 if rate else nics.rate_bytes_per_s * nics.count / base.node.gpus
    words = row.text("inter_link")
    fields: dict[str, Any] = {"count": gpus, "rate": bytes_per_s, "link": nics.link}
    if "TCP" in words:
        fields["transport"] = "tcp"
    return fields
