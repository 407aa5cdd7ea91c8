"""Parts of a model that are not trained, and images that a sample brings.

Holds `Freezing`, fields that every `Layout` has, and `FrozenPart`. A part that is not trained has
no weight gradients and no optimizer states; nothing goes backward below the first part that is.
LLaVA-1.5 (Liu 2023, arXiv:2310.03744) trains the projector alone, then everything but the encoder;
Qwen2.5-VL (arXiv:2502.13923, table 2) the encoder alone, then all of it.
"""

from typing import Any, Final, Literal

from pydantic import field_validator

from syncwall.describe.base import Description, NotNegative, Positive

FrozenPart = Literal["encoder", "projector", "decoder"]


class Freezing(Description):
    """What is trained of a model, by part and by layer."""

    frozen: tuple[FrozenPart, ...] = ()
    """Parts that are not trained: the encoder in front, the projector behind it, the decoder with
    its embedding and output layer (the language model). The model may say so of its encoder too."""
    frozen_layers: NotNegative = 0
    """Layers at the start of the decoder that are not trained, with the embedding before them; an
    output layer that is tied to the embedding is not trained then either."""
    images: Positive | None = None
    """Sequences of the encoder (images, or tiles of them) for each sequence of the model; as the
    model's `encoder.each` says if not given."""

    @field_validator("frozen", mode="before")
    @classmethod
    def _may_be_one(cls, value: Any) -> Any:
        """One part may be written without brackets."""
        return (value,) if isinstance(value, str) else value


FREEZING: Final = tuple(Freezing.model_fields)
"""Names of these fields."""
