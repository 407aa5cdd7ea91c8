"""Waiting for communication: calls of `torch.distributed`, handles, functional collectives, FSDP2.

On CPUs these calls block, and their time is what is waited. On CUDA they only order streams; there
the device's clock tells, and only for waits that pass through here. What is called on a stream of
its own (FSDP2's collectives, pipelines that overlap) is not waited for there, and where the
training waits for it is not seen: that is noted.
"""

from types import ModuleType
from typing import Any, Final

from syncwall.watch.hooks.patch import Function
from syncwall.watch.hooks.watching import Watching
from syncwall.watch.marks import COLLECTIVES, MarkKind
from syncwall.watch.notes import NoteKind

_CALLS: Final = {
    "all-reduce": ("all_reduce", "all_reduce_coalesced", "reduce"),
    "all-gather": (
        "all_gather", "all_gather_into_tensor", "all_gather_single", "all_gather_object",
        "all_gather_coalesced", "gather", "gather_object",
    ),
    "reduce-scatter": ("reduce_scatter", "reduce_scatter_tensor", "reduce_scatter_single"),
    "all-to-all": ("all_to_all", "all_to_all_single"),
    "broadcast": ("broadcast", "broadcast_object_list", "scatter", "scatter_object_list"),
    "send-receive": ("send", "recv", "send_object_list", "recv_object_list"),
    "barrier": ("barrier", "monitored_barrier"),
}  # fmt: skip
"""Functions of `torch.distributed` by what they move; a version need not have all of them."""
_OTHER: Final = COLLECTIVES.index("other")


def attach(watching: Watching) -> None:
    """Mark the functions, `Work.wait`, and what is loaded later."""
    import torch.distributed as dist

    if not dist.is_available():
        return
    from torch.distributed import distributed_c10d

    for kind, names in _CALLS.items():
        for name in names:
            _replace(watching, (distributed_c10d, dist), name, COLLECTIVES.index(kind))
    if not watching.patches.replace(distributed_c10d.Work, "wait", _marked(watching, _OTHER)):
        watching.note(NoteKind.NO_WAITS)
    watching.patches.when_imported(
        "torch.distributed._functional_collectives", lambda module: _functional(watching, module)
    )
    group = "torch.distributed.fsdp._fully_shard._fsdp_param_group"
    watching.patches.when_imported(group, lambda module: _fsdp(watching, module))
    old = "torch.distributed.fsdp.fully_sharded_data_parallel"
    watching.patches.when_imported(old, lambda module: _old_fsdp(watching, module))


def _replace(watching: Watching, owners: tuple[Any, Any], name: str, argument: int) -> None:
    """One function, which `torch.distributed` has a second time."""
    home, again = owners
    if watching.patches.replace(home, name, _marked(watching, argument)) and hasattr(again, name):
        new = getattr(home, name)
        watching.patches.replace(again, name, lambda _: new)


def _marked(watching: Watching, argument: int) -> Any:
    begin, end = int(MarkKind.WAIT_BEGIN), int(MarkKind.WAIT_END)

    def make(function: Function) -> Function:
        def call(*given: Any, **named: Any) -> Any:
            if watching.is_on_another_stream:
                watching.note(NoteKind.DEVICE_COMMUNICATION)
                return function(*given, **named)
            watching.mark(begin, 0.0, argument)
            try:
                return function(*given, **named)
            finally:
                watching.mark(end)

        return call

    return make


def _functional(watching: Watching, module: ModuleType) -> None:
    """Those of DTensor, so of tensor parallelism."""
    if not watching.patches.replace(module, "wait_tensor", _marked(watching, _OTHER)):
        watching.note(NoteKind.NO_FUNCTIONAL_WAITS)


def _fsdp(watching: Watching, module: ModuleType) -> None:
    group = getattr(module, "FSDPParamGroup", None)
    marked = _marked(watching, COLLECTIVES.index("all-gather"))
    if not watching.patches.replace(group, "wait_for_unshard", marked):
        watching.note(NoteKind.FSDP_WAITS)


def _old_fsdp(watching: Watching, module: ModuleType) -> None:
    def made(function: Function) -> Function:
        def __init__(self: Any, *given: Any, **named: Any) -> None:  # noqa: N807
            watching.note(NoteKind.OLD_FSDP)
            function(self, *given, **named)

        return __init__

    watching.patches.replace(getattr(module, "FullyShardedDataParallel", None), "__init__", made)
