"""Evaluation before the first step, of which a few batches are as good as hundreds.

nanoGPT evaluates 400 batches before it trains: minutes of work that is in no recorded step. Once a model
has been called some times alike, without gradients and before any step, it gives what it gave last.
"""

from typing import Any, Final

import torch

from syncwall.capture.kernels import tensors
from syncwall.capture.patching import Shims
from syncwall.capture.state import RecordingState

EVALUATION = Shims()
_ENOUGH: Final = 4


@EVALUATION.wraps("torch.nn.Module.__call__")
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
