"""DDP's reducer in C++ reads values, which fake tensors do not have: one in Python stands in.

Parameters are not compared with those of other ranks, and not sent to them when the model is
wrapped.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import torch
import torch.distributed as dist
from torch.nn.parallel import distributed

from syncwall.capture.reducer import Logger, Reducer
from syncwall.capture.shims.patch import need, replaced
from syncwall.capture.state import State
from syncwall.work.program import NoteKind

_COMPRESSED = {"fp16_compress": torch.float16, "bf16_compress": torch.bfloat16}


@contextmanager
def in_force(state: State) -> Iterator[None]:
    """Buckets in Python."""
    wrapper = need(distributed, "DistributedDataParallel")
    made = need(wrapper, "__init__")
    need(dist, "_compute_bucket_assignment_by_size")

    def __init__(self: Any, module: torch.nn.Module, *args: Any, **kwargs: Any) -> None:  # noqa: N807
        kwargs["device_ids"] = kwargs["output_device"] = None
        state.mode.data_parallel = "dp"
        for tensor in [*module.parameters(), *module.buffers()]:
            state.on_device(tensor)
        state.tape.pauses += 1
        try:
            made(self, module, *args[2:], **kwargs)
        finally:
            state.tape.pauses -= 1

    def broadcast(group: Any, tensors: list[torch.Tensor], *_: object) -> None:
        """Together, as one flat tensor a dtype."""
        for dtype in {tensor.dtype for tensor in tensors}:
            alike = [tensor for tensor in tensors if tensor.dtype == dtype]
            flat = torch.cat([tensor.reshape(-1) for tensor in alike])
            dist.broadcast(flat, dist.get_global_rank(group, 0), group=group)
            parts = flat.split([tensor.numel() for tensor in alike])
            shaped = [part.view_as(t) for part, t in zip(parts, alike, strict=True)]
            torch._foreach_copy_(alike, shaped)

    def register(reducer: Reducer, _: object, hook: Any) -> None:
        name = getattr(hook, "__name__", "")
        reducer.compress = next((d for word, d in _COMPRESSED.items() if word in name), None)
        if reducer.compress is None:
            state.tape.note(NoteKind.NOT_RECORDED, f"DDP communication hook {name}")

    def register_builtin(reducer: Reducer, hook: Any) -> None:
        reducer.compress = torch.float16 if "FP16" in str(hook) else None

    with (
        replaced(wrapper, __init__=__init__),
        replaced(
            dist, Reducer=Reducer, Logger=Logger, _broadcast_coalesced=broadcast,
            _register_comm_hook=register, _register_builtin_comm_hook=register_builtin,
        ),
        replaced(
            distributed, _verify_param_shape_across_processes=lambda *_, **__: True,
            _sync_module_states=lambda *_, **__: None,
        ),
    ):  # fmt: skip
        yield
