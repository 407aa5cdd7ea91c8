"""The device: answers of `torch.cuda` without a GPU, tensors without data, data loaders.

FSDP2 takes its streams from `torch.cpu` here, since fake tensors of the CPU pose as CUDA's.
"""

from collections.abc import Callable, Iterator
from contextlib import nullcontext
from inspect import signature
from types import SimpleNamespace
from typing import Any, Final

import torch
from torch._subclasses import FakeTensor
from torch.utils._pytree import tree_map_only

from syncwall.capture.fake_devices import is_cuda, without_modes
from syncwall.capture.kernels import tensors
from syncwall.capture.patching import Shims, answering
from syncwall.capture.routing import local
from syncwall.capture.state import RecordingState

DEVICE = Shims()

_MEMORY_BYTES: Final = 80 * 10**9
_PROPERTIES: Final = SimpleNamespace(
    name="GPU", major=9, minor=0, total_memory=_MEMORY_BYTES, multi_processor_count=132
)
_NUMBERS: Final = "memory_allocated max_memory_allocated memory_reserved max_memory_reserved"
_RANGES: Final = "range_push range_pop mark range_start range_end"
_NOTHING: Final = (
    "empty_cache reset_peak_memory_stats reset_max_memory_allocated manual_seed manual_seed_all "
    "init _lazy_init ipc_collect seed seed_all set_per_process_memory_fraction set_rng_state"
)
_LOADER_WORKERS: Final = (
    "num_workers prefetch_factor persistent_workers pin_memory timeout multiprocessing_context worker_init_fn"
)


def _device_count(state: RecordingState) -> int:
    return min(8, state.world_size)


for _module in ("torch.cuda", "torch.cpu"):
    DEVICE.replaces(
        {
            f"{_module}.Stream": lambda state, _: state.streams.stream,
            f"{_module}.Event": lambda state, _: state.streams.event,
            f"{_module}.current_stream": answering(lambda state: state.streams.current),
            f"{_module}.stream": lambda state, _: state.streams.use,
            f"{_module}.StreamContext": lambda state, _: state.streams.use,
            f"{_module}.synchronize": lambda state, _: state.streams.synchronize,
            f"{_module}.device_count": answering(_device_count),
        }
    )
DEVICE.replaces(
    {
        **{f"torch.cuda.{name}": answering(lambda _: 0) for name in _NUMBERS.split()},
        **{f"torch.cuda.{name}": answering(lambda _: None) for name in _NOTHING.split()},
        **{f"torch.cuda.nvtx.{name}": answering(lambda _: None) for name in _RANGES.split()},
        "torch.cuda.set_device": answering(lambda state: setattr(state, "poses", True)),
        "torch.cuda.is_available": answering(lambda _: True),
        "torch.cuda.is_initialized": answering(lambda _: True),
        "torch.cuda.is_current_stream_capturing": answering(lambda _: False),
        "torch.cuda.current_device": answering(lambda state: state.rank % 8),
        "torch.cuda.get_device_name": answering(lambda _: _PROPERTIES.name),
        "torch.cuda.get_device_capability": answering(lambda _: (_PROPERTIES.major, _PROPERTIES.minor)),
        "torch.cuda.get_device_properties": answering(lambda _: _PROPERTIES),
        "torch.cuda.mem_get_info": answering(lambda _: (_MEMORY_BYTES, _MEMORY_BYTES)),
        "torch.cuda.memory_stats": answering(lambda _: {}),
        "torch.cuda.memory_summary": answering(lambda _: ""),
        "torch.cuda.default_stream": answering(lambda state: state.streams.default),
        "torch.cuda.set_stream": lambda state, _: state.streams.set,
        "torch.cuda.is_bf16_supported": answering(lambda _: True),
        "torch.cuda.device": answering(lambda _: nullcontext()),
        "torch.cuda.get_rng_state": answering(lambda _: torch.get_rng_state()),
    }
)


