"""Layers that a run in 8 or 4 bits keeps in bf16.

Holds `WideLayers`, fields that every `Layout` has, and `WIDE`, their names. Source: Megatron-LM's
`--first-last-layers-bf16`; NVIDIA's recipes for nvfp4 keep some of the layers so, most at the end.
"""

from typing import Final

from syncwall.describe.base import Description, NotNegative


class WideLayers(Description):
    """Precision by layer."""

    first_layers_bf16: NotNegative = 0
    """Layers at the start that multiply in bf16 where `precision` is narrower (Megatron's
    num_layers_at_start_in_bf16)."""
    last_layers_bf16: NotNegative = 0
    """The same at the end, before the output layer, which is never narrower
    (num_layers_at_end_in_bf16)."""


WIDE: Final = tuple(WideLayers.model_fields)
"""Names of these fields."""
