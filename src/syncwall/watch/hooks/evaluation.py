"""Evaluations: from `eval()` of a model that is trained to its `train()`."""

from typing import Any

from syncwall.watch.hooks.patch import Function
from syncwall.watch.hooks.watching import Watching
from syncwall.watch.marks import MarkKind
from syncwall.watch.notes import NoteKind


def attach(watching: Watching) -> None:
    """Mark `eval`; `train`, which calls itself for every module, only while it is waited for."""
    from torch import nn

    begin, end = int(MarkKind.EVALUATION_BEGIN), int(MarkKind.EVALUATION_END)
    train = nn.Module.train

    def over(self: Any, mode: bool = True) -> Any:
        if mode:
            restore()
            watching.mark(end)
        return train(self, mode)

    def restore() -> None:
        if nn.Module.train is over:
            nn.Module.train = train

    def marked(function: Function) -> Function:
        def evaluates(self: Any) -> Any:
            if nn.Module.train is train and _is_trained(watching, self):
                watching.mark(begin)
                nn.Module.train = over
            return function(self)

        return evaluates

    if not watching.patches.replace(nn.Module, "eval", marked):
        watching.note(NoteKind.NO_EVALUATION)
    watching.patches.when_imported(  # whose models have an `eval` of their own
        "transformers.modeling_utils",
        lambda module: watching.patches.replace(module.PreTrainedModel, "eval", marked),
    )
    watching.removers.append(restore)


def _is_trained(watching: Watching, module: Any) -> bool:
    """True if an optimizer that has made a step holds a parameter of the module."""
    held = {
        id(parameter)
        for optimizer in watching.optimizers.values()
        for group in optimizer.param_groups
        for parameter in group["params"]
    }
    return bool(held) and any(id(parameter) in held for parameter in module.parameters())
