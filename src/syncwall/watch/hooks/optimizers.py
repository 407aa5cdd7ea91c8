"""Steps of optimizers: the first one that makes a step leads, and its steps are those of the run.

With several optimizers a step goes from one step of the leading one to its next, whatever the
others do meanwhile.
"""

from typing import Any, Final

from syncwall.watch.hooks.patch import Function
from syncwall.watch.hooks.watching import Watching
from syncwall.watch.marks import MarkKind
from syncwall.watch.notes import NoteKind

_GIVEN_UP: Final = 8
"""Steps of others since the leading optimizer's last: it was one of a warm-up."""


def attach(watching: Watching) -> None:
    """Global hooks before and after `step`, and `GradScaler.step`, which may leave a step out."""
    from torch.optim import optimizer as optim

    begin, end, skipped = (
        int(kind)
        for kind in (MarkKind.OPTIMIZER_BEGIN, MarkKind.OPTIMIZER_END, MarkKind.STEP_SKIPPED)
    )
    leader: int | None = None
    steps = of_others = ended = 0

    def before(*_: Any) -> None:
        watching.mark(begin)

    def after(optimizer: Any, *_: Any) -> None:
        nonlocal leader, steps, of_others, ended
        steps += 1
        if leader is None or of_others >= _GIVEN_UP:
            leader, of_others = id(optimizer), 0
        if id(optimizer) == leader:
            of_others = 0
            watching.mark(end, float(ended), 1)
            ended += 1
        else:
            of_others += 1
            watching.mark(end)
        if id(optimizer) not in watching.optimizers:
            watching.optimizers[id(optimizer)] = optimizer

    try:
        hooks = (
            optim.register_optimizer_step_pre_hook(before),
            optim.register_optimizer_step_post_hook(after),
        )
    except AttributeError:
        watching.note(NoteKind.NO_OPTIMIZER_HOOKS)
        return
    watching.removers += [hook.remove for hook in hooks]

    def scaled(function: Function) -> Function:
        def step(self: Any, optimizer: Any, *given: Any, **named: Any) -> Any:
            nonlocal ended
            before_it = steps
            found = function(self, optimizer, *given, **named)
            if steps == before_it and id(optimizer) == leader:
                watching.mark(skipped, float(ended))
                ended += 1
            return found

        return step

    _attach_scaler(watching, scaled)


def _attach_scaler(watching: Watching, scaled: Any) -> None:
    import torch

    scaler = getattr(torch.amp, "GradScaler", None)
    if not watching.patches.replace(scaler, "step", scaled):
        watching.note(NoteKind.NO_GRAD_SCALER)
