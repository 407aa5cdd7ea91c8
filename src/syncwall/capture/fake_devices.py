"""Devices that a program names, and copies between host and device.

Holds `DeviceMode`. Tensors of the device are fake ones on the CPU that pose as CUDA's: whoever asks
for a CUDA device gets one of them. Numbers that a program makes on the host, such as the places that
a batch is cut out at, keep their values until they are copied to the device.
"""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import torch
from torch._subclasses import FakeTensor
from torch.overrides import TorchFunctionMode, _len_torch_function_stack, _pop_mode_temporarily
from torch.utils import _device
from torch.utils._python_dispatch import _disable_current_modes
from torch.utils._pytree import tree_map_only

from syncwall.capture.kernels import tensors
from syncwall.capture.routing import local
from syncwall.capture.state import RecordingState
from syncwall.work.operations import Offload


class DeviceMode(TorchFunctionMode):  # type: ignore[misc]
    """Translates devices."""

    def __init__(self, state: RecordingState) -> None:
        super().__init__()
        self.state = state
        self._instead: dict[Any, Callable[..., Any]] = {
            torch.Tensor.to: self._to,
            torch.Tensor.cuda: self._cuda,
            torch.Tensor.cpu: self._cpu,
            torch.Tensor.pin_memory: lambda tensor, *_, **__: tensor,
            torch.Tensor.is_pinned: lambda tensor, *_, **__: False,
            torch.Tensor.numpy: self._numpy,
            torch.Tensor.is_cuda.__get__: self._is_cuda,
        }

    def __torch_function__(
        self, func: Any, types: Any, args: Any = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        """Call a function with the device that poses as the one it names."""
        kwargs = kwargs or {}
        if func is torch.device and args and isinstance(args[0], int):
            return torch.device("cuda", args[0])
        named = kwargs.get("device")
        on_host = named == "cpu" if isinstance(named, str) else named is None
        on_host = on_host and (named is not None or _device.CURRENT_DEVICE is None)
        if named is not None:
            kwargs = {**kwargs, "device": self._posing(named)}
        made = self._made(func, args, kwargs, on_host=on_host)
        noticed = self.state.routing.notices.get(func)
        if noticed is not None:
            noticed(made, *args, **kwargs)
        return made

    def _made(self, func: Any, args: Any, kwargs: dict[str, Any], *, on_host: bool) -> Any:
        instead = self._instead.get(func)
        if instead is not None:
            answer = instead(*args, **kwargs)
            if answer is not NotImplemented:
                return answer
        if func is torch.tensor and args and isinstance(args[0], list):  # each number is asked for
            args = tree_map_only(FakeTensor, torch.Tensor.item, args)
        stays = self.state.poses and (on_host or "device" not in kwargs)
        of_storage = any(isinstance(one, torch.UntypedStorage) for one in args)  # as safetensors reads files
        if of_storage or (stays and _have_values(args, kwargs)):
            with without_modes():
                return func(*args, **kwargs)
        mode = self.state.mode
        before = mode.makes_on_host
        mode.makes_on_host = self.state.poses and on_host
        try:
            made = func(*args, **kwargs)
        finally:
            mode.makes_on_host = before
        if stays and on_host and func in _MAKE_VALUES and _is_small(made):
            with without_modes():
                return func(*args, **kwargs)
        return made

    def _posing(self, device: Any) -> Any:
        """The device that stands for the one that is named."""
        if is_cuda(device):
            self.state.poses = True
            return torch.device("cpu")
        return device

    def _to(self, tensor: torch.Tensor, *args: Any, **kwargs: Any) -> Any:
        if not any(is_cuda(value) for value in args) and not (
            kwargs.get("device") is not None and self.state.poses
        ):
            return NotImplemented
        kwargs.pop("non_blocking", None)
        moved = tensor.to(*(self._posing(x) for x in args if not isinstance(x, bool)), **kwargs)
        return self._on_device(tensor, moved)

    def _cuda(self, tensor: torch.Tensor, *_: object, **__: object) -> torch.Tensor:
        self.state.poses = True
        return self._on_device(tensor, tensor.to("cpu"))

    def _on_device(self, tensor: torch.Tensor, moved: torch.Tensor) -> torch.Tensor:
        """A copy on the device of what was on the host."""
        storages = self.state.storages
        if moved.device.type == "meta":
            return moved
        if isinstance(moved, FakeTensor):
            number = storages.number(moved)
            if number not in storages.host and isinstance(tensor, FakeTensor):
                return moved
            if moved is tensor or storages.known(tensor) == number:
                with self.state.tape.paused():
                    moved = moved.detach().clone().requires_grad_(tensor.requires_grad)
                number = storages.number(moved)
            storages.host.discard(number)
            self._copied(moved)
            return moved
        if type(moved) in (torch.Tensor, torch.nn.Parameter):
            made = self.state.fake.from_tensor(moved.detach()).requires_grad_(moved.requires_grad)
            storages.number(made)
            self._copied(made)
            return made
        return moved

    def _copied(self, tensor: torch.Tensor) -> None:
        state = self.state
        if state.tape.pauses:
            return
        phase, place = state.places.now()
        size = float(tensor.numel() * tensor.element_size())
        state.tape.add(
            "aten.copy host to device",
            Offload(size),
            phase=phase,
            place=place,
            writes=(state.storages.number(tensor),),
        )

    def _cpu(self, tensor: torch.Tensor, *_: object, **__: object) -> Any:
        if not isinstance(local(tensor), FakeTensor):
            return NotImplemented
        state = self.state
        if state.storages.known(local(tensor)) not in state.storages.host:
            state.host_waits("Tensor.cpu", state.tape.queued())
        with state.tape.paused():
            copy = tensor.detach().clone()
        state.storages.host.add(state.storages.number(local(copy)))
        return copy

    def _numpy(self, tensor: torch.Tensor, **_: object) -> Any:
        import numpy as np

        if not isinstance(tensor, FakeTensor):
            return NotImplemented
        self.state.host_waits("Tensor.numpy", self.state.tape.queued())
        self.state.made_up("Tensor.numpy")
        kind = "f4" if tensor.dtype.is_floating_point else "i8"
        return np.full(tuple(tensor.shape), self.state.routing.value(tensor), dtype=kind)

    def _is_cuda(self, tensor: torch.Tensor) -> bool:
        number = self.state.storages.known(tensor)
        on_device = number is not None and number not in self.state.storages.host
        return bool(self.state.poses and on_device)


_MAKE_VALUES = {
    torch.arange,
    torch.as_tensor,
    torch.from_numpy,
    torch.linspace,
    torch.rand,
    torch.randint,
    torch.randn,
    torch.randperm,
    torch.tensor,
}
_MOST_NUMBERS = 1 << 22
"""Whole numbers that are kept: indices and tokens of a batch ..."""
_MOST_FRACTIONS = 1 << 12
"""... and others: images and weights are of use without their values."""


def _is_small(made: Any) -> bool:
    is_whole = not (made.dtype.is_floating_point or made.dtype.is_complex)
    return bool(made.numel() <= (_MOST_NUMBERS if is_whole else _MOST_FRACTIONS))


def _have_values(args: Any, kwargs: dict[str, Any]) -> bool:
    """Whether there are tensors, and all of them are real ones that nobody trains."""
    found = False
    for one in tensors((args, kwargs)):
        if type(one) is not torch.Tensor or one.requires_grad:
            return False
        found = True
    return found


@contextmanager
def without_modes() -> Iterator[None]:
    """PyTorch as it is, for what has values."""
    with _disable_current_modes():
        if _len_torch_function_stack():
            with _pop_mode_temporarily():
                yield
        else:
            yield


def is_cuda(device: Any) -> bool:
    """Whether a device is one of CUDA; a bare number is, too."""
    if isinstance(device, torch.device):
        return bool(device.type == "cuda")
    if isinstance(device, str):
        return device.startswith("cuda")
    return isinstance(device, int) and not isinstance(device, bool)
