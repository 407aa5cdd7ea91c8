"""A module of PyTorch as a stack of its layers, counted by a forward pass that computes nothing.

Holds `counted`, a `Model` with a `stack`, and `written`, the text of a file that describes it. The
pass runs on fake tensors in 16 bits: no memory is taken, whatever the size of the module.
"""

import json
from collections import defaultdict
from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from typing import Any, Final

import torch
from torch import nn
from torch._subclasses import FakeTensorMode
from torch.func import functional_call
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_map_only

from syncwall import units
from syncwall.capture.kernels import tasks, tensors
from syncwall.capture.recorded_operations import moves_nothing
from syncwall.describe.layer_kinds import StackLayer
from syncwall.describe.model import Model
from syncwall.units import Dimension
from syncwall.work.operations import Elementwise

OUTSIDE: Final = "outside"
"""The layer of all that happens outside of the others."""
_GROUPS: Final = (nn.ModuleList, nn.ModuleDict, nn.Sequential)


def stack_of_calls(
    module: nn.Module, *given: Any, name: str = "", layers: Sequence[str] = (), **named: Any
) -> Model:
    """`module`, called with these arguments, as a stack of `layers`: names of modules inside.

    Without names they are its children, and those of lists among them. The first dimension of the
    first tensor is the number of samples. All floats are taken to be in 16 bits.
    """
    found = _Layers(module, layers or list(_children(module)))
    with FakeTensorMode() as mode:
        states = {**dict(module.named_parameters()), **dict(module.named_buffers())}
        held = {key: _fake(one).requires_grad_(one.requires_grad) for key, one in states.items()}
        given, named = tree_map_only(torch.Tensor, _fake, (given, named))
        samples = next(tensors([given, named])).shape[0]
        with torch.device("cpu"), found.watching(held.values()), mode:
            out = functional_call(module, held, given, named, tie_weights=True)
        del out  # until now it kept what was saved
    fields = {"name": name or type(module).__name__.lower(), "stack": found.stack(samples)}
    return Model.model_validate(fields)


def written(model: Model) -> str:
    """A file that describes `model`, which has a stack."""
    lines = [f"name: {model.name}", "stack:"]
    for one in model.stack or ():
        parts = [f"name: {json.dumps(one.name)}", f"parameters: {one.parameters}"]
        parts.append(f"flops: {units.format(one.forward_flops, Dimension.FLOP)}")
        sizes = {"activations": one.activation_bytes, "moved": one.moved_bytes}
        for key, size in (sizes | {"output": one.output_bytes}).items():
            parts.append(f"{key}: {units.format(size or 0.0, Dimension.BYTES)}")
        parts += [f"repeat: {one.repeat}"] * (one.repeat > 1)
        lines.append(f"  - {{{', '.join(parts)}}}")
    return "\n".join(lines) + "\n"


def _children(module: nn.Module, prefix: str = "") -> Iterator[str]:
    """Names of its children; of lists among them, those of what is in the list."""
    for key, child in module.named_children():
        if isinstance(child, _GROUPS):
            yield from _children(child, f"{prefix}{key}.")
        else:
            yield prefix + key


def _fake(tensor: torch.Tensor) -> torch.Tensor:
    """As many elements without memory, floats in 16 bits.

    On the CPU, whatever the default: there attention is one kernel, as on a GPU; on `meta` it is
    not.
    """
    dtype = torch.bfloat16 if tensor.is_floating_point() else tensor.dtype
    return torch.empty(tensor.shape, dtype=dtype, device="cpu")


def _is_same(one: StackLayer, other: StackLayer) -> bool:
    """True if they differ in their names only, or in how many there are."""
    return other == one.model_copy(update={"name": other.name, "repeat": other.repeat})


class _Layers:
    """What happens in each layer while its forward pass runs."""

    def __init__(self, module: nn.Module, names: Sequence[str]) -> None:
        self._module, self._names = module, [*names, OUTSIDE]
        self._open = [OUTSIDE]
        self._sums: dict[str, defaultdict[str, float]] = {
            key: defaultdict(float) for key in ("flops", "moved", "kept", "output")
        }
        self._storages: dict[int, Any] = {}

    def watching(self, states: Any) -> ExitStack:
        """Hooks on all layers, and on what autograd saves, but for parameters and buffers."""
        within = ExitStack()
        self._storages = {one.untyped_storage()._cdata: one for one in states}
        for name in self._names[:-1]:
            inner = self._module.get_submodule(name)
            enter, leave = self._hooks(name)
            within.callback(inner.register_forward_pre_hook(enter).remove)
            within.callback(inner.register_forward_hook(leave).remove)
        within.enter_context(torch.autograd.graph.saved_tensors_hooks(self._saved, lambda x: x))
        within.enter_context(_Operations(self))
        return within

    def _hooks(self, name: str) -> tuple[Any, Any]:
        def enter(*_: Any) -> None:
            self._open.append(name)

        def leave(_module: nn.Module, _given: Any, out: Any) -> None:
            self._open.pop()
            self._sums["output"][name] += sum(one.nbytes for one in tensors(out))

        return enter, leave

    def _saved(self, tensor: torch.Tensor) -> torch.Tensor:
        storage = tensor.untyped_storage()
        if storage._cdata not in self._storages:
            self._storages[storage._cdata] = storage
            self._sums["kept"][self._open[-1]] += storage.nbytes()
        return tensor

    def done(self, function: Any, args: Any, kwargs: dict[str, Any], out: Any) -> None:
        """Add what an operation does to the layer that is open."""
        layer = self._open[-1]
        for what in tasks(function, args, kwargs, out):
            if isinstance(what, Elementwise):
                self._sums["moved"][layer] += float(what.bytes)
            else:
                self._sums["flops"][layer] += float(getattr(what, "flops", 0.0))

    def stack(self, samples: int) -> list[StackLayer]:
        """The layers for one sample, equal ones behind each other as one entry."""
        found: list[StackLayer] = []
        for name, parameters in self._parameters():
            flops, moved, kept, output = (self._sums[key][name] / samples for key in self._sums)
            if not (parameters or flops or kept or moved):
                continue
            layer = StackLayer(
                name=name,
                parameters=parameters,
                forward_flops=flops,
                activation_bytes=kept,
                moved_bytes=moved,
                output_bytes=output,
            )
            before = found[-1] if found else None
            if before is not None and _is_same(before, layer):
                found[-1] = before.model_copy(update={"repeat": before.repeat + 1})
            else:
                found.append(layer)
        return found

    def _parameters(self) -> Iterator[tuple[str, int]]:
        """Trained parameters of each layer; what two share counts in the first."""
        seen: set[int] = set()
        for name in self._names:
            inner = self._module if name == OUTSIDE else self._module.get_submodule(name)
            own = [one for one in inner.parameters() if one.requires_grad and id(one) not in seen]
            seen.update(map(id, own))
            yield name, sum(one.numel() for one in own)


class _Operations(TorchDispatchMode):  # type: ignore[misc]
    """Tells the layers of every operation."""

    def __init__(self, layers: _Layers) -> None:
        super().__init__()
        self._layers = layers

    def __torch_dispatch__(
        self, func: Any, types: Any, args: Any = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        kwargs = kwargs or {}
        out = func(*args, **kwargs)
        if not moves_nothing(func):
            self._layers.done(func, args, kwargs, out)
        return out
