"""The machine of a published run.

Holds `cluster_of`: the catalogue's machine with that accelerator, in the variant, number and with
the NICs that the row states; `variant_of`, the variant alone; and `CannotRepresent`.
"""

import re
from functools import lru_cache
from pathlib import Path
from typing import Any, Final

from syncwall.catalogue import added_folders
from syncwall.describe import Cluster, Device
from syncwall.describe.lookup import cluster, device
from syncwall.describe.names import varied
from syncwall.validate.table import RunRow

_MACHINES: Final = {
    "A100": "dgx-a100", "A800": "dgx-a100", "H100": "dgx-h100", "H200": "dgx-h200",
    "H20": "dgx-h100", "H800": "deepseek-h800", "GH200": "alps", "B200": "dgx-b200",
    "B300": "dgx-b300", "GB200": "gb200-nvl72", "GB300": "gb300-nvl72", "V100": "dgx-2",
    "L40S": "l40s-8", "MI250X": "frontier", "MI300X": "mi300x-8", "MI325X": "mi300x-8",
    "MI350X": "mi300x-8", "MI355X": "mi300x-8",
}  # fmt: skip
_VARIANTS: Final[dict[str, tuple[str, ...]]] = {
    "A100": ("a100-sxm-80", "a100-sxm-40", "a100-sxm-64"),
    "A100 PCIE": ("a100-pcie-80", "a100-pcie-40"),
    "A800": ("a800-sxm-80",),
    "H100": ("h100-sxm", "h100-sxm-500w", "h100-sxm-64"),
    "H100 PCIE": ("h100-pcie",),
    "H100 NVL": ("h100-nvl",),
    "V100": ("v100-sxm-32", "v100-sxm-16"),
    "H20": ("h20",),
    "MI325X": ("mi325x",),
    "MI350X": ("mi355x",),
    "MI355X": ("mi355x",),
}
"""Devices that go by a name, the usual one first; a machine's own where there is no entry."""
_LINKS: Final = (
    (r"\befa\b", "efa-v2"),
    (r"slingshot", "slingshot-11"),
    (r"omni-?path", "omni-path-100"),
    (r"infiniband|\bib\b|\bndr|\bhdr|\bxdr", "infiniband-ndr"),
    (r"roce|ethernet", "roce-400"),
)
SAME_MEMORY: Final = 0.05
"""Sizes nearer than this are equal: some count in 1e9 bytes, some in 2**30, some what is free."""


class CannotRepresent(ValueError):  # noqa: N818 - it reads as what it says
    """A row describes something that syncwall has no words for; the message says what."""


