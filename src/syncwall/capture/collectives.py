"""Collectives and messages, from the operations that PyTorch issues for them.

Holds `communication`: the `Collective` or `Message` of an operation, its process group, and the
tensors that it reads and writes; both the c10d operations and the functional ones are known.
`described`: a process group as `Group`, how many ranks, how far apart, and what for. A group of a
mesh is for what its dimension is called; the whole world and groups without a name are for what
wraps the model (DDP, FSDP), else "other".
"""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any, Final

import torch
import torch.distributed as dist
from torch.distributed.distributed_c10d import _resolve_process_group

from syncwall.capture.kernels import tensors
from syncwall.capture.tape import Tape
from syncwall.work.operations import CollectiveKind, Group, GroupAxis
from syncwall.work.program import NoteKind

_AXES: Final[dict[str, GroupAxis]] = {
    "tp": "tp",
    "tensor": "tp",
    "model": "tp",
    "mp": "tp",
    "sp": "tp",
    "etp": "tp",
    "cp": "cp",
    "context": "cp",
    "ulysses": "cp",
    "sequence": "cp",
    "ring": "cp",
    "ep": "ep",
    "expert": "ep",
    "pp": "pp",
    "pipe": "pp",
    "pipeline": "pp",
    "stage": "pp",
    "dp_replicate": "replica",
    "replicate": "replica",
    "replica": "replica",
    "ddp": "dp",
    "dp_shard": "shard",
    "fsdp": "shard",
    "shard": "shard",
    "dp": "shard",
    "data": "shard",
    "dp_shard_cp": "shard",
    "dp_shard_mod_ep": "expert-shard",
    "dp_mod_ep": "expert-shard",
    "dp_shard_in_ep": "ep",
    "efsdp": "expert-shard",
    "dp_cp": "dp",
    "batch": "dp",
    "loss": "dp",
}


