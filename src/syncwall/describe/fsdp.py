"""How FSDP and ZeRO-3 move weights and gradients: what people tune of it.

Holds `FsdpSettings`, fields that every `Layout` has, and `FSDP`, their names. They mean something
only where `shard` is fsdp and, but for formats, where there is no pipeline: in one, weights are
gathered once a step.

Sources: PyTorch's `fully_shard` (August 2026) for units, prefetch and resharding; ZeRO++ (Wang
2023) for a second partition of the weights and for 8 and 4 bits on their way.
"""

from typing import Annotated, Final

from syncwall.describe.base import Description, Positive, Whole
from syncwall.describe.choice import Dtype


class FsdpSettings(Description):
    """Units, prefetch, resharding, and formats on the way."""

    unit_layers: Positive = 1
    """FSDP: layers that are gathered and reduced together (a wrap unit); the whole model, with
    embedding and output layer, if it has no more."""
    forward_prefetch: Positive = 1
    """FSDP: units whose weights are gathered ahead in the forward pass, with overlap_parameters."""
    backward_prefetch: Positive = 1
    """FSDP: units whose weights are gathered ahead in the backward pass."""
    reshard_after_forward: bool | Annotated[int, Whole(2)] | None = None
    """FSDP: weights are given back after the forward pass and gathered again; kept if false; with a
    number, shared by so many ranks only until then (ZeRO++ hpZ). True if not given, but false for
    a unit that is the whole model."""
    gather_dtype: Dtype | None = None
    """FSDP: format in which weights are gathered: fp8 (torchao), int8 (ZeRO++ qwZ); the 16 bits of
    the computation if not given."""
    quantized_gradients: bool = False
    """FSDP: gradients are exchanged in 4 bits (ZeRO++ qgZ)."""


FSDP: Final = tuple(FsdpSettings.model_fields)
"""Names of these fields."""
