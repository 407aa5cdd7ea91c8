"""A model: the shapes of a transformer, its parameters, and how it was trained.

Holds `Model`. The shapes are in `transformer.py`, the counting in `parameters.py`, the reading of
Hugging Face configurations in `huggingface`.
"""

from pydantic import Field

from syncwall.describe.base import SequenceTokens, Tokens
from syncwall.describe.parameters import ParameterCount, count_parameters
from syncwall.describe.transformer import Transformer
from syncwall.documents import Document


class Model(Transformer):
    """A decoder-only transformer."""

    max_seq: SequenceTokens | None = None
    """Longest sequence the published model takes."""
    train_seq: SequenceTokens | None = None
    """Sequence length of most of its pre-training, as published."""
    train_batch_tokens: Tokens | None = Field(None, alias="train_batch")
    """Tokens of one optimizer step in most of its pre-training, as published; after a ramp-up."""

    @classmethod
    def prepared(cls, document: Document) -> Document:
        """Take a Hugging Face `config.json` as well as our own keys."""
        from syncwall.describe import huggingface

        return huggingface.translated(document)

    @property
    def parameter_count(self) -> ParameterCount:
        """Parameters by where they sit."""
        return count_parameters(self)

    @property
    def parameters(self) -> int:
        """All parameters of the published model, without multi-token prediction layers."""
        return self.parameter_count.total

    @property
    def active_parameters(self) -> int:
        """Parameters that one token passes through."""
        return self.parameter_count.active
