"""Meshes are made outside of the fake mode, and one of CUDA devices poses as one of the CPU.

`init_device_mesh` reads values of small tensors, which fake ones do not have. The names of a mesh's
dimensions say what its process groups are for.
"""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from torch.distributed import device_mesh
from torch.utils._python_dispatch import _disable_current_modes

from syncwall.capture.shims.patch import everywhere, need, replaced
from syncwall.capture.state import State


@contextmanager
def in_force(state: State) -> Iterator[None]:
    """Meshes that the recorder knows."""
    mesh = need(device_mesh, "DeviceMesh")
    made = need(mesh, "__init__")

    def __init__(self: Any, device_type: str, *args: Any, **kwargs: Any) -> None:  # noqa: N807
        with _disable_current_modes():
            made(self, _posing(state, device_type), *args, **kwargs)
        _remember(state, self)

    methods = {
        name: _really(need(mesh, name))
        for name in ("__getitem__", "_flatten", "size", "get_local_rank", "get_coordinate")
    }
    starts = need(device_mesh, "init_device_mesh")

    def init_device_mesh(device_type: str, *args: Any, **kwargs: Any) -> Any:
        with _disable_current_modes():
            return starts(_posing(state, device_type), *args, **kwargs)

    with replaced(mesh, __init__=__init__, **methods), everywhere({starts: init_device_mesh}):
        yield


def _posing(state: State, device_type: str) -> str:
    state.poses = state.poses or device_type == "cuda"
    return "cpu" if device_type == "cuda" else device_type


def _really(original: Callable[..., Any]) -> Callable[..., Any]:
    """A method that computes with real small tensors."""

    def method(self: Any, *args: Any, **kwargs: Any) -> Any:
        with _disable_current_modes():
            return original(self, *args, **kwargs)

    return method


def _remember(state: State, mesh: Any) -> None:
    names = mesh.mesh_dim_names or ()
    groups = getattr(mesh, "_dim_group_names", ())
    for name, group in zip(names, groups, strict=False):
        if group is not None:
            state.mode.mesh_names.setdefault(str(group), name)
