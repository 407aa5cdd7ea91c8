"""What a writer of settings is told beside the layout.

Holds `Wanted`.
"""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Wanted:
    """The run around a layout, as far as it is known."""

    seq: int | None = None
    """Tokens in a sequence."""
    nodes: int | None = None
    gpus_per_node: int | None = None
    layers: int | None = None
    """Layers of the model."""
    experts: bool = False
    """The model has experts."""
