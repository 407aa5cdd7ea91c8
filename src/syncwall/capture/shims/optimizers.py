"""Optimizers as on CUDA: over lists of tensors, with the step count on the host.

On the CPU they loop over parameters. Their `step` hooks mark the end of a training step.
"""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import torch
from torch._subclasses import FakeTensor
from torch.optim import optimizer as optim
from torch.optim.optimizer import (
    register_optimizer_step_post_hook,
    register_optimizer_step_pre_hook,
)
from torch.utils import _foreach_utils

from syncwall.capture.shims.patch import need, replaced
from syncwall.capture.state import State, local
from syncwall.capture.traffic import tensors
from syncwall.work.program import HeldKind


@contextmanager
def in_force(state: State, after_step: Callable[[object], None]) -> Iterator[None]:
    """Defaults of CUDA; `after_step` is called with each optimizer that has made a step."""
    devices = [*need(optim, "_get_foreach_kernels_supported_devices")(), "cpu"]

    kinds = [*need(optim, "_foreach_supported_types"), FakeTensor]

    def before(optimizer: torch.optim.Optimizer, *_: object) -> None:
        owners = state.places.owners()
        for parameter in _parameters(optimizer):
            state.on_device(parameter)
            module = owners.get(id(parameter), "")
            state.storages.are([local(parameter)], HeldKind.WEIGHTS, module)
            if parameter.grad is not None:
                state.storages.are([local(parameter.grad)], HeldKind.GRADIENTS, module)
        state.batch.trains(_parameters(optimizer))
        state.places.finishing += 1

    def after(optimizer: torch.optim.Optimizer, *_: object) -> None:
        state.places.finishing -= 1
        owners = state.places.owners()
        for parameter, kept in optimizer.state.items():
            held = [local(tensor) for tensor in tensors(kept)]
            state.storages.are(held, HeldKind.OPTIMIZER, owners.get(id(parameter), ""))
        after_step(optimizer)

    hooks = [register_optimizer_step_pre_hook(before), register_optimizer_step_post_hook(after)]
    try:
        with (
            replaced(optim, _get_foreach_kernels_supported_devices=lambda: devices),
            replaced(_foreach_utils, _get_foreach_kernels_supported_devices=lambda: devices),
            replaced(optim, _foreach_supported_types=kinds),
        ):
            yield
    finally:
        for hook in hooks:
            hook.remove()


def _parameters(optimizer: torch.optim.Optimizer) -> Iterator[Any]:
    for group in optimizer.param_groups:
        yield from group["params"]
