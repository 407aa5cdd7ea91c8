"""How far the backward pass goes, and which weights have gradients.

Holds `Backward` with `TRAINED`, `PASSED` and `STILL`, `Frozen`, which says it of every part of a
model, and `passed_shape`. A part that is not trained is passed through where something before it
is; below the first trained part nothing goes backward: nothing is kept for it, and nothing is
gathered again.
"""

from dataclasses import dataclass, replace

from syncwall.describe.layer_kinds import LayerKind
from syncwall.describe.model import Model
from syncwall.work.layer import Shape


@dataclass(frozen=True, slots=True)
class Backward:
    """What the backward pass does in a part of a model."""

    passes: bool
    """Gradients of its input are computed."""
    trains: bool
    """Gradients of its weights are computed."""


TRAINED, PASSED, STILL = Backward(True, True), Backward(True, False), Backward(False, False)


@dataclass(frozen=True, slots=True)
class Frozen:
    """The backward pass of a step, part by part."""

    encoder: Backward
    projector: Backward
    embedding: Backward
    first: Backward
    """Of the `first_layers`."""
    layers: Backward
    """Of the other layers of the decoder."""
    output_layer: Backward
    first_layers: int = 0
    """Layers at the start that are not trained where those behind them are."""

    @classmethod
    def of(cls, shape: Shape) -> "Frozen":
        """Of the model and layout of `shape`; with adapters, all but the decoder is frozen."""
        layout, encoder = shape.layout, shape.model.encoder
        parts = layout.frozen
        in_front = not layout.frozen_weights and encoder is not None
        sees = in_front and "encoder" not in parts and not (encoder and encoder.frozen)
        joins = in_front and "projector" not in parts and bool(encoder and encoder.projector)
        front = TRAINED if sees else STILL
        between = TRAINED if joins else PASSED if sees else STILL
        decoder = "decoder" in parts
        below = PASSED if sees or joins else STILL
        if decoder:
            return cls(front, between, STILL, below, below, below)
        if not layout.frozen_layers:
            return cls(front, between, TRAINED, below, TRAINED, TRAINED)
        head = PASSED if shape.model.tied_embeddings else TRAINED
        return cls(front, between, STILL, below, TRAINED, head, layout.frozen_layers)

    @property
    def whole_decoder(self) -> bool:
        """True if every part of the decoder is trained, or has adapters that are."""
        return self.embedding is TRAINED

    def leading(self, model: Model, kind: LayerKind) -> int:
        """Layers of `kind` among the `first_layers`."""
        return sum(_is_of(model, layer, kind) for layer in range(self.first_layers))

    def of_kind(self, model: Model, kind: LayerKind) -> list[tuple[int, Backward]]:
        """Layers of `kind`, those at the start first, and what the backward pass does in them."""
        leading = self.leading(model, kind)
        parts = [(leading, self.first), (kind.count - leading, self.layers)]
        return [(count, back) for count, back in parts if count] or parts[1:]


def passed_shape(shape: Shape) -> Shape:
    """`shape` as layers have it whose weights have no gradients."""
    return replace(shape, layout=shape.layout.model_copy(update={"frozen_weights": True}))


def _is_of(model: Model, layer: int, kind: LayerKind) -> bool:
    """True if layer number `layer` (from 0) is of `kind`."""
    if model.pattern is None:
        return model.has_experts(layer) == kind.has_experts
    words = model.pattern.split()
    return words[layer % len(words)] == kind.letters
