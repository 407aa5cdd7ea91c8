"""Weights of every kind of layer, listed once.

Holds `Matrix`, `Weights` and `layer_weights`, of which exact parameters (`parameters.py`), adapters
(`lora.py`), the share of a rank and the products of a layer (`work`) are made. A new kind of layer
is one more list here.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Literal

from syncwall.describe.layer_kinds import BLOCKS, LayerKind, Mixer
from syncwall.describe.transformer import SHIFT_SCALE_GATE, Attention, Moe, Transformer

WeightGroup = Literal["attention", "mlp", "experts", "shared_experts", "router", "norm", "stack"]
"""Where a weight counts: a field of `ParameterCount`; mixers count as attention."""


@dataclass(frozen=True, slots=True)
class Matrix:
    """A linear map of `columns` inputs to `rows` outputs."""

    name: str
    """PEFT's, where it has one."""
    rows: int
    columns: int
    split: Literal["rows", "columns", "none"] = "rows"
    """Side of which a tensor-parallel rank multiplies by a share; "none": by all of it."""
    bias: bool = False
    head: int = 0
    """Rows of one head, the least that a rank multiplies by (keys and values)."""

    @property
    def parameters(self) -> int:
        """Weights and biases."""
        return self.rows * (self.columns + self.bias)


Matrices = Mapping[str, Matrix]
"""By name."""


@dataclass(frozen=True, slots=True)
class Weights:
    """Weights of one part of a layer."""

    group: WeightGroup
    matrices: Matrices
    vectors: int = 0
    """Parameters outside of matrices: norms, convolutions, decays, sinks."""
    shared_by: Literal["tp", "experts", "none"] = "tp"
    """Ranks that keep a share each: tensor-parallel ones (also of matrices by which each multiplies
    as a whole), those of experts, or none."""
    copies: int = 1
    """Alike parts: experts."""

    @property
    def parameters(self) -> int:
        """All of them."""
        return self.copies * (self.vectors + sum(one.parameters for one in self.matrices.values()))


def layer_weights(model: Transformer, kind: LayerKind) -> Iterator[Weights]:
    """Weights of a layer of `kind`, part by part."""
    if kind.counted is not None:
        yield Weights("stack", {}, kind.counted.parameters, "none")
        return
    if "*" in kind.mixer:
        yield from _attention(model)
    if "M" in kind.mixer:
        assert model.mixer is not None, "the pattern goes with it"
        own = mixer_vectors(model.mixer)
        yield Weights("attention", mixer_matrices(model.mixer, model.hidden), own)
    if kind.has_experts and model.moe is not None:
        yield from _experts(model, model.moe)
    elif kind.feed_forward and model.mlp is not None:
        mlp = model.mlp
        inner = mlp.inner_norm * model.norm.weights(mlp.hidden) + mlp.learned_activation
        matrices = feed_forward(model.hidden, mlp.hidden, mlp.gated, mlp.bias)
        yield Weights("mlp", matrices, inner)
    norms = model.norm.per_layer * kind.blocks // BLOCKS
    modulation = modulation_matrix(model, SHIFT_SCALE_GATE * norms)
    yield Weights("norm", modulation, norms * model.norm.weights(model.hidden), "none")


def _attention(model: Transformer) -> Iterator[Weights]:
    attention, latent, indexer = model.attention, model.attention.latent, model.attention.indexer
    matrices = attention_matrices(model)
    if latent is not None:
        yield Weights("attention", matrices, latent.kv_rank + (latent.q_rank or 0))
        if indexer is not None:
            own = indexer_matrices(model)
            yield Weights("attention", own, 2 * indexer.head_dim, "none")
        return
    query, key = attention.heads * model.head_dim, model.kv_heads * model.head_dim
    normed = {"none": 0, "head": 2 * model.head_dim, "full": query + key}[attention.qk_norm]
    norms = model.norm.weights(normed + attention.output_norm * query)
    yield Weights("attention", matrices, norms + attention.sinks * attention.heads)
    if attention.cross:
        yield Weights("attention", cross_matrices(model))


def attention_matrices(model: Transformer) -> Matrices:
    """Projections of attention to the layer's own tokens."""
    return _projections(model.attention, model.hidden, model.head_dim)


@lru_cache(maxsize=256)
def _projections(attention: Attention, hidden: int, head: int) -> Matrices:
    latent, heads, bias = attention.latent, attention.heads, attention.qkv_bias
    if latent is None:
        query, key = heads * head * (1 + attention.gated), (attention.kv_heads or heads) * head
        matrices = [
            Matrix("q_proj", query, hidden, bias=bias),
            Matrix("k_proj", key, hidden, bias=bias and not attention.unbiased_keys, head=head),
            Matrix("v_proj", key, hidden, bias=bias, head=head),
        ]
    elif latent.q_rank is None:
        matrices = [Matrix("q_proj", heads * head, hidden)]
    else:
        matrices = [
            Matrix("q_a_proj", latent.q_rank, hidden, "none", bias),
            Matrix("q_b_proj", heads * head, latent.q_rank),
        ]
    if latent is not None:
        down, up = latent.kv_rank + latent.rope_dim, heads * (latent.nope_dim + latent.v_dim)
        matrices += [
            Matrix("kv_a_proj_with_mqa", down, hidden, "none", bias),
            Matrix("kv_b_proj", up, latent.kv_rank),
        ]
    value = heads * (latent.v_dim if latent else head)
    matrices.append(Matrix("o_proj", hidden, value, "columns", attention.output_bias))
    return {one.name: one for one in matrices}


