"""FSDP2 without one chunk a rank, with streams that have names.

`fully_shard` cuts each parameter into as many chunks as there are ranks and keeps one: at 16,384
ranks that is most of the time. Only the first and its own chunk are ever looked at.
"""

from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from typing import Any

import torch
from torch.distributed.fsdp import FullyShardedDataParallel
from torch.distributed.fsdp._fully_shard import _fsdp_init, _fsdp_param, _fsdp_param_group

from syncwall.capture.shims.patch import need, replaced
from syncwall.capture.state import State, local
from syncwall.capture.streams import RecordedStream
from syncwall.problems import InputError
from syncwall.work.program import HeldKind, Note, NoteKind, Place, ShardedUnit


class _Chunks:
    """Equal parts of a tensor along a dimension, made when asked for; the last may be empty."""

    def __init__(self, tensor: torch.Tensor, num_chunks: int, dim: int) -> None:
        self.tensor, self.dim = tensor, dim
        self.size = -(-tensor.size(dim) // num_chunks)

    def __getitem__(self, index: int) -> torch.Tensor:
        start = index * self.size
        length = min(self.size, self.tensor.size(self.dim) - start)
        if length <= 0:
            return self.tensor.new_empty(0)
        return self.tensor.narrow(self.dim, start, length)


@contextmanager
def in_force(state: State) -> Iterator[None]:
    """Lazy chunks; parameters on the device; streams under the names that FSDP gives them."""
    need(_fsdp_param, "_chunk_with_empty")
    context = need(_fsdp_param_group, "FSDPCommContext")
    lazy_init = need(context, "lazy_init")
    param = need(_fsdp_param, "FSDPParam")
    shard = need(param, "_init_sharded_param")
    move = need(_fsdp_init, "_move_states_to_device")
    outputs = need(param, "init_all_gather_outputs")
    gather = need(_fsdp_param_group, "foreach_all_gather")
    reduce = need(_fsdp_param_group, "foreach_reduce")

    def lazy_init_named(self: Any, device: torch.device) -> None:
        lazy_init(self, device)
        for name, value in vars(self).items():
            if isinstance(value, RecordedStream):
                value.name = state.tape.new_stream(name.removesuffix("_stream").replace("_", " "))

    def shard_on_device(self: Any, *args: Any, **kwargs: Any) -> None:
        shard(self, *args, **kwargs)
        state.on_device(self._sharded_param_data)
        state.mode.data_parallel = state.mode.data_parallel or "shard"
        state.storages.are([local(self.sharded_param)], HeldKind.WEIGHTS)
        state.sharded.append(self)

    def move_to_device(params: Any, buffers: Any, device: torch.device) -> None:
        move(params, buffers, device)
        for tensor in [*params, *buffers]:
            state.on_device(tensor)

    def outputs_marked(self: Any, *args: Any, **kwargs: Any) -> None:
        outputs(self, *args, **kwargs)
        name = state.places.name(self._module_info.module)
        state.storages.are(self.all_gather_outputs, HeldKind.GATHERED, name)

    def gather_marked(*args: Any, **kwargs: Any) -> Any:
        result = gather(*args, **kwargs)
        if result is not None:
            state.storages.are([result.all_gather_output], HeldKind.GATHERED)
            state.buffers[state.storages.number(result.all_gather_output)] = _unit(args[0])
        return result

    def reduce_marked(fsdp_params: Any, *args: Any, **kwargs: Any) -> Any:
        unit = _unit(fsdp_params)
        result = reduce(fsdp_params, *args, **kwargs)
        state.buffers[state.storages.number(result[0])] = unit
        return result

    def refused(*_: object, **__: object) -> None:
        raise InputError.of(
            "FullyShardedDataParallel (FSDP1) cannot be recorded: use "
            "torch.distributed.fsdp.fully_shard"
        )

    with (
        replaced(FullyShardedDataParallel, __init__=refused),
        replaced(_fsdp_param, _chunk_with_empty=_Chunks),
        replaced(context, lazy_init=lazy_init_named),
        replaced(
            param, _init_sharded_param=shard_on_device, init_all_gather_outputs=outputs_marked
        ),
        replaced(_fsdp_param_group, foreach_all_gather=gather_marked, foreach_reduce=reduce_marked),
        replaced(_fsdp_init, _move_states_to_device=move_to_device),
    ):
        yield


def _unit(params: Iterable[Any]) -> ShardedUnit:
    """What is gathered or reduced together."""
    sizes = []
    for param in params:
        rows = param._orig_size[param.fsdp_placement.dim]
        sizes.append((rows, param._orig_size.numel() // max(rows, 1)))
    return ShardedUnit(tuple(sizes))


def padding(state: State) -> Iterator[Note]:
    """A first dimension that the ranks do not divide is padded: say what is sent for nothing."""
    for param in state.sharded:
        ranks = getattr(param.mesh_info, "shard_mesh_size", 1)
        padded = param.padded_sharded_param_size.numel() * ranks
        own = param._orig_size.numel()
        if padded > own:
            item = (param.param_dtype or param.orig_dtype).itemsize
            module = state.places.name(param._module_info.module)
            name = f"{param._param_fqn or param._module_info.param_name} {tuple(param._orig_size)}"
            sent, useful = float(padded * item), float(own * item)
            yield Note(NoteKind.PADDED, name, Place(module), bytes=sent, useful_bytes=useful)
