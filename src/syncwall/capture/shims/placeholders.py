"""Values that only real data would give: numbers, truths, and sizes that follow from them.

A recording makes them up, and says so. Of routed experts more is known (`capture.routing`). Evaluation
before the first step, which is in no recorded step, gives such values by the hundred (nanoGPT: 400 batches,
minutes): a model that has been called some times alike gives what it gave last.
"""

from collections.abc import Callable, Iterator
from typing import Any, Final

import torch
from torch._subclasses import FakeTensor

from syncwall.capture.fake_devices import without_modes
from syncwall.capture.kernels import tensors
from syncwall.capture.patching import Shims, replaced
from syncwall.capture.routing import local
from syncwall.capture.state import RecordingState
from syncwall.work.program import NoteKind

VALUES = Shims()

_USUALLY_ZERO: Final = "aten::_amp_foreach_non_finite_check_and_unscale_"
_ENOUGH: Final = 4
"""Batches of an evaluation."""
_EVENLY: Final = "routing, taken to be even"
_NUMBERS: Final = ("aten::_local_scalar_dense", "aten::item", "aten::is_nonzero")  # two of inference
_COSTS: Final = ("flops", "hbm_bytes")
_LOOP: Final = "loop with a data-dependent end"


@VALUES.wraps("torch.nn.Module.__call__")
def _call(state: RecordingState, original: Any, module: Any, *args: Any, **kwargs: Any) -> Any:
    if torch.is_grad_enabled() or state.batch.is_inside or state.places.steps:
        if state.evaluated and not state.batch.is_inside:
            state.evaluated.clear()  # which would be memory of the device
        return original(module, *args, **kwargs)
    shapes = tuple((tuple(one.shape), one.dtype) for one in tensors((args, kwargs)))
    key = id(module), module.training, shapes, tuple(sorted(kwargs))
    calls, found = state.evaluated.get(key, (0, None))
    if calls < _ENOUGH:
        found = original(module, *args, **kwargs)
    state.evaluated[key] = calls + 1, found
    return found


@VALUES.wraps("torch._subclasses.FakeTensor.tolist")
def _tolist(_: RecordingState, original: Any, tensor: FakeTensor) -> Any:
    return tensor.numpy().tolist() if tensor.constant is None else original(tensor)


@VALUES.surround
def _placeholders(state: RecordingState) -> Iterator[None]:
    with replaced(state.mode, answers=_Placeholders(state)):
        yield


