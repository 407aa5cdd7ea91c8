"""Mixers of tokens that are not attention: a state of fixed size instead of all keys.

Holds `Mixer` and its widths. Sources: Mamba (Gu and Dao 2023,
arXiv:2312.00752), Mamba-2 (Dao and Gu 2024, arXiv:2405.21060), gated DeltaNet (Yang 2024,
arXiv:2412.06464), Kimi Delta Attention (Kimi Linear 2025, arXiv:2510.26692), lightning attention
(MiniMax-01 2025, arXiv:2501.08313), gated short convolutions (LFM2 2025, arXiv:2511.23404); widths
as `transformers` has them.
"""

from typing import Literal, Self

from pydantic import model_validator

from syncwall.describe.base import Description, NotNegative, Positive

MixerName = Literal["mamba-1", "mamba-2", "gated-delta", "kimi-delta", "lightning", "short-conv"]


class Mixer(Description):
    """Linear attention, a state-space layer or a gated convolution."""

    kind: MixerName
    heads: Positive
    """Heads of values; each has a state of `key_dim` by `head_dim`."""
    head_dim: Positive
    """Dimensions of a value head."""
    key_heads: Positive | None = None
    """Heads of keys and queries (groups of B and C in Mamba); equal to `heads` if not given."""
    key_dim: Positive | None = None
    """Dimensions of a key head (the state of Mamba); equal to `head_dim` if not given."""
    conv: NotNegative = 4
    """Tokens that the short convolution sees; 0 if there is none."""
    conv_bias: bool = False
    bias: bool = False
    """True if the projections into and out of it have biases."""
    rank: Positive | None = None
    """Width through which Mamba-1 projects time steps; its heads are channels, of `head_dim` 1."""
    output_norm: bool = True
    """False if the output of Mamba-2 has no norm (Falcon-H1)."""
    inner_norms: bool = False
    """Norms on time steps, keys and queries of Mamba-1 (Jamba)."""
    chunk: Positive = 64
    """Tokens that are worked on at once, as attention; the state links one chunk to the next."""

    @model_validator(mode="after")
    def _is_consistent(self) -> Self:
        if self.heads % self.groups:
            raise ValueError(f"{self.groups} key_heads do not divide {self.heads} heads")
        if self.kind == "lightning" and self.conv:
            raise ValueError("lightning attention has no convolution: conv must be 0")
        if (self.kind == "mamba-1") != (self.rank is not None):
            raise ValueError("`rank` goes with mamba-1")
        return self

    @property
    def groups(self) -> int:
        """Heads of keys and queries."""
        return self.key_heads or self.heads

    @property
    def state(self) -> int:
        """Dimensions of a key head."""
        return self.key_dim or self.head_dim

    @property
    def value_width(self) -> int:
        """Dimensions of all values together, and of the output."""
        return self.heads * self.head_dim

    @property
    def key_width(self) -> int:
        """Dimensions of all keys together; queries have as many."""
        return self.groups * self.state

    @property
    def mixed_width(self) -> int:
        """Dimensions of values, keys and queries, over which the convolution goes; of values alone
        in Mamba-1, which makes the others out of them, and in LFM2, which has no others.
        """
        if self.kind in ("mamba-1", "short-conv"):
            return self.value_width
        return self.value_width + 2 * self.key_width

    @property
    def gate_rank(self) -> int | None:
        """Width through which decay and output gate are projected; None if directly."""
        return self.head_dim if self.kind == "kimi-delta" else None

    @property
    def scalars(self) -> int:
        """Numbers for each token that no other width counts: time steps, decays, strengths."""
        return {"mamba-2": 1, "gated-delta": 2, "kimi-delta": 1}.get(self.kind, 0) * self.heads

    @property
    def inner_width(self) -> int:
        """Dimensions of time steps, keys and queries that Mamba-1 projects values to; else 0."""
        return self.rank + 2 * self.state if self.rank else 0

    @property
    def input_width(self) -> int:
        """Dimensions that one projection of the hidden state gives."""
        gates = 2 * self.gate_rank if self.gate_rank else self.value_width
        if self.kind == "short-conv":  # before and behind the convolution
            gates = 2 * self.value_width
        return self.mixed_width + gates + self.scalars
