"""Other ranks: process groups, meshes, objects and checkpoints without other processes.

Any backend becomes `fake`: collectives return at once and send nothing. `Work.wait` tells the
recorder which collective the current stream waits for.
"""

import os
from collections.abc import Iterator
from importlib import import_module
from types import SimpleNamespace
from typing import Any

import torch.distributed as dist
from torch.utils._python_dispatch import _disable_current_modes

from syncwall.capture.patching import Shims, answering, wrapper
from syncwall.capture.state import RecordingState
from syncwall.capture.versions import has
from syncwall.work.program import NoteKind

RANKS = Shims()

_C10D = "torch.distributed.distributed_c10d"
_GROUP = "torch.distributed.ProcessGroup"
_MESH = "torch.distributed.device_mesh"
_METHODS = (
    "allreduce allreduce_coalesced broadcast reduce allgather _allgather_base allgather_coalesced "
    "allgather_into_tensor_coalesced gather scatter reduce_scatter _reduce_scatter_base "
    "reduce_scatter_tensor_coalesced alltoall alltoall_base send recv recv_anysource barrier "
    "all_gather_single all_gather_single_coalesced reduce_scatter_single reduce_scatter_single_coalesced "
    "all_to_all_single gather_single gather_into_tensor"
)
_SAVES = (
    "torch.save",
    "torch.distributed.checkpoint.save",
    "torch.distributed.checkpoint.async_save",
)


