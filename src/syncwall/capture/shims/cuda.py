"""Questions to `torch.cuda` that have an answer without a GPU, and its streams and events.

FSDP2 takes its streams from `torch.cpu` here, since fake tensors of the CPU pose as CUDA's.
"""

from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, nullcontext
from types import SimpleNamespace
from typing import Any

import torch
from torch.amp import autocast_mode
from torch.utils import _device

from syncwall.capture.shims.patch import need, replaced
from syncwall.capture.state import State

_MEMORY_BYTES = 80 * 10**9
_NUMBERS = (
    "memory_allocated",
    "max_memory_allocated",
    "memory_reserved",
    "max_memory_reserved",
)
_RANGES = ("range_push", "range_pop", "mark", "range_start", "range_end")
_NOTHING = (
    "set_device", "empty_cache", "reset_peak_memory_stats", "reset_max_memory_allocated",
    "manual_seed", "manual_seed_all", "init", "_lazy_init", "ipc_collect", "seed", "seed_all",
    "set_per_process_memory_fraction",
)  # fmt: skip


@contextmanager
def in_force(state: State) -> Iterator[None]:
    """A device that answers."""
    with ExitStack() as stack:
        for module in (torch.cuda, torch.cpu):
            stack.enter_context(replaced(module, **_of_streams(state)))
        stack.enter_context(replaced(torch.cpu, device_count=lambda: min(8, state.world_size)))
        stack.enter_context(replaced(torch.cuda, **_answers(state)))
        stack.enter_context(_autocast(state))
        stack.enter_context(_default_device(state))
        stack.enter_context(replaced(torch.cuda.nvtx, **dict.fromkeys(_RANGES, _nothing)))
        yield


def _of_streams(state: State) -> dict[str, Any]:
    streams = state.streams
    return {
        "Stream": streams.stream,
        "Event": streams.event,
        "current_stream": lambda *_, **__: streams.current,
        "stream": streams.use,
        "StreamContext": streams.use,
        "synchronize": streams.synchronize,
    }


def _answers(state: State) -> dict[str, Any]:
    major, minor = 9, 0
    properties = SimpleNamespace(
        name="GPU", major=major, minor=minor, total_memory=_MEMORY_BYTES, multi_processor_count=132
    )
    here = state.rank % 8

    def posing(value: Any) -> Callable[..., Any]:
        def answer(*_: object, **__: object) -> Any:
            return value

        return answer

    def set_device(*_: object) -> None:
        state.poses = True

    return {
        **dict.fromkeys(_NUMBERS, posing(0)),
        **dict.fromkeys(_NOTHING, posing(None)),
        "set_device": set_device,
        "is_available": posing(True),
        "is_initialized": posing(True),
        "device_count": posing(min(8, state.world_size)),
        "current_device": posing(here),
        "get_device_name": posing(properties.name),
        "get_device_capability": posing((major, minor)),
        "get_device_properties": posing(properties),
        "mem_get_info": posing((_MEMORY_BYTES, _MEMORY_BYTES)),
        "memory_stats": posing({}),
        "memory_summary": posing(""),
        "default_stream": posing(state.streams.default),
        "set_stream": state.streams.set,
        "is_bf16_supported": posing(True),
        "device": lambda *_: nullcontext(),
        "get_rng_state": lambda *_: torch.get_rng_state(),
        "set_rng_state": posing(None),
    }


def _nothing(*_: object, **__: object) -> None:
    return None


@contextmanager
def _default_device(state: State) -> Iterator[None]:
    """`with torch.device("cuda")` and `set_default_device` make tensors that pose as CUDA's."""
    context = need(_device, "DeviceContext")
    made = need(context, "__init__")

    def __init__(self: Any, device: Any) -> None:  # noqa: N807
        is_cuda = torch.device(device).type == "cuda"
        state.poses = state.poses or is_cuda
        made(self, torch.device("cpu") if is_cuda else device)

    with replaced(context, __init__=__init__):
        yield


@contextmanager
def _autocast(state: State) -> Iterator[None]:
    """`autocast("cuda")` is that of the CPU, with CUDA's number format if none is named."""
    cast = need(autocast_mode, "autocast")
    made = need(cast, "__init__")
    enabled = torch.is_autocast_enabled

    def __init__(  # noqa: N807
        self: Any, device_type: str, dtype: torch.dtype | None = None, *args: Any, **kwargs: Any
    ) -> None:
        if device_type == "cuda":
            state.poses = True
            dtype = dtype or torch.get_autocast_dtype("cuda")
        made(self, "cpu" if device_type == "cuda" else device_type, dtype, *args, **kwargs)

    def is_autocast_enabled(device_type: str = "cuda") -> bool:
        return bool(enabled("cpu" if device_type == "cuda" else device_type))

    with (
        replaced(cast, __init__=__init__),
        replaced(torch, is_autocast_enabled=is_autocast_enabled),
    ):
        yield
