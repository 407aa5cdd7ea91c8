"""What a run keeps in the memory of the host in the place of the device's.

Holds `OffloadSettings`, fields that every `Layout` has, and `OFFLOAD`, their names. FSDP's CPU
offload (`CPUOffloadPolicy`) is weights, gradients and optimizer together; DeepSpeed's
`offload_optimizer` is optimizer and gradients, its `offload_param` weights.

Sources: ZeRO-Offload (Ren 2021), ZeRO-Infinity (Rajbhandari 2021), PyTorch's `fully_shard` (August
2026), torchao's `CPUOffloadOptimizer`.
"""

from typing import Final

from syncwall.describe.base import Description, NotNegative


class OffloadSettings(Description):
    """Optimizer, weights, gradients and activations on the host."""

    offload_optimizer: bool = False
    """Optimizer states live in the memory of the host, whose processor updates them."""
    offload_weights: bool = False
    """FSDP: sharded weights live in the memory of the host; every unit's are copied to the device
    for each of its passes (DeepSpeed's offload_param, FSDP's CPU offload)."""
    offload_gradients: bool = False
    """Gradients leave for the memory of the host as soon as they are complete, and are added up
    there, for an optimizer that is there too."""
    offload_layers: NotNegative = 0
    """Layers of a stage whose activations wait in the memory of the host for their backward pass.
    """


OFFLOAD: Final = tuple(OffloadSettings.model_fields)
"""Names of these fields."""
