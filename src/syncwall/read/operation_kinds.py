"""Kinds of operations of a pipeline-parallel training step.

Holds `Kind`, `COMPUTE` and `TRANSFERS`. The names are those of the artifact
ByteDance-Seed/StragglerAnalysis.
"""

from enum import StrEnum
from typing import Final


class Kind(StrEnum):
    """What an operation is; the values are the names in the tables."""

    FORWARD = "forward-compute"
    BACKWARD = "backward-compute"
    FORWARD_SEND = "forward-send"
    FORWARD_RECEIVE = "forward-recv"
    BACKWARD_SEND = "backward-send"
    BACKWARD_RECEIVE = "backward-recv"
    PARAMETERS = "params-all-gather"
    GRADIENTS = "grads-reduce-scatter"
    SEPARATE_GRADIENTS = "separate-grads-all-reduce"
    NORM_GRADIENTS = "layernorm-grads-all-reduce"
    EMBEDDING_GRADIENTS = "embedding-grads-all-reduce"
    CLIP = "optimizer-clip-main-grad"
    OPTIMIZER = "optimizer"
    GARBAGE_COLLECTION = "gc"

    @property
    def is_forward(self) -> bool:
        """Whether it belongs to the forward pass."""
        return self.value.startswith("forward")

    @property
    def is_send(self) -> bool:
        """Whether it sends to another stage."""
        return self.value.endswith("-send")

    @property
    def is_computation(self) -> bool:
        """Whether it works on its own worker only; all other kinds communicate."""
        return self in (*COMPUTE, Kind.OPTIMIZER, Kind.GARBAGE_COLLECTION)

    @property
    def account(self) -> str:
        """What its slowdown is counted under: both ends of a transfer together, else itself."""
        if self not in TRANSFERS:
            return self.value
        return "forward-pp-comm" if self.is_forward else "backward-pp-comm"

    @property
    def computation(self) -> "Kind":
        """The computation of the same direction."""
        return Kind.FORWARD if self.is_forward else Kind.BACKWARD


COMPUTE: Final = (Kind.FORWARD, Kind.BACKWARD)
TRANSFERS: Final = (
    Kind.FORWARD_SEND, Kind.FORWARD_RECEIVE, Kind.BACKWARD_SEND, Kind.BACKWARD_RECEIVE,
)  # fmt: skip
"""Between pipeline stages."""
