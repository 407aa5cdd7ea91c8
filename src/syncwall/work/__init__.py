"""What a training step must do: operations, collectives and memory, before any second is known.

Holds `Work` and the operations it is made of. The transformer front end is `transformer_step`; a
captured program or an imported trace fits the same types. Every dimension is one number or an array
of them, one for each layout.
"""

from syncwall.work.block import Block, Operation, StepPhase, Stream, Work
from syncwall.work.operations import Collective, CoreAttention, Elementwise, Gemm, Transfer

__all__ = [
    "Block",
    "Collective",
    "CoreAttention",
    "Elementwise",
    "Gemm",
    "Operation",
    "StepPhase",
    "Stream",
    "Transfer",
    "Work",
]
