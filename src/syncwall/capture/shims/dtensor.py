"""DTensor works out shapes by running operations on whole tensors: that is no work of a rank."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from torch.distributed.tensor import _sharding_prop

from syncwall.capture.shims.patch import need, replaced
from syncwall.capture.state import State


@contextmanager
def in_force(state: State) -> Iterator[None]:
    """The recorder looks away meanwhile."""
    propagator = need(_sharding_prop, "ShardingPropagator")
    propagates = need(propagator, "_propagate_tensor_meta_non_cached")

    def silently(self: Any, *args: Any, **kwargs: Any) -> Any:
        state.tape.pauses += 1
        try:
            return propagates(self, *args, **kwargs)
        finally:
            state.tape.pauses -= 1

    with replaced(propagator, _propagate_tensor_meta_non_cached=silently):
        yield
