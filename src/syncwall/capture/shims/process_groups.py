"""Process groups without other processes, and waits on their work.

Any backend becomes `fake`: collectives return at once and send nothing. `Work.wait` tells the
recorder which collective the current stream waits for.
"""

import os
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from functools import partial
from typing import Any

import torch
import torch.distributed as dist
from torch.distributed import distributed_c10d as c10d

from syncwall.capture.shims.patch import everywhere, need, replaced
from syncwall.capture.state import State

_METHODS = (
    "allreduce", "allreduce_coalesced", "broadcast", "reduce", "allgather", "_allgather_base",
    "allgather_coalesced", "allgather_into_tensor_coalesced", "gather", "scatter", "reduce_scatter",
    "_reduce_scatter_base", "reduce_scatter_tensor_coalesced", "alltoall", "alltoall_base", "send",
    "recv", "recv_anysource", "barrier",
)  # fmt: skip


@contextmanager
def in_force(state: State) -> Iterator[None]:
    """Fake process groups of the size that the recording has."""
    from torch.testing._internal.distributed.fake_pg import FakeStore

    if dist.is_initialized():
        dist.destroy_process_group()
    works: dict[int, tuple[Any, list[int]]] = {}
    with ExitStack() as stack:
        stack.enter_context(_environment(state))
        dist.init_process_group(
            "fake", store=FakeStore(), rank=state.rank, world_size=state.world_size
        )
        stack.callback(_destroy)
        functions = {
            c10d.init_process_group: _nothing,
            c10d.destroy_process_group: _nothing,
            c10d.new_group: _new_group(c10d.new_group, state.rank),
            c10d.barrier: _barrier(state),
        }
        stack.enter_context(everywhere({old: _own(new) for old, new in functions.items()}))
        methods = {name: _told(need(dist.ProcessGroup, name), state, works) for name in _METHODS}
        stack.enter_context(replaced(dist.ProcessGroup, **methods))
        stack.enter_context(_coalescing(state, works))
        for kind in (dist.Work, need(torch._C._distributed_c10d, "FakeWork")):
            stack.enter_context(replaced(kind, wait=_wait(state, works)))
        yield


def _own(function: Callable[..., Any]) -> Callable[..., Any]:
    """A function of its own for each that is replaced, so each comes back as it was."""
    return partial(function)


def _nothing(*_: object, **__: object) -> None:
    return None


def _destroy() -> None:
    if dist.is_initialized():
        dist.destroy_process_group()


@contextmanager
def _environment(state: State) -> Iterator[None]:
    """What torchrun sets."""
    rank, world = state.rank, state.world_size
    node = min(state.ranks_per_node, world)
    new = {
        "RANK": rank, "WORLD_SIZE": world, "LOCAL_RANK": rank % node, "LOCAL_WORLD_SIZE": node,
        "GROUP_RANK": rank // node, "GROUP_WORLD_SIZE": -(-world // node), "ROLE_RANK": rank,
        "ROLE_WORLD_SIZE": world, "ROLE_NAME": "default", "MASTER_ADDR": "127.0.0.1",
        "MASTER_PORT": 29500, "TORCHELASTIC_RUN_ID": "none", "TORCHELASTIC_RESTART_COUNT": 0,
        "TORCHELASTIC_MAX_RESTARTS": 0,
    }  # fmt: skip
    before = {name: os.environ.get(name) for name in new}
    os.environ.update({name: str(value) for name, value in new.items()})
    try:
        yield
    finally:
        for name, value in before.items():
            os.environ.pop(name, None)
            if value is not None:
                os.environ[name] = value


def _new_group(original: Callable[..., Any], rank: int) -> Callable[..., Any]:
    """Groups that this rank is not in are not made: there may be thousands."""

    def new_group(ranks: Any = None, *args: Any, **kwargs: Any) -> Any:
        if ranks is not None and rank not in ranks:
            return dist.GroupMember.NON_GROUP_MEMBER
        kwargs.pop("backend", None)
        return original(ranks, *args[:1], backend="fake", **kwargs)

    return new_group


def _barrier(state: State) -> Callable[..., None]:
    def barrier(*_: object, **__: object) -> None:
        state.host_waits("torch.distributed.barrier", state.tape.everything())

    return barrier


def _told(
    original: Callable[..., Any], state: State, works: dict[int, tuple[Any, list[int]]]
) -> Callable[..., Any]:
    """A method of process groups whose work is known by the calls that it stands for."""

    def method(self: dist.ProcessGroup, *args: Any, **kwargs: Any) -> Any:
        before = len(state.mode.issued)
        work = original(self, *args, **kwargs)
        works[id(work)] = work, state.mode.issued[before:]
        return work

    return method


@contextmanager
def _coalescing(state: State, works: dict[int, tuple[Any, list[int]]]) -> Iterator[None]:
    """Waiting for what was coalesced means waiting for all of it."""
    start = need(dist.ProcessGroup, "_start_coalescing")
    end = need(dist.ProcessGroup, "_end_coalescing")
    first = [0]

    def starts(self: dist.ProcessGroup, device: Any) -> Any:
        first[0] = len(state.mode.issued)
        return start(self, device)

    def ends(self: dist.ProcessGroup, device: Any) -> Any:
        work = end(self, device)
        works[id(work)] = work, state.mode.issued[first[0] :]
        return work

    with replaced(dist.ProcessGroup, _start_coalescing=starts, _end_coalescing=ends):
        yield


def _wait(state: State, works: dict[int, tuple[Any, list[int]]]) -> Callable[..., bool]:
    def wait(self: Any, *_: object, **__: object) -> bool:
        _, calls = works.pop(id(self), (None, []))
        state.tape.wait(calls)
        return True

    return wait
