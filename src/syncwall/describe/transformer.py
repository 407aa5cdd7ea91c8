"""A transformer as its shapes: what is needed to count parameters, FLOPs and bytes exactly.

Sources: ViT (Dosovitskiy 2020, arXiv:2010.11929), DiT (Peebles and Xie 2022, arXiv:2212.09748),
Whisper's model.py.

Decoders and encoders, mixtures of experts and hybrids; layers may differ in kind and in how far
they look back, by a stated pattern (`mixer.py` has mixers that are not attention, `layer_kinds.py`
the kinds).

Sources: LLaVA 1.5 (two matrices), Qwen2-VL and InternVL (four tokens side by side become one),
Gemma 3 (sixteen are averaged), Llama 4 and Mistral Small 3.1 (three matrices), Qwen3-VL
(DeepStack), as their code in `transformers` 5 has it.
"""

from itertools import pairwise
from typing import Literal, Self

from pydantic import Field, model_validator

from syncwall.describe.base import CatalogueEntry, Description, Layers, NotNegative, Positive
from syncwall.describe.layer_kinds import LayerKind, Mixer, Pattern, attention_kinds, kind_counts


class Patches(Description):
    """Squares of an image, each projected to a token."""

    image: Positive
    """Pixels of a side; of the latent where the model works on one."""
    size: Positive
    """Pixels of a side of a patch."""
    channels: Positive = 3
    extra_tokens: NotNegative = 0
    """Learned tokens beside them (of the class, registers)."""
    bias: bool = True
    predicted: NotNegative = 0
    """Channels that the model predicts for every pixel (diffusion); 0 if it predicts none."""

    @model_validator(mode="after")
    def _is_consistent(self) -> Self:
        if self.image % self.size:
            raise ValueError(f"patches of {self.size} pixels do not divide images of {self.image}")
        return self

    @property
    def count(self) -> int:
        """Patches of an image."""
        return (self.image // self.size) ** 2

    @property
    def tokens(self) -> int:
        """Tokens of an image."""
        return self.count + self.extra_tokens

    @property
    def width(self) -> int:
        """Numbers in a patch."""
        return self.size**2 * self.channels

    def parameters(self, hidden: int) -> int:
        """Parameters of the projection to `hidden` dimensions, and of the learned tokens."""
        return (self.width + self.bias + self.extra_tokens) * hidden


class Frames(Description):
    """Frames of a spectrogram, two of which become a token in two convolutions (Whisper)."""

    channels: Positive
    """Numbers of a frame: mel bins."""
    tokens: Positive
    """Tokens of a sample, half as many as frames."""
    kernel: Positive = 3

    def parameters(self, hidden: int) -> int:
        """Parameters of both convolutions, with their biases."""
        return (self.kernel * (self.channels + hidden) + 2) * hidden


class Conditioning(Description):
    """Time step and class as one vector that shifts, scales and gates every layer (adaLN-Zero)."""

    classes: NotNegative = 0
    """Rows of the embedding of classes, that of no class among them."""
    frequencies: Positive = 256
    """Numbers in which the time step is written, before its two projections."""

    def parameters(self, hidden: int) -> int:
        """Parameters of what makes the vector."""
        return (self.classes + self.frequencies + 1 + hidden + 1) * hidden


SHIFT_SCALE_GATE, SHIFT_SCALE = 3, 2
"""Vectors of the hidden width for a norm within a layer, and for the final one."""


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


class Indexer(Description):
    """What picks the tokens that a query attends to (DeepSeek sparse attention, DSA)."""

    heads: Positive
    head_dim: Positive
    top_k: Positive
    """Tokens that a query attends to at most."""


class Attention(Description):
    """Self-attention of every layer."""

    heads: Positive
    kv_heads: Positive | None = None
    """Key and value heads: equal to `heads` if not given, 1 is multi-query."""
    head_dim: Positive | None = None
    """Dimensions of a head: hidden / heads if not given."""
    latent: Latent | None = None
    """Set for MLA; then `kv_heads` and `head_dim` are not used."""
    indexer: Indexer | None = None
    """Set for sparse attention, with MLA; None if a query attends to all tokens before it."""
    qkv_bias: bool = False
    output_bias: bool = False
    qk_norm: Literal["none", "head", "full"] = "none"
    """Learned norm on queries and keys: one for all heads, or one over all heads together."""
    output_norm: bool = False
    """One more norm before the output projection (BitNet)."""
    gated: bool = False
    """True if a projection as wide as the queries scales the output (Qwen3-Next)."""
    causal: bool = True
    """False if every token sees those after it too (encoders); a window then has two sides."""
    cross: bool = False
    """True if every layer attends to the output of the model's `encoder` too."""
    unbiased_keys: bool = False
    """True if keys have no bias where queries and values have one (Whisper)."""
    sinks: bool = False
    """One learned logit a head that takes attention away from the tokens."""
    window: Positive | None = None
    """Tokens that a layer with a sliding window (or chunk) looks back at."""
    full_every: NotNegative = 0
    """With a window: every n-th layer looks back at everything; 0 if none does."""
    full_first: bool = False
    """True if that is the first of each n layers (ModernBERT), not the last."""


class Mlp(Description):
    """The feed-forward part of a dense layer."""

    hidden: Positive
    gated: bool = True
    """True for three matrices (SwiGLU, GeGLU), False for two."""
    bias: bool = False
    inner_norm: bool = False
    """One more norm before the last matrix (BitNet)."""
    learned_activation: NotNegative = 0
    """Weights of the activation itself (two in Apertus' xIELU)."""


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
    latent: Positive | None = None
    """Width to which tokens are projected on their way to the routed experts and from which they
    come back (Nemotron 3 Super); None if experts work on the hidden width."""
    gated: bool | None = None
    """True for experts of three matrices, False for two; None if they are as the dense layers, and
    gated where there are none."""
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

    def weights(self, width: int) -> int:
        """Weights of one norm over `width` dimensions."""
        return {"rms": 1, "layer": 2, "layer-no-bias": 1, "none": 0}[self.kind] * width


class Transformer(CatalogueEntry):
    """The shapes of a transformer."""

    layers: Layers
    hidden: Positive
    vocab: NotNegative = 0
    """Rows of the embedding as published (frameworks may pad them); 0 if tokens are patches."""
    patches: Patches | None = None
    """Pieces of an image that are the tokens, in the place of a vocabulary."""
    frames: Frames | None = None
    """Pieces of a spectrogram that are the tokens, in the place of a vocabulary."""
    conditioning: Conditioning | None = None
    """What shifts, scales and gates every layer, if anything does (DiT)."""
    classes: NotNegative = 0
    """Classes of a head for one token of each sequence, in the place of logits for every token."""
    attention: Attention
    mixer: Mixer | None = None
    """What the layers of `pattern` without attention have in its place."""
    pattern: Pattern | None = None
    """Layers one by one, repeated until there are `layers`: `M` is a `mixer`, `*` attention, `-` a
    dense feed-forward part, `E` experts. None if every layer has attention and one of the last."""
    mlp: Mlp | None = None
    """None if every layer has experts."""
    moe: Moe | None = None
    norm: Norm = Field(default_factory=Norm)
    tied_embeddings: bool = False
    """True if the output layer shares the weights of the embedding."""
    head_bias: bool = False
    head_transform: bool = False
    """True if a projection of the hidden width and a norm stand before the logits (masked language
    models); its bias is as the MLP's."""
    learned_positions: NotNegative = 0
    """Rows of a learned position embedding; 0 if positions are computed."""
    token_types: NotNegative = 0
    """Rows of an embedding of which part of the input a token is in (BERT's segments)."""
    relative_positions: NotNegative = 0
    """Rows of a learned bias of scores by distance, one number for each head (T5)."""
    embedding_dim: Positive | None = None
    """Width of the embedding where it is projected to and from `hidden`."""
    mtp_layers: NotNegative = 0
    """Extra layers that predict further tokens (multi-token prediction), used in training only."""

    @model_validator(mode="after")
    def _is_consistent(self) -> Self:
        attention = self.attention
        self._has_ends()
        if self.pattern is not None:
            self._follows_its_pattern(self.pattern)
        elif self.mixer is not None:
            raise ValueError("a `mixer` needs a `pattern` that says where it is")
        elif self.mlp is None and self.moe is None:
            raise ValueError("a model needs `mlp`, `moe`, or both")
        elif self.mlp is None and self.dense_layers:
            raise ValueError(f"{self.dense_layers} dense layers need `mlp`")
        if attention.head_dim is None and attention.latent is None and self.hidden % attention.heads:
            raise ValueError(f"{attention.heads} heads do not divide hidden {self.hidden}")
        if attention.indexer is not None and attention.latent is None:
            raise ValueError("an `indexer` needs `latent` attention")
        if attention.heads % self.kv_heads:
            raise ValueError(f"{self.kv_heads} kv_heads do not divide {attention.heads} heads")
        if self.moe is not None and self.moe.top_k > self.moe.experts:
            raise ValueError(f"top_k {self.moe.top_k} of only {self.moe.experts} experts")
        return self

    def _has_ends(self) -> None:
        """Raise ValueError where it is not clear what goes in or what comes out."""
        inputs = bool(self.vocab) + (self.patches is not None) + (self.frames is not None)
        if inputs != 1:
            raise ValueError("a model needs either `vocab` or `patches` or `frames`")
        if self.tied_embeddings and (self.classes or not self.vocab):
            raise ValueError("tied_embeddings: only logits of a vocabulary share the embedding")

    def _follows_its_pattern(self, pattern: Pattern) -> None:
        """Raise ValueError where `pattern` and the other fields disagree."""
        words = pattern.split()
        if self.layers % len(words):
            raise ValueError(f"a pattern of {len(words)} layers does not divide {self.layers}")
        for letter, field in (("M", "mixer"), ("-", "mlp"), ("E", "moe")):
            if (letter in pattern) != (getattr(self, field) is not None):
                raise ValueError(f"`{letter}` in the pattern and `{field}` go together")
        if self.moe is not None and (self.moe.dense_first or self.moe.every != 1):
            raise ValueError("the pattern says where experts are: leave out dense_first, every")
        if self.attention.window is not None:
            raise ValueError("a pattern with a window is not described")

    @property
    def layer_kinds(self) -> tuple[LayerKind, ...]:
        """Kinds of layers that there are: without a pattern, dense ones and those with experts."""
        if self.pattern is not None:
            return kind_counts(self.pattern, self.layers)
        return attention_kinds(self.dense_layers, None if self.moe is None else self.moe_layers)

    @property
    def mtp_kind(self) -> LayerKind:
        """The layer that predicts a further token: one like the last; in hybrids with attention."""
        if self.pattern is not None:
            return LayerKind("*", "-" if self.moe is None else "E", self.mtp_layers)
        has_experts = self.has_experts(self.layers - 1)
        return LayerKind("*", "E" if has_experts else "-", self.mtp_layers)

    @property
    def embedding_width(self) -> int:
        """Width of the embedding and of the output layer."""
        return self.embedding_dim or self.hidden

    @property
    def head_width(self) -> int:
        """Numbers that the output layer gives for a token: logits, classes or pixels."""
        pixels = self.patches.size**2 * self.patches.predicted if self.patches else 0
        return self.classes or self.vocab or pixels

    @property
    def has_rotary_positions(self) -> bool:
        """True if queries and keys are turned: no position is learned."""
        return not (self.learned_positions or self.relative_positions)

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
        if self.pattern is not None:
            words = self.pattern.split()
            return "E" in words[layer % len(words)]
        moe = self.moe
        return moe is not None and layer >= moe.dense_first and (layer + 1) % moe.every == 0

    @property
    def moe_layers(self) -> int:
        """Layers with experts."""
        if self.moe is None:
            return 0
        if self.pattern is not None:
            return sum(kind.count for kind in self.layer_kinds if kind.has_experts)
        dense_first = min(self.moe.dense_first, self.layers)
        return self.layers // self.moe.every - dense_first // self.moe.every

    @property
    def dense_layers(self) -> int:
        """Layers without experts."""
        return self.layers - self.moe_layers

    @property
    def attention_layers(self) -> int:
        """Layers with attention."""
        if self.pattern is None:
            return self.layers
        return sum(kind.count for kind in self.layer_kinds if "*" in kind.mixer)

    @property
    def mixer_layers(self) -> int:
        """Layers with a `mixer` in the place of attention."""
        return sum(kind.count for kind in self.layer_kinds if "M" in kind.mixer)

    @property
    def full_attention_layers(self) -> int:
        """Layers that attend to the whole sequence."""
        if self.attention.window is None:
            return self.attention_layers
        every = self.attention.full_every
        begun = (every - 1) * self.attention.full_first
        return (self.layers + begun) // every if every else 0


NormWeights = Literal["none", "rms", "layer"]
_EACH = {"none": 0, "rms": 1, "layer": 2}


class Projector(Description):
    """Matrices from tokens of an encoder to tokens of a model: one, or several."""

    merge: Positive = 1
    """Tokens that become one, their numbers side by side."""
    pool: Positive = 1
    """Tokens that become one, their numbers averaged (Gemma 3)."""
    skip: NotNegative = 0
    """Tokens of each sequence that are left out: that of the class."""
    hidden: Positive | tuple[Positive, ...] | None = None
    """Width between two matrices, or widths between more of them; None if there is one matrix."""
    bias: bool = True
    norm: NormWeights = "none"
    """A norm before the first matrix."""
    norm_merged: bool = False
    """True if that norm is over merged tokens, False if over those of the encoder."""
    further: NotNegative = 0
    """Projectors like it for the output of earlier layers, which is added behind as many layers of
    the model; their norm is over merged tokens (Qwen3-VL's DeepStack)."""
    learned_tokens: NotNegative = 0
    """Learned tokens of the model's width that it puts between (LLaVA-NeXT's new line)."""

    def matrices(self, width: int, hidden: int) -> list[tuple[int, int]]:
        """Rows and columns, from tokens of `width` to tokens of `hidden`."""
        between = (self.hidden,) if isinstance(self.hidden, int) else self.hidden or ()
        widths = (self.merge * width, *between, hidden)
        return [(rows, into) for into, rows in pairwise(widths)]

    def parameters(self, width: int, hidden: int) -> int:
        """Parameters of it, from tokens of `width` to tokens of `hidden`."""
        plain = sum(rows * (into + self.bias) for rows, into in self.matrices(width, hidden))
        merged = self.merge * width
        own = _EACH[self.norm] * (merged if self.norm_merged else width)
        more = self.further * (plain + _EACH[self.norm] * merged)
        return plain + own + more + self.learned_tokens * hidden
