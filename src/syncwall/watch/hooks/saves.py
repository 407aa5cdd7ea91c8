"""Writing checkpoints: `torch.save`, distributed ones and safetensors; and gradient norms."""

from types import ModuleType
from typing import Any

from syncwall.watch.hooks.patch import Function
from syncwall.watch.hooks.watching import Watching
from syncwall.watch.marks import MarkKind
from syncwall.watch.notes import NoteKind


def attach(watching: Watching) -> None:
    """Mark what saves, and tell the norm that clipping computes anyway."""
    import torch

    begin, end = int(MarkKind.SAVE_BEGIN), int(MarkKind.SAVE_END)

    def marked(function: Function) -> Function:
        def save(*given: Any, **named: Any) -> Any:
            watching.mark(begin)
            try:
                return function(*given, **named)
            finally:
                watching.mark(end)

        return save

    if not watching.patches.replace(torch, "save", marked):
        watching.note(NoteKind.NO_SAVES)

    def distributed(module: ModuleType) -> None:
        for name in ("save", "async_save"):
            watching.patches.replace(module, name, marked)

    watching.patches.when_imported("torch.distributed.checkpoint.state_dict_saver", distributed)
    watching.patches.when_imported(
        "safetensors.torch", lambda module: watching.patches.replace(module, "save_file", marked)
    )
    _attach_norms(watching)


def _attach_norms(watching: Watching) -> None:
    import torch
    from torch.nn.utils import clip_grad

    kind = int(MarkKind.GRADIENT_NORM)

    def told(function: Function) -> Function:
        def clip_grad_norm_(*given: Any, **named: Any) -> Any:
            norm = function(*given, **named)
            if type(norm) is torch.Tensor and norm.device.type == "cpu":  # else it would wait
                watching.mark(kind, float(norm))
            return norm

        return clip_grad_norm_

    if not watching.patches.replace(clip_grad, "clip_grad_norm_", told):
        watching.note(NoteKind.NO_GRADIENT_NORM)
        return
    again = clip_grad.clip_grad_norm_
    watching.patches.replace(torch.nn.utils, "clip_grad_norm_", lambda _: again)