def cross_matrices(model: Transformer) -> Matrices:
    """Projections of attention to the output of the encoder: as those of the other."""
    return {
        f"cross_{name}": replace(one, name=f"cross_{name}") for name, one in attention_matrices(model).items()
    }


def indexer_matrices(model: Transformer) -> Matrices:
    """Queries, one key and weights of heads of what picks the tokens to attend to."""
    indexer, latent = model.attention.indexer, model.attention.latent
    assert indexer is not None, "the model has one"
    assert latent is not None, "it needs its queries"
    width = indexer.heads * indexer.head_dim
    return {
        "wq_b": Matrix("wq_b", width, latent.q_rank or model.hidden, "none"),
        "wk": Matrix("wk", indexer.head_dim, model.hidden, "none"),
        "weights_proj": Matrix("weights_proj", indexer.heads, model.hidden, "none"),
    }


@lru_cache(maxsize=64)
def mixer_matrices(mixer: Mixer, hidden: int) -> Matrices:
    """Projections of `mixer` in a model of width `hidden`."""
    width, bias = mixer.value_width, mixer.bias
    matrices = [Matrix("in_proj", mixer.input_width, hidden, bias=bias)]
    if mixer.gate_rank is not None:  # decay and output gate, out of their rank
        matrices += [Matrix(name, width, mixer.gate_rank) for name in ("f_b_proj", "g_b_proj")]
    if mixer.rank is not None:  # into and out of the rank of time steps
        matrices += [
            Matrix("x_proj", mixer.inner_width, width, "columns"),
            Matrix("dt_proj", width, mixer.rank),
        ]
    matrices.append(Matrix("out_proj", hidden, width, "columns", bias))
    return {one.name: one for one in matrices}


def mixer_vectors(mixer: Mixer) -> int:
    """Parameters of `mixer` outside of its projections, the convolution first."""
    heads, width = mixer.heads, mixer.value_width
    own = {
        "mamba-1": width * (mixer.state + 2) + mixer.inner_norms * mixer.inner_width,
        "mamba-2": 3 * heads + mixer.output_norm * width,  # decay, bias of the time step, skip
        "gated-delta": 2 * heads + mixer.head_dim,  # decay and its bias; norm of a head
        "kimi-delta": heads + width + mixer.head_dim,  # the same
        "lightning": width,  # norm of the output
        "short-conv": 0,
    }[mixer.kind]
    conv = mixer.mixed_width * (mixer.conv + mixer.conv_bias) if mixer.conv else 0
    return conv + own


@lru_cache(maxsize=256)
def feed_forward(hidden: int, width: int, gated: bool, bias: bool = False) -> Matrices:
    """Two matrices, or three with a gate, from tokens of `hidden` to `width` and back."""
    names = ("gate_proj", "up_proj") if gated else ("up_proj",)
    matrices = {name: Matrix(name, width, hidden, bias=bias) for name in names}
    matrices["down_proj"] = Matrix("down_proj", hidden, width, "columns", bias)
    return matrices


def gated_experts(model: Transformer) -> bool:
    """True if experts have three matrices: as stated, as the dense layers have, or if none have."""
    if model.moe is not None and model.moe.gated is not None:
        return model.moe.gated
    return model.mlp.gated if model.mlp else True


def _experts(model: Transformer, moe: Moe) -> Iterator[Weights]:
    """Routed experts; the router, with the projections to and from their width; shared experts."""
    gated, hidden, width = gated_experts(model), model.hidden, moe.latent or model.hidden
    expert = feed_forward(width, moe.hidden, gated, moe.expert_bias)
    yield Weights("experts", expert, 0, "experts", moe.experts)
    router = {"gate": Matrix("gate", moe.experts, hidden, "none", moe.router_bias)}
    if moe.latent:
        router["latent down"] = Matrix("latent down", moe.latent, hidden, "none")
        router["latent up"] = Matrix("latent up", hidden, moe.latent, "none")
    yield Weights("router", router, shared_by="none")
    if moe.shared_hidden:
        shared = feed_forward(hidden, moe.shared_hidden, gated, moe.expert_bias)
        yield Weights("shared_experts", shared, hidden * moe.shared_gate)


def modulation_matrix(model: Transformer, vectors: int) -> Matrices:
    """The projection of the conditioning, if there is one, to `vectors` of the hidden width."""
    if model.conditioning is None:
        return {}
    rows = vectors * model.hidden
    return {"modulation": Matrix("modulation", rows, model.hidden, "none", bias=True)}
