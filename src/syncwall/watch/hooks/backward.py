"""The backward pass, its loss, and how long it waits for gradients under DistributedDataParallel.

DDP reduces gradients while others are computed; what is left when the last one is there is exposed.
Which parameter that is shows in the first backward passes, with a hook on each of them. After that
one hook stays.
"""

from contextlib import suppress
from typing import Any, Final
from weakref import ref

from syncwall.watch.hooks.patch import Function
from syncwall.watch.hooks.watching import Watching
from syncwall.watch.marks import MarkKind
from syncwall.watch.notes import NoteKind

_LEARNED_AFTER: Final = 2
"""Backward passes; DDP makes its buckets anew after the first."""
_MISSED: Final = 8
"""Backward passes without the gradient that came last: others are trained now, learn again."""


def attach(watching: Watching) -> None:
    """Mark `torch.autograd.backward`, the outermost call only."""
    import torch

    begin, end, loss = (
        int(kind) for kind in (MarkKind.BACKWARD_BEGIN, MarkKind.BACKWARD_END, MarkKind.LOSS)
    )
    last_gradients: list[LastGradient] = []
    depth = 0

    def tell_loss(tensor: Any) -> None:
        if tensor.is_cpu:
            if tensor.numel() == 1 and tensor.is_floating_point():
                watching.mark(loss, tensor.item(), 1)
        elif tensor.is_cuda:  # reading it would wait for the device
            with suppress(Exception):  # the host's clock will do
                watching.time_on_device(
                    lambda: torch.cuda.Event(enable_timing=True), torch.cuda.current_stream
                )

    def marked(function: Function) -> Function:
        def backward(*given: Any, **named: Any) -> Any:
            nonlocal depth
            if depth:  # checkpointed activations: a backward pass inside another
                return function(*given, **named)
            depth = 1
            watching.mark(begin)
            if given and type(given[0]) is torch.Tensor:
                tell_loss(given[0])
            try:
                return function(*given, **named)
            finally:
                depth = 0
                watching.mark(end)
                for one in last_gradients:
                    one.after_backward()

        return backward

    if not watching.patches.replace(torch.autograd, "backward", marked):
        watching.note(NoteKind.NO_BACKWARD)
    parallel = getattr(torch.nn.parallel, "DistributedDataParallel", None)

    def made(function: Function) -> Function:
        def __init__(self: Any, *given: Any, **named: Any) -> None:  # noqa: N807
            function(self, *given, **named)
            with suppress(Exception):  # the training goes on, whatever this version is like
                last_gradients.append(LastGradient(watching, self))

        return __init__

    if not watching.patches.replace(parallel, "__init__", made):
        watching.note(NoteKind.NO_LAST_GRADIENT)
    watching.removers.append(lambda: _forget(last_gradients))


def _forget(last_gradients: "list[LastGradient]") -> None:
    for one in last_gradients:
        one.forget()
    last_gradients.clear()


class LastGradient:
    """The gradient of one DDP module that comes last."""

    def __init__(self, watching: Watching, module: Any) -> None:
        self._watching, self._module = watching, ref(module)
        self._order: list[int] = []
        self._hooks: list[Any] = []
        self._learned = self._missed = 0
        self._seen = False
        self._learn()

    def _learn(self) -> None:
        self.forget()
        self._learned = self._missed = 0
        for number, parameter in enumerate(self._parameters()):
            hook = parameter.register_post_accumulate_grad_hook(
                lambda _, number=number: self._order.append(number)
            )
            self._hooks.append(hook)

    def _parameters(self) -> list[Any]:
        module = self._module()
        return [one for one in module.parameters() if one.requires_grad] if module else []

    def after_backward(self) -> None:
        """Learn from the order of gradients, or check that the last one still comes."""
        if self._order:
            self._learned += 1
            last = self._order[-1]
            self._order.clear()
            if self._learned == _LEARNED_AFTER:
                self._keep(self._parameters()[last])
        elif self._learned >= _LEARNED_AFTER:
            self._missed = 0 if self._seen else self._missed + 1
            self._seen = False
            if self._missed == _MISSED:
                self._learn()

    def _keep(self, parameter: Any) -> None:
        self.forget()
        watching, kind = self._watching, int(MarkKind.LAST_GRADIENT)

        def arrived(_: Any) -> None:
            self._seen = True
            watching.mark(kind)

        self._hooks.append(parameter.register_post_accumulate_grad_hook(arrived))

    def forget(self) -> None:
        """Take all hooks away."""
        for hook in self._hooks:
            hook.remove()
        self._hooks.clear()
