"""Process groups as `Group`: how many ranks, how far apart, and what for.

Holds `described`. A group of a mesh is for what its dimension is called; the whole world and groups
without a name are for what wraps the model (DDP, FSDP), else "other".
"""

from itertools import pairwise
from typing import Final

import torch.distributed as dist

from syncwall.capture.tape import Tape
from syncwall.work.operations import Group, GroupAxis
from syncwall.work.program import NoteKind

_AXES: Final[dict[str, GroupAxis]] = {
    "tp": "tp", "tensor": "tp", "model": "tp", "mp": "tp", "sp": "tp", "etp": "tp",
    "cp": "cp", "context": "cp", "ulysses": "cp", "sequence": "cp", "ring": "cp",
    "ep": "ep", "expert": "ep",
    "pp": "pp", "pipe": "pp", "pipeline": "pp", "stage": "pp",
    "dp_replicate": "replica", "replicate": "replica", "replica": "replica", "ddp": "dp",
    "dp_shard": "shard", "fsdp": "shard", "shard": "shard", "dp": "shard", "data": "shard",
    "dp_shard_cp": "shard", "dp_shard_mod_ep": "expert-shard", "dp_mod_ep": "expert-shard",
    "dp_shard_in_ep": "ep", "efsdp": "expert-shard", "dp_cp": "dp", "batch": "dp", "loss": "dp",
}  # fmt: skip


def described(
    group: dist.ProcessGroup, tape: Tape, names: dict[str, str], axis: GroupAxis | None = None
) -> Group:
    """What a process group is; `axis` is what it is for if no dimension of a mesh says so.

    `names` has the dimension of a mesh by the name of its process group.
    """
    ranks = dist.get_process_group_ranks(group)
    name = names.get(str(group.group_name)) or _mesh_dimension(group)
    found = _AXES.get(name) or axis or "other"
    stride = ranks[1] - ranks[0] if len(ranks) > 1 else 1
    if any(b - a != stride for a, b in pairwise(ranks)):
        stride = max(1, (ranks[-1] - ranks[0]) // (len(ranks) - 1))
        tape.note(NoteKind.NOT_RECORDED, f"uneven distances of the ranks of group {name or found}")
    return Group(found, len(ranks), stride)


def _mesh_dimension(group: dist.ProcessGroup) -> str:
    """Name of the mesh dimension that a group belongs to; empty if it has none."""
    described_as = str(group.group_desc or "")
    return described_as.removeprefix("mesh_") if described_as.startswith("mesh_") else ""
