"""A model: the shapes of a transformer or a stack of layers, and how it was trained.

Holds `Model` and `Encoder`, what stands in front of some; `projector.py` has what joins both. The
shapes are in `transformer.py`, layers that were counted elsewhere in `stack.py`, the counting in
`parameters.py`, the reading of Hugging Face configurations in `huggingface`.
"""

from dataclasses import replace
from typing import Any, Self

from pydantic import Field, model_validator

from syncwall.describe.base import NotNegative, Positive, SequenceTokens, Tokens
from syncwall.describe.layer_kinds import STANDING_IN, LayerKind, Stack, stacked, without_shapes
from syncwall.describe.parameters import ParameterCount, count_parameters
from syncwall.describe.transformer import Projector, Transformer
from syncwall.documents import Document


class Model(Transformer):
    """A transformer, decoder or encoder, of text or of images; or a stack of any other layers."""

    max_seq: SequenceTokens | None = None
    """Longest sequence the published model takes."""
    train_seq: SequenceTokens | None = None
    """Sequence length of most of its pre-training, as published."""
    train_batch_tokens: Tokens | None = Field(None, alias="train_batch")
    """Tokens of one optimizer step in most of its pre-training, as published; after a ramp-up."""

    stack: Stack | None = None
    """Layers of a model that is no transformer, each as what one sample costs in it; then there are
    no shapes, and a sample counts as one token."""

    encoder: "Encoder | None" = None
    """A stack of its own in front: layers attend to its output (`attention.cross`), or take it as
    part of their sequence (`encoder.projector`)."""

    @model_validator(mode="before")
    @classmethod
    def _is_of_shapes_or_a_stack(cls, fields: Any) -> Any:
        if not isinstance(fields, dict) or not isinstance(fields.get("stack"), list | tuple):
            return fields
        usual = {
            name: field.get_default(call_default_factory=True) for name, field in cls.model_fields.items()
        }
        return without_shapes(fields, usual)

    def _has_ends(self) -> None:
        """A stack has those that its layers have."""
        if self.stack is None:
            super()._has_ends()

    @model_validator(mode="after")
    def _has_a_stack_that_can_be_trained(self) -> Self:
        if self.stack is None:
            return self
        if not self.parameters:
            raise ValueError("a stack has layers, and these have parameters")
        if self.layers != sum(one.repeat for one in self.stack):
            raise ValueError("repeat is written as a number alone")
        self.__pydantic_fields_set__.difference_update(STANDING_IN)  # nobody stated these
        return self

    @model_validator(mode="after")
    def _has_as_many_tokens_as_its_input(self) -> Self:
        pieces = self.patches or self.frames
        if pieces is not None and self.train_seq is None:
            object.__setattr__(self, "train_seq", pieces.tokens)
        return self

    @model_validator(mode="after")
    def _fits_its_encoder(self) -> Self:
        encoder, cross = self.encoder, self.attention.cross
        if encoder is None:
            if cross:
                raise ValueError("attention.cross needs an `encoder` to attend to")
            return self
        if cross == (encoder.projector is not None):
            raise ValueError("an encoder has either attention.cross behind it or a projector")
        if cross and (encoder.hidden != self.hidden or self.attention.latent or self.pattern):
            raise ValueError("attention.cross: plain layers as wide as the encoder are described")
        return self

    @classmethod
    def prepared(cls, document: Document) -> Document:
        """Take a Hugging Face `config.json` as well as our own keys."""
        from syncwall.describe import huggingface

        return huggingface.translated(document)

    @property
    def layer_kinds(self) -> tuple[LayerKind, ...]:
        """Kinds of layers that there are: of a stack, one for every entry."""
        return super().layer_kinds if self.stack is None else stacked(self.stack)

    @property
    def is_plain_decoder(self) -> bool:
        """True if it reads text with causal attention in every layer, as most published runs do."""
        other = self.encoder or self.pattern or self.patches or self.stack
        return other is None and self.attention.causal

    @property
    def parameter_count(self) -> ParameterCount:
        """Parameters by where they sit."""
        own, encoder = count_parameters(self), self.encoder
        if encoder is None:
            return own
        projector = encoder.projector
        width = projector.parameters(encoder.hidden, self.hidden) if projector else 0
        return replace(own, encoder=encoder.parameters + width)

    @property
    def parameters(self) -> int:
        """All parameters of the published model, without multi-token prediction layers."""
        return self.parameter_count.total

    @property
    def active_parameters(self) -> int:
        """Parameters that one token passes through."""
        return self.parameter_count.active


class Encoder(Model):
    """A stack in front of a model; its `train_seq` is how many tokens it takes."""

    encoder: None = Field(None, exclude=True)
    """None stands in front of one."""
    frozen: bool = False
    """True if it is not trained: no gradients, no optimizer states, no backward pass."""
    each: Positive = 1
    """Sequences of it (images) for each sequence of the model."""
    idle_layers: NotNegative = 0
    """Last layers whose output nothing takes, so that they go forward only (LLaVA reads the output
    of the layer before the last)."""
    projector: Projector | None = None
    """What brings its tokens into the sequence of the model."""

    @model_validator(mode="after")
    def _stands_alone(self) -> Self:
        if self.stack is not None:
            raise ValueError("an encoder is a transformer: write its layers into one `stack`")
        if self.attention.cross or self.classes or self.mtp_layers:
            raise ValueError("an encoder has no cross-attention and no head")
        if self.train_seq is None:
            raise ValueError("an encoder needs `train_seq`, the tokens of its sequence")
        return self

    @property
    def given_tokens(self) -> int:
        """Tokens of the model's sequence that one of its sequences becomes; 0 if none do."""
        projector = self.projector
        if projector is None or self.train_seq is None:
            return 0
        return (self.train_seq - projector.skip) // (projector.merge * projector.pool)

    def _has_ends(self) -> None:
        """Without input of its own it takes embedded tokens, with the embedding of the model."""

    @property
    def head_width(self) -> int:
        """It has no output layer."""
        return 0