def group_description(
    group: dist.ProcessGroup, tape: Tape, names: dict[str, str], axis: GroupAxis | None = None
) -> Group:
    """What a process group is; `axis` is what it is for if no dimension of a mesh says so.

    `names` has the dimension of a mesh by the name of its process group.
    """
    ranks = dist.get_process_group_ranks(group)
    name = names.get(str(group.group_name)) or _mesh_dimension(group)
    found = _AXES.get(name.removesuffix("_parallel")) or axis or "other"
    stride = ranks[1] - ranks[0] if len(ranks) > 1 else 1
    if any(b - a != stride for a, b in pairwise(ranks)):
        stride = max(1, (ranks[-1] - ranks[0]) // (len(ranks) - 1))
        tape.note(NoteKind.NOT_RECORDED, f"uneven distances of the ranks of group {name or found}")
    return Group(found, len(ranks), stride)


def _mesh_dimension(group: dist.ProcessGroup) -> str:
    """Name of the mesh dimension that a group belongs to; empty if it has none."""
    described_as = str(group.group_desc or "")
    return described_as.removeprefix("mesh_") if described_as.startswith("mesh_") else ""


NAMESPACES: Final = ("c10d", "_c10d_functional", "_c10d_functional_autograd")


@dataclass(frozen=True)
class Communication:
    """One operation between ranks, before its group has a description."""

    kind: CollectiveKind | str
    bytes: float
    group: dist.ProcessGroup
    reads: tuple[torch.Tensor, ...]
    writes: tuple[torch.Tensor, ...]
    peer: int | None = None
    """Global rank of the other side of a message."""


def _size(of: Any) -> float:
    return float(sum(tensor.numel() * tensor.element_size() for tensor in tensors(of)))


def _vector(args: Sequence[Any], out: Any) -> tuple[float, Any, Any]:
    """In place: the size of the vector."""
    return _size(args[0]), args[0], args[0]


def _gather_in(args: Sequence[Any], out: Any) -> tuple[float, Any, Any]:
    """Output first: the whole is what comes out."""
    return _size(args[0]), args[1], args[0]


def _scatter_in(args: Sequence[Any], out: Any) -> tuple[float, Any, Any]:
    """Output first: the whole is what goes in."""
    return _size(args[1]), args[1], args[0]


def _result(args: Sequence[Any], out: Any) -> tuple[float, Any, Any]:
    return _size(out), args[0], out


def _input(args: Sequence[Any], out: Any) -> tuple[float, Any, Any]:
    return _size(args[0]), args[0], out


Sizes = Callable[[Sequence[Any], Any], tuple[float, Any, Any]]

_COLLECTIVES: Final[dict[str, tuple[CollectiveKind, Sizes]]] = {
    "allreduce_": ("all-reduce", _vector),
    "allreduce_coalesced_": ("all-reduce", _vector),
    "broadcast_": ("broadcast", _vector),
    "reduce_": ("reduce", _vector),
    "_allgather_base_": ("all-gather", _gather_in),
    "allgather_": ("all-gather", _gather_in),
    "allgather_coalesced_": ("all-gather", _gather_in),
    "allgather_into_tensor_coalesced_": ("all-gather", _gather_in),
    "_reduce_scatter_base_": ("reduce-scatter", _scatter_in),
    "reduce_scatter_": ("reduce-scatter", _scatter_in),
    "reduce_scatter_tensor_coalesced_": ("reduce-scatter", _scatter_in),
    "alltoall_": ("all-to-all", _scatter_in),
    "alltoall_base_": ("all-to-all", _scatter_in),
    "gather_": ("gather", _gather_in),
    "scatter_": ("scatter", _scatter_in),
    "all_reduce": ("all-reduce", _input),
    "all_reduce_": ("all-reduce", _input),
    "all_reduce_coalesced": ("all-reduce", _input),
    "all_reduce_coalesced_": ("all-reduce", _input),
    "broadcast": ("broadcast", _input),
    "all_gather_into_tensor": ("all-gather", _result),
    "all_gather_into_tensor_out": ("all-gather", _result),
    "all_gather_into_tensor_coalesced": ("all-gather", _result),
    "reduce_scatter_tensor": ("reduce-scatter", _input),
    "reduce_scatter_tensor_out": ("reduce-scatter", _input),
    "reduce_scatter_tensor_coalesced": ("reduce-scatter", _input),
    "all_to_all_single": ("all-to-all", _input),
}
_MESSAGES: Final = {"send": True, "isend": True, "recv_": False, "irecv": False}
"""True where this rank sends."""


def communication(operation: torch._ops.OpOverload, args: Sequence[Any], out: Any) -> Communication | None:
    """What an operation sends to whom; None if it sends nothing (`wait_tensor`, `barrier`)."""
    name = operation._schema.name.partition("::")[2]
    group = _group(args)
    if group is None:
        return None
    if name in _MESSAGES:
        peer = dist.get_global_rank(group, int(args[2 if not isinstance(args[1], int) else 1]))
        moved, is_sent = tuple(tensors(args[0])), _MESSAGES[name]
        size = _size(args[0])
        if is_sent:
            return Communication("send", size, group, moved, (), peer)
        return Communication("recv", size, group, (), moved, peer)
    if name not in _COLLECTIVES:
        return None
    kind, sizes = _COLLECTIVES[name]
    if name == "broadcast_" and operation.namespace != "c10d":
        sizes = _input
    size, read, written = sizes(args, out)
    return Communication(kind, size, group, tuple(tensors(read)), tuple(tensors(written)))


def _group(args: Iterable[Any]) -> dist.ProcessGroup | None:
    """The process group among the arguments: an object, a boxed one or a name."""
    for value in args:
        if isinstance(value, dist.ProcessGroup):
            return value
        if isinstance(value, torch._C.ScriptObject) and "ProcessGroup" in str(value._type()):
            return dist.ProcessGroup.unbox(value)
    names = [value for value in args if isinstance(value, str)]
    return _resolve_process_group(names[-1]) if names else None
