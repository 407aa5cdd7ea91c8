"""Models of `transformers` look for fake tensors, and then do what they would not do on a GPU.

They take it for tracing, and make masks of all pairs that real data would not need.
"""

import sys
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from typing import Any

from torch.nn.modules.module import register_module_forward_pre_hook

from syncwall.capture.shims.patch import replaced
from syncwall.capture.state import State

_ASKS = "transformers.utils.import_utils"


@contextmanager
def in_force(_: State) -> Iterator[None]:
    """Nothing is fake to them, from the first call of a module on: scripts import them late."""
    with ExitStack() as stack:

        def pose(*_: Any) -> None:
            hook.remove()
            module = sys.modules.get(_ASKS)
            if hasattr(module, "is_fake_tensor"):
                stack.enter_context(replaced(module, is_fake_tensor=lambda tensor: False))

        hook = register_module_forward_pre_hook(pose)
        stack.callback(hook.remove)
        yield