class _Placeholders:
    """Answers for operations that need values.

    The host would wait for the device to know them. It gets a placeholder, and the wait is noted.
    Called with each operation before it runs; NotImplemented lets it run.
    """

    def __init__(self, state: RecordingState) -> None:
        self.state = state
        self._asked: dict[tuple[Any, ...], int] = {}
        self.known: dict[str, Callable[..., Any]] = {
            **dict.fromkeys(_NUMBERS, self._item),
            "aten::allclose": lambda *_, **__: self._waited("aten.allclose", True),
            "aten::equal": lambda *_: self._waited("aten.equal", True),
            "aten::nonzero": self._nonzero,
            "aten::masked_select": self._masked_select,
            "aten::_unique2": self._unique,
            "aten::unique_dim": self._unique,
            "aten::unique_consecutive": self._unique,
            "aten::repeat_interleave": self._repeat_interleave,
            "aten::bincount": self._bincount,
        }

    def __call__(self, func: Any, args: Any, kwargs: dict[str, Any]) -> Any:
        name = func._schema.name
        answer = self.known.get(name)
        if answer is not None:
            return answer(*args, **kwargs)
        if name == _USUALLY_ZERO and isinstance(args[1], FakeTensor):
            self.state.routing.is_zero(args[1])
        if name == "aten::index" and any(_is_mask(x) for x in args[1] if x is not None):
            return self._index(func, args)
        return NotImplemented

    def _item(self, tensor: torch.Tensor) -> Any:
        if not isinstance(tensor, FakeTensor):  # a number of the host, as `alpha` of a sum
            with without_modes():
                return tensor.item()
        if tensor.constant is not None:
            return NotImplemented
        number = self.state.storages.number(tensor)
        constant = self.state.mode.constants.value(tensor)
        value = self.state.routing.value(tensor, 1.0 if constant is None else constant)
        if number in self.state.storages.host:
            self.state.made_up("Tensor.item")
        elif not self.state.places.finishing:
            self._waited("Tensor.item", value)
        if tensor.dtype == torch.bool:
            return self._truth(constant)
        return value if tensor.dtype.is_floating_point else int(value)

    def _truth(self, constant: float | None) -> bool:
        """Whether something is so; what runs between two questions that have no answer is a loop's."""
        state = self.state
        place, calls = state.places.now()[1], state.tape.calls
        key = place, state.places.steps, state.places.micro_batch
        begin = self._asked.pop(key, None)
        if constant is None:
            self._asked[key] = len(calls)
        if begin is not None and not state.tape.pauses:
            flops, moved = (sum(float(getattr(one.what, of, 0.0)) for one in calls[begin:]) for of in _COSTS)
            state.tape.note(NoteKind.PLACEHOLDER, _LOOP, place, flops=flops, moved_bytes=moved)
        return bool(constant)

    def _waited(self, name: str, value: Any = None) -> Any:
        """The host waits for what it asks about."""
        self.state.host_waits(name, self.state.tape.queued())
        self.state.made_up(name)
        return value

    def _nonzero(self, tensor: torch.Tensor) -> torch.Tensor:
        rows = self._true(tensor, "aten.nonzero")
        return self._sized(tensor.new_empty((rows, tensor.dim()), dtype=torch.int64), tensor, rows)

    def _true(self, mask: torch.Tensor, name: str) -> int:
        """Places in which a mask is true: of routing its share, else all of them."""
        share = self.state.routing.share(mask)
        self._waited(name if share is None else f"{name}: {_EVENLY}")
        count: int = mask.numel()
        return count if share is None else max(round(share * count), 1)

    def _sized(self, made: torch.Tensor, mask: torch.Tensor, size: int) -> torch.Tensor:
        """Remember that the size of a tensor was made up, unless it is that of even routing."""
        if self.state.routing.share(mask) is None:
            self.state.mode.made_up_sizes[self.state.storages.number(local(made))] = size
        return made

    def _masked_select(self, tensor: torch.Tensor, mask: torch.Tensor) -> torch.Tensor:
        whole = torch.broadcast_shapes(tensor.shape, mask.shape).numel()
        size = self._true(mask, "aten.masked_select") * whole // max(mask.numel(), 1)
        return self._sized(tensor.new_empty((size,)), mask, size)

    def _unique(self, tensor: torch.Tensor, *_: object, **__: object) -> Any:
        self._waited("aten.unique")
        count = (tensor.numel(),)
        counts = tensor.new_empty(count, dtype=torch.int64)
        return tensor.new_empty(count), tensor.new_empty(tensor.shape, dtype=torch.int64), counts

    def _repeat_interleave(self, repeats: torch.Tensor, output_size: int | None = None) -> Any:
        if output_size is not None or repeats.numel() == 0:
            return NotImplemented
        self._waited("aten.repeat_interleave")
        return repeats.new_empty((repeats.numel(),), dtype=torch.int64)

    def _bincount(self, tensor: torch.Tensor, weights: Any = None, minlength: int = 0) -> Any:
        self._waited("aten.bincount")
        return tensor.new_empty((max(minlength, 1),), dtype=torch.int64)

    def _index(self, func: Any, args: Any) -> Any:
        """A mask picks all, unless it is one of routing: nobody knows how many it would pick."""
        tensor, indices = args
        new: list[torch.Tensor | None] = []
        for index in indices:
            if index is not None and _is_mask(index):
                size = self._true(index, "aten.index with a mask")
                picked = self._sized(tensor.new_empty((size,), dtype=torch.int64), index, size)
                new.extend([picked] * index.dim())
            else:
                new.append(index)
        return func(tensor, new)


def _is_mask(index: torch.Tensor) -> bool:
    return index.dtype in (torch.bool, torch.uint8)
