"""A transformer as its shapes: what is needed to count parameters, FLOPs and bytes exactly.

Holds `Transformer` with its parts `Attention`, `Latent`, `Mlp`, `Moe` and `Norm`. Dense decoders
and mixtures of experts; layers may differ in kind (dense or experts) and in how far they look back,
by a stated pattern. `parameters.py` counts it, `model.py` adds what is published about it.
"""

from typing import Literal, Self

from pydantic import Field, model_validator

from syncwall.describe.base import CatalogueEntry, Description, Layers, NotNegative, Positive


class Latent(Description):
    """Multi-head latent attention (MLA): queries, keys and values through low-rank projections."""

    kv_rank: Positive
    q_rank: Positive | None = None
    """None if queries are projected directly."""
    nope_dim: Positive
    """Dimensions of a query or key head without rotary position."""
    rope_dim: Positive
    """Dimensions with rotary position; one key of this size is shared by all heads."""
    v_dim: Positive
    """Dimensions of a value head."""


class Attention(Description):
    """Self-attention of every layer."""

    heads: Positive
    kv_heads: Positive | None = None
    """Key and value heads: equal to `heads` if not given, 1 is multi-query."""
    head_dim: Positive | None = None
    """Dimensions of a head: hidden / heads if not given."""
    latent: Latent | None = None
    """Set for MLA; then `kv_heads` and `head_dim` are not used."""
    qkv_bias: bool = False
    output_bias: bool = False
    qk_norm: Literal["none", "head", "full"] = "none"
    """Learned norm on queries and keys: one for all heads, or one over all heads together."""
    sinks: bool = False
    """One learned logit a head that takes attention away from the tokens."""
    window: Positive | None = None
    """Tokens that a layer with a sliding window (or chunk) looks back at."""
    full_every: NotNegative = 0
    """With a window: every n-th layer looks back at everything; 0 if none does."""


class Mlp(Description):
    """The feed-forward part of a dense layer."""

    hidden: Positive
    gated: bool = True
    """True for three matrices (SwiGLU, GeGLU), False for two."""
    bias: bool = False


class Moe(Description):
    """Experts instead of the feed-forward part."""

    experts: Positive
    """Routed experts in a layer."""
    top_k: Positive
    """Routed experts that a token visits."""
    hidden: Positive
    """Feed-forward width of one routed expert."""
    shared_hidden: NotNegative = 0
    """Feed-forward width of all shared experts of a layer together."""
    shared_gate: bool = False
    """True if a learned gate scales the shared experts."""
    dense_first: NotNegative = 0
    """Layers at the start that are dense."""
    every: Positive = 1
    """Every n-th layer has experts, the others are dense."""
    node_limit: Positive | None = None
    """Most nodes on which the experts of one token may be (group-limited routing)."""
    router_bias: bool = False
    expert_bias: bool = False
    clamped: bool = False
    """Inputs of the activation are clamped (GPT-OSS)."""


class Norm(Description):
    """Layer normalisation."""

    kind: Literal["rms", "layer", "layer-no-bias", "none"] = "rms"
    """rms and layer-no-bias have one weight a dimension, layer has two, none has none."""
    per_layer: NotNegative = 2
    final: bool = True
    """One more after the last layer."""
    embedding: bool = False
    """One more on the embeddings."""


class Transformer(CatalogueEntry):
    """The shapes of a decoder-only transformer."""

    layers: Layers
    hidden: Positive
    vocab: Positive
    """Rows of the embedding as published (frameworks may pad them)."""
    attention: Attention
    mlp: Mlp | None = None
    """None if every layer has experts."""
    moe: Moe | None = None
    norm: Norm = Field(default_factory=Norm)
    tied_embeddings: bool = False
    """True if the output layer shares the weights of the embedding."""
    head_bias: bool = False
    learned_positions: NotNegative = 0
    """Rows of a learned position embedding; 0 if positions are computed."""
    embedding_dim: Positive | None = None
    """Width of the embedding where it is projected to and from `hidden`."""
    mtp_layers: NotNegative = 0
    """Extra layers that predict further tokens (multi-token prediction), used in training only."""

    @model_validator(mode="after")
    def _is_consistent(self) -> Self:
        attention = self.attention
        if self.mlp is None and self.moe is None:
            raise ValueError("a model needs `mlp`, `moe`, or both")
        if self.mlp is None and self.dense_layers:
            raise ValueError(f"{self.dense_layers} dense layers need `mlp`")
        if (
            attention.head_dim is None
            and attention.latent is None
            and self.hidden % attention.heads
        ):
            raise ValueError(f"{attention.heads} heads do not divide hidden {self.hidden}")
        if attention.heads % self.kv_heads:
            raise ValueError(f"{self.kv_heads} kv_heads do not divide {attention.heads} heads")
        if self.moe is not None and self.moe.top_k > self.moe.experts:
            raise ValueError(f"top_k {self.moe.top_k} of only {self.moe.experts} experts")
        return self

    @property
    def kv_heads(self) -> int:
        """Key and value heads."""
        return self.attention.kv_heads or self.attention.heads

    @property
    def head_dim(self) -> int:
        """Dimensions of a query or key head."""
        latent = self.attention.latent
        if latent is not None:
            return latent.nope_dim + latent.rope_dim
        return self.attention.head_dim or self.hidden // self.attention.heads

    @property
    def v_head_dim(self) -> int:
        """Dimensions of a value head."""
        return self.attention.latent.v_dim if self.attention.latent else self.head_dim

    def has_experts(self, layer: int) -> bool:
        """True if layer number `layer` (from 0) routes to experts."""
        moe = self.moe
        return moe is not None and layer >= moe.dense_first and (layer + 1) % moe.every == 0

    def sees_everything(self, layer: int) -> bool:
        """True if layer number `layer` (from 0) attends to the whole sequence."""
        attention = self.attention
        if attention.window is None:
            return True
        return attention.full_every > 0 and (layer + 1) % attention.full_every == 0

    @property
    def moe_layers(self) -> int:
        """Layers with experts."""
        if self.moe is None:
            return 0
        dense_first = min(self.moe.dense_first, self.layers)
        return self.layers // self.moe.every - dense_first // self.moe.every

    @property
    def dense_layers(self) -> int:
        """Layers without experts."""
        return self.layers - self.moe_layers

    @property
    def full_attention_layers(self) -> int:
        """Layers that attend to the whole sequence."""
        if self.attention.window is None:
            return self.layers
        return self.layers // self.attention.full_every if self.attention.full_every else 0