def cluster_of(row: RunRow) -> Cluster:
    """The cluster that a row describes, with the nodes it used."""
    kind = _kind(row)
    words = row.text("inter_link")
    efa = "EFA" in words and kind == "H100"
    base = _base("aws-p5" if efa else _MACHINES[kind], added_folders())
    gpus, built = row.whole("gpus"), row.whole("gpus_per_node", base.node.gpus)
    used = min(gpus, built)
    if gpus % used:
        raise CannotRepresent(f"{gpus} GPUs do not fill nodes of {used}")
    if kind == "MI250X" and built > base.node.gpus:
        raise CannotRepresent("the dies of an MI250X are not described on their own")
    chip = _device(row, base)
    links, whole = _scale_up(base, chip, built), max(built, base.node.gpus)
    whole = built if links and links["gpus"] == built else whole
    node: dict[str, Any] = {"device": chip, "gpus": whole}
    if base.node.nics:
        node["nics"] = _nics(row, base, whole)
    fields = {"name": base.name, "node": node, "scale_up": links, "nodes": gpus // used}
    return Cluster.model_validate(fields | {"gpus_per_node": used})


def variant_of(row: RunRow) -> str | None:
    """The device that a row means by its name and memory; None if it leaves that open."""
    kind, memory = _kind(row), _memory_gb(row)
    names = _VARIANTS.get(_form(row, kind)) or (_machine_device(kind),)
    if not memory:
        return None if len(names) > 1 else names[0]
    return next((name for name in names if _has_memory(device(name), memory)), None)


@lru_cache(maxsize=32)
def _base(name: str, folders: tuple[Path, ...]) -> Cluster:
    """Read once for each name and each setting of the user's catalogue directories."""
    return cluster(name)


def _kind(row: RunRow) -> str:
    """The accelerator's name without its variant."""
    kind = re.split(r"[-\s(]", row.text("gpu").upper())[0]
    if kind not in _MACHINES:
        raise CannotRepresent(f"no machine with a {row.text('gpu')} is known")
    return kind


def _form(row: RunRow, kind: str) -> str:
    """The name with its form, where that is not the usual module."""
    words = row.text("gpu").upper()
    form = next((f"{kind} {form}" for form in ("PCIE", "NVL") if form in words), kind)
    return form if form in _VARIANTS else kind


def _machine_device(kind: str) -> str:
    return _base(_MACHINES[kind], added_folders()).device.name


def _memory_gb(row: RunRow) -> float | None:
    """Memory of a device, by its column or by its name."""
    named = re.search(r"(\d+) ?GB", row.text("gpu").upper())
    return row.number("gpu_mem_gb") or (float(named[1]) if named else None)


def _has_memory(chip: Device, gigabytes: float) -> bool:
    size = chip.memory.size_bytes
    return min(abs(gigabytes * unit / size - 1) for unit in (1e9, 2.0**30)) < SAME_MEMORY


def _device(row: RunRow, base: Cluster) -> Device:
    """The known variant; else the usual one with the memory and the power limit that are stated."""
    kind, words = _kind(row), row.text("gpu").upper()
    names = _VARIANTS.get(_form(row, kind)) or (base.device.name,)
    known, memory = variant_of(row), _memory_gb(row)
    limit = re.search(r"\b(\d{3,4}) ?W\b", words)
    changes: dict[str, Any] = {}
    found = device(known or names[0])
    if known is None and memory and not _has_memory(found, memory):
        changes["memory"] = {"size": memory * 2.0**30}
    if limit and (found.tdp_w or 0) > float(limit[1]) != found.power_limit_w:
        changes["power_limit"] = float(limit[1])
    return varied(found, changes) if changes else found


def _scale_up(base: Cluster, chip: Device, built: int) -> dict[str, Any] | None:
    """The domain of a node: that of the base, with the links that the chip has.

    Boards of four have no switch: each GPU has a third of its links to each of the others.
    """
    if base.scale_up is None:
        return None
    fields: dict[str, Any] = dict(base.scale_up)
    if chip.scale_up is None:
        slot = {"topology": "pcie", "rate_bytes_per_s": _PCIE, "link": chip.pcie}
        return fields | slot | {"in_switch_reduction": False, "gpus": built}
    if base.device.scale_up is not None:
        fields["rate_bytes_per_s"] = chip.scale_up.rate_bytes_per_s
    if built == BOARD < base.scale_up.gpus == base.node.gpus:
        fields |= {"gpus": built, "topology": "mesh", "in_switch_reduction": False}
    return fields


_PCIE: Final = 31.5e9
"""Bytes a second of a slot of 16 lanes of PCIe 4, one way."""
BOARD: Final = 4
"""GPUs of the smaller boards."""


def _nics(row: RunRow, base: Cluster, gpus: int) -> dict[str, Any]:
    """One NIC a GPU at the stated rate; the machine's own where the row is silent."""
    nics = base.node.nics
    assert nics is not None
    rate, words = row.number("inter_gbps_per_gpu"), row.text("inter_link")
    bytes_per_s = rate * 1e9 / 8 if rate else nics.rate_bytes_per_s * nics.count / base.node.gpus
    link = next((name for pattern, name in _LINKS if re.search(pattern, words.lower())), nics.link)
    fields: dict[str, Any] = {"count": gpus, "rate_bytes_per_s": bytes_per_s, "link": link}
    if "TCP" in words:
        fields["transport"] = "tcp"
    return fields