_ACCELERATOR: Final[dict[str, Callable[[RecordingState], Any]]] = {
    "current_accelerator": lambda _: torch.device("cuda"),
    "is_available": lambda _: True,
    "device_count": _device_count,
    "current_device_index": lambda state: state.rank % 8,
    "current_device_idx": lambda state: state.rank % 8,
    "set_device_index": lambda state: setattr(state, "poses", True),
    "set_device_idx": lambda state: setattr(state, "poses", True),
    "device_index": lambda _: nullcontext(),
    "current_stream": lambda state: state.streams.current,
    "get_memory_info": lambda _: (_MEMORY_BYTES, _MEMORY_BYTES),
    "memory_stats": lambda _: {},
    "empty_cache": lambda _: None,
    "empty_host_cache": lambda _: None,
    "reset_accumulated_memory_stats": lambda _: None,
    "reset_peak_memory_stats": lambda _: None,
    **dict.fromkeys(_NUMBERS.split(), lambda _: 0),
}
DEVICE.replaces({f"torch.accelerator.{name}": answering(value) for name, value in _ACCELERATOR.items()})
DEVICE.replaces(
    {
        "torch.accelerator.set_stream": lambda state, _: state.streams.set,
        "torch.accelerator.synchronize": lambda state, _: state.streams.synchronize,
    }
)


class _Graph:
    """A CUDA graph: what is captured is recorded as it runs, which stands for the first replay.

    Later replays would call nothing at all, and are refused.
    """

    is_replayed = False

    def replay(self) -> None:
        if self.is_replayed:
            raise RuntimeError(
                "a CUDA graph is replayed again: what it holds is recorded once only; turn CUDA graphs off"
            )
        self.is_replayed = True

    def reset(self) -> None:
        self.is_replayed = False

    def pool(self) -> tuple[int, int]:
        return (0, 0)


class _AnyGenerator(type(torch._C.Generator)):  # type: ignore[misc]
    """PyTorch's own generators are instances, too."""

    def __instancecheck__(cls, one: object) -> bool:
        return isinstance(one, torch._C.Generator)


class _Generator(torch._C.Generator, metaclass=_AnyGenerator):  # type: ignore[misc]
    """On any device, a generator of the host; a state that was sent around is the one that it has."""

    def __new__(cls, *_: object, **__: object) -> Any:
        return super().__new__(cls)

    def set_state(self, state: torch.Tensor) -> Any:
        return self if isinstance(state, FakeTensor) else super().set_state(state)


@DEVICE.wraps("torch.set_rng_state", everywhere=True)
def _set_rng_state(_: RecordingState, original: Any, new_state: torch.Tensor) -> None:
    if not isinstance(new_state, FakeTensor):
        original(new_state)


DEVICE.replaces(
    {
        "torch.Generator": lambda *_: _Generator,
        "torch.Tensor.record_stream": answering(lambda _: None),  # also in hooks of the backward pass
        "torch.cuda.CUDAGraph": lambda *_: _Graph,
        "torch.cuda.graph": answering(lambda _: nullcontext()),
        "torch.cuda.graph_pool_handle": answering(lambda _: (0, 0)),
    }
)


@DEVICE.wraps("torch.nn.Module.to")
def _module_to(_: RecordingState, original: Any, self: Any, *args: Any, **kwargs: Any) -> Any:
    """A number is a device of CUDA, whatever accelerator this PyTorch was built for."""
    given = [torch.device("cuda", one) if isinstance(one, int) else one for one in args[:1]]
    if isinstance(kwargs.get("device"), int):
        kwargs["device"] = torch.device("cuda", kwargs["device"])
    return original(self, *given, *args[1:], **kwargs)


@DEVICE.wraps("torch.Tensor.__format__")
def _format(_: RecordingState, original: Any, tensor: torch.Tensor, words: str) -> Any:
    """A single value is formatted as the number that stands for it."""
    is_single = isinstance(local(tensor), FakeTensor) and not tensor.dim()
    return format(tensor.item(), words) if is_single else original(tensor, words)


@DEVICE.wraps("torch.load", everywhere=True)
def _load(_: RecordingState, original: Any, f: Any, map_location: Any = None, *args: Any, **kw: Any) -> Any:
    """What is loaded to the device is loaded to the host, and copied: there is no driver to do it."""
    if not is_cuda(map_location):
        return original(f, map_location, *args, **kw)
    with without_modes():
        found = original(f, "cpu", *args, **kw)
    return tree_map_only(torch.Tensor, lambda tensor: tensor.to("cuda"), found)