@RANKS.surround
def _environment(state: RecordingState) -> Iterator[None]:
    """What torchrun sets."""
    rank, world = state.rank, state.world_size
    node = min(state.ranks_per_node, world)
    new = {
        "RANK": rank,
        "WORLD_SIZE": world,
        "LOCAL_RANK": rank % node,
        "LOCAL_WORLD_SIZE": node,
        "GROUP_RANK": rank // node,
        "GROUP_WORLD_SIZE": -(-world // node),
        "ROLE_RANK": rank,
        "ROLE_WORLD_SIZE": world,
        "ROLE_NAME": "default",
        "MASTER_ADDR": "127.0.0.1",
        "MASTER_PORT": 29500,
        "TORCHELASTIC_RUN_ID": "none",
        "TORCHELASTIC_RESTART_COUNT": 0,
        "TORCHELASTIC_MAX_RESTARTS": 0,
    }
    before = {name: os.environ.get(name) for name in new}
    os.environ.update({name: str(value) for name, value in new.items()})
    try:
        yield
    finally:
        for name, value in before.items():
            os.environ.pop(name, None)
            if value is not None:
                os.environ[name] = value


@RANKS.surround
def _fake_world(state: RecordingState) -> Iterator[None]:
    """A fake process group of the size that the recording has."""
    from torch.testing._internal.distributed.fake_pg import FakeStore

    if not has("torch.distributed._meta_registrations"):  # collectives of fake tensors, there imported
        import_module("torch.distributed._tools.fake_collectives")
    if dist.is_initialized():
        dist.destroy_process_group()
    dist.init_process_group("fake", store=FakeStore(), rank=state.rank, world_size=state.world_size)
    try:
        yield
    finally:
        if dist.is_initialized():
            dist.destroy_process_group()


RANKS.replaces({f"{_C10D}.destroy_process_group": answering(lambda _: None)}, everywhere=True)


@RANKS.wraps(f"{_C10D}.init_process_group", everywhere=True)
def _init_process_group(state: RecordingState, _: Any, *args: Any, **kwargs: Any) -> None:
    """The group is there; a program that starts its ranks by itself says how many they are."""
    size = args[3] if len(args) > 3 else kwargs.get("world_size", -1)
    if size not in (-1, None, state.world_size):
        raise RuntimeError(
            f"init_process_group(world_size={size}) in a recording of {state.world_size} ranks: give "
            f"--world {size}, or the script other arguments"
        )


@RANKS.wraps(f"{_C10D}.new_group", everywhere=True)
def _new_group(state: RecordingState, original: Any, ranks: Any = None, *args: Any, **kwargs: Any) -> Any:
    """Groups that this rank is not in are not made: there may be thousands."""
    if ranks is not None and state.rank not in ranks:
        return dist.GroupMember.NON_GROUP_MEMBER
    kwargs.pop("backend", None)
    return original(ranks, *args[:1], backend="fake", **kwargs)


@RANKS.wraps(f"{_C10D}.barrier", everywhere=True)
def _barrier(state: RecordingState, _: Any, *__: object, **___: object) -> None:
    state.host_waits("torch.distributed.barrier", state.tape.everything())


@RANKS.wraps(*(f"{_GROUP}.{name}" for name in _METHODS.split()))
def _collective(state: RecordingState, original: Any, *args: Any, **kwargs: Any) -> Any:
    """The work that is returned is known by the calls that it stands for."""
    before = len(state.mode.issued)
    work = original(*args, **kwargs)
    state.works[id(work)] = work, state.mode.issued[before:]
    return work


@RANKS.wraps(f"{_GROUP}._start_coalescing")
def _start_coalescing(state: RecordingState, original: Any, *args: Any) -> Any:
    state.coalesced_from = len(state.mode.issued)
    return original(*args)


@RANKS.wraps(f"{_GROUP}._end_coalescing")
def _end_coalescing(state: RecordingState, original: Any, *args: Any) -> Any:
    """Waiting for what was coalesced means waiting for all of it."""
    work = original(*args)
    state.works[id(work)] = work, state.mode.issued[state.coalesced_from :]
    return work


@RANKS.wraps("torch.distributed.Work.wait", "torch._C._distributed_c10d.FakeWork.wait")
def _wait(state: RecordingState, _: Any, work: Any, *__: object, **___: object) -> bool:
    state.tape.wait(state.works.pop(id(work), (None, []))[1])
    return True


@RANKS.wraps(f"{_C10D}.all_gather_object", everywhere=True)
def _all_gather_object(
    state: RecordingState, _: Any, object_list: list[Any], obj: Any, *__: Any, **___: Any
) -> None:
    """Every rank is taken to send what this one sends, here and in the next two."""
    state.host_waits("all_gather_object", state.tape.everything())
    object_list[:] = [obj] * len(object_list)


@RANKS.wraps(f"{_C10D}.gather_object", everywhere=True)
def _gather_object(
    state: RecordingState, _: Any, obj: Any, object_gather_list: Any = None, *__: Any, **___: Any
) -> None:
    state.host_waits("gather_object", state.tape.everything())
    if object_gather_list is not None:
        object_gather_list[:] = [obj] * len(object_gather_list)


@RANKS.wraps(f"{_C10D}.broadcast_object_list", everywhere=True)
def _broadcast_object_list(state: RecordingState, _: Any, *__: Any, **___: Any) -> None:
    state.host_waits("broadcast_object_list", state.tape.everything())


@RANKS.wraps("torch.multiprocessing.spawn", everywhere=True)
def _spawn(
    state: RecordingState, _: Any, fn: Any, args: tuple[Any, ...] = (), nprocs: int = 1, *__: Any, **___: Any
) -> Any:
    """Of the ranks that a program starts by itself, the one to be recorded runs here."""
    node = min(state.ranks_per_node, state.world_size)
    if nprocs != node:
        raise RuntimeError(
            f"torch.multiprocessing.spawn starts {nprocs} ranks on each node, and {node} are recorded: "
            f"give --nproc-per-node {nprocs}"
        )
    fn(state.rank % nprocs, *args)
    return SimpleNamespace(join=lambda *_, **__: True)


def _save(state: RecordingState, _: Any, name: str, *__: Any, **___: Any) -> None:
    """Make every save a no-op, and note it: tensors without data cannot be saved."""
    if not state.tape.pauses:
        state.tape.note(NoteKind.NOT_RECORDED, name, state.places.now()[1])


RANKS.replaces({name: wrapper(_save, name) for name in _SAVES}, everywhere=True)


@RANKS.wraps(f"{_MESH}.DeviceMesh.__init__")
def _mesh(
    state: RecordingState, original: Any, self: Any, device_type: str, *args: Any, **kwargs: Any
) -> None:
    """The names of a mesh's dimensions say what its process groups are for."""
    with _disable_current_modes():  # it reads values of small tensors
        original(self, _device_type(state, device_type), *args, **kwargs)
    groups = getattr(self, "_dim_group_names", ())
    for name, group in zip(self.mesh_dim_names or (), groups, strict=False):
        if group is not None:
            state.mode.mesh_names.setdefault(str(group), name)


@RANKS.wraps(f"{_MESH}.init_device_mesh", everywhere=True)
def _init_device_mesh(
    state: RecordingState, original: Any, device_type: str, *args: Any, **kwargs: Any
) -> Any:
    with _disable_current_modes():
        return original(_device_type(state, device_type), *args, **kwargs)


@RANKS.wraps(
    *(
        f"{_MESH}.DeviceMesh.{name}"
        for name in ("__getitem__", "_flatten", "_unflatten", "size", "get_local_rank", "get_coordinate")
    )
)
def _with_real_tensors(_: RecordingState, original: Any, *args: Any, **kwargs: Any) -> Any:
    with _disable_current_modes():
        return original(*args, **kwargs)


def _device_type(state: RecordingState, device_type: str) -> str:
    """A mesh of CUDA devices poses as one of the CPU."""
    state.poses = state.poses or device_type == "cuda"
    return "cpu" if device_type == "cuda" else device_type
