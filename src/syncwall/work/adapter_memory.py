"""What adapters add to the memory of a rank, and what frozen weights need when they are used.

Holds `Added`.
"""

from dataclasses import dataclass

from syncwall.work.layer import ACTIVATION_BYTES, Shape
from syncwall.work.number import Number
from syncwall.work.sharing import weight_bytes
from syncwall.work.states import stored_bytes, trained_bytes, trained_state_bytes


@dataclass(frozen=True, slots=True)
class Added:
    """Bytes more for each parameter of the model, which are sharded as those are."""

    weights: Number = 0.0
    gradients: Number = 0.0
    optimizer: Number = 0.0
    dequantised: Number = 0.0
    """Bytes of the largest matrix of a layer in 16 bits while it is multiplied by."""

    @classmethod
    def of(cls, shape: Shape, adapters: Number, ends: Number) -> "Added":
        """With so many parameters of `adapters`, and of `ends`, for each parameter of the model.

        Embedding and output layer are not quantised.
        """
        layout, lora = shape.layout, shape.layout.lora
        if lora is None:
            return cls()
        quantised = lora.weight_bytes is not None
        wide = (weight_bytes(layout) - stored_bytes(layout)) * quantised
        narrow = stored_bytes(layout) < ACTIVATION_BYTES and quantised
        mlp, moe = shape.model.mlp, shape.model.moe
        width = max(mlp.hidden if mlp else 0, moe.hidden if moe else 0)
        return cls(
            weights=trained_bytes(layout) * adapters + wide * ends,
            gradients=layout.kept_gradient_dtype.size_bytes * adapters,
            optimizer=trained_state_bytes(layout) * adapters,
            dequantised=narrow * ACTIVATION_BYTES * shape.model.hidden * width / layout.tp,
        )