@DEVICE.wraps("torch.utils._device.DeviceContext.__init__")
def _default_device(state: RecordingState, original: Any, self: Any, device: Any) -> None:
    """`with torch.device("cuda")` and `set_default_device` make tensors that pose as CUDA's."""
    is_cuda = torch.device(device).type == "cuda"
    state.poses = state.poses or is_cuda
    original(self, torch.device("cpu") if is_cuda else device)


@DEVICE.wraps("torch.amp.autocast_mode.autocast.__init__")
def _autocast(
    state: RecordingState,
    original: Any,
    self: Any,
    device_type: str,
    dtype: torch.dtype | None = None,
    *args: Any,
    **kwargs: Any,
) -> None:
    """`autocast("cuda")` is that of the CPU, with CUDA's number format if none is named."""
    if device_type == "cuda":
        state.poses = True
        dtype = dtype or torch.get_autocast_dtype("cuda")
    original(self, "cpu" if device_type == "cuda" else device_type, dtype, *args, **kwargs)


@DEVICE.wraps("torch.is_autocast_enabled")
def _is_autocast_enabled(_: RecordingState, original: Any, device_type: str = "cuda") -> bool:
    return bool(original("cpu" if device_type == "cuda" else device_type))


@DEVICE.wraps("torch.UntypedStorage.resize_")
def _resize(state: RecordingState, original: Any, storage: torch.UntypedStorage, size: int) -> Any:
    """FSDP2 frees and takes the memory of unsharded parameters by resizing their storages."""
    result = original(storage, size)
    state.storages.resized(storage)
    return result


@DEVICE.wraps("torch.utils.swap_tensors")
def _swap_tensors(_: RecordingState, original: Any, first: torch.Tensor, second: torch.Tensor) -> None:
    """`Module.to` swaps parameters, and refuses to if anything weakly refers to them.

    Fake tensors are referred to by their own mode: what they hold is swapped without asking.
    """
    try:
        original(first, second)
    except RuntimeError:
        first.__class__, second.__class__ = second.__class__, first.__class__
        first.__dict__, second.__dict__ = second.__dict__, first.__dict__
        torch._C._swap_tensor_impl(first, second)


@DEVICE.wraps("torch.Tensor.__deepcopy__")
def _deepcopy(_: RecordingState, original: Any, tensor: torch.Tensor, memo: dict[int, Any]) -> torch.Tensor:
    """A fake tensor is cloned, a real one copied for real: a copy gets the storage of a real one.

    Copies of weights (an average of them) and of the states of metrics are made in this way.
    """
    if id(tensor) not in memo and isinstance(tensor, FakeTensor) and tensor.is_leaf:
        memo[id(tensor)] = tensor.detach().clone().requires_grad_(tensor.requires_grad)
    with without_modes():
        found: torch.Tensor = original(tensor, memo)  # whatever is in `memo` already
    return found


@DEVICE.wraps("torch._subclasses.fake_tensor.FakeTensor.__new__")
def _parameter(_: RecordingState, original: Any, kind: type, *args: Any, **kwargs: Any) -> Any:
    """Accelerate makes a parameter as another one is made: `type(parameter)(value, requires_grad=...)`."""
    if args and isinstance(args[0], torch.Tensor) and "fake_mode" not in kwargs:
        return torch.nn.Parameter(args[0], kwargs.get("requires_grad", True))
    return original(kind, *args, **kwargs)


@DEVICE.wraps("torch.utils.data.DataLoader.__init__")
def _loader(_: RecordingState, original: Any, *args: Any, **kwargs: Any) -> None:
    """Data are loaded for real: samplers and data sets read thousands of values from small tensors.

    Workers and pinned memory are not needed.
    """
    given = signature(original).bind(*args, **kwargs)
    for name in _LOADER_WORKERS.split():
        given.arguments.pop(name, None)
    with without_modes():
        original(*given.args, **given.kwargs)


@DEVICE.wraps("torch.utils.data.DataLoader.__iter__")
def _batches(state: RecordingState, original: Any, self: Any) -> Iterator[Any]:
    with without_modes():
        batches = original(self)
    while True:
        try:
            with without_modes():
                batch = next(batches)
        except StopIteration:
            return
        for tensor in tensors(batch):
            if isinstance(tensor, FakeTensor):  # of a data set made while recording
                state.storages.host.add(state.storages.number(tensor))
        yield batch
