"""Exact parameter counts of a transformer.

Holds `ParameterCount`, `count_parameters`, and the counts of the parts of a layer. The sum equals
what the reference implementation of an architecture instantiates, to the parameter; buffers (rotary
tables, routing corrections) do not count.
"""

from dataclasses import dataclass

from syncwall.describe.transformer import Attention, Norm, Transformer


@dataclass(frozen=True, slots=True)
class ParameterCount:
    """Parameters by where they sit; `total` is the published model."""

    embedding: int
    """Token and position embeddings, with their projections."""
    attention: int
    mlp: int
    """Feed-forward parts of dense layers."""
    experts: int
    """Routed experts."""
    shared_experts: int
    router: int
    norm: int
    head: int
    """Output head; 0 if tied to the embedding."""
    inactive: int
    """Routed experts that one token does not visit."""
    mtp: int
    """Multi-token prediction layers, not in `total`."""

    @property
    def total(self) -> int:
        """All parameters of the published model."""
        return (
            self.embedding
            + self.attention
            + self.mlp
            + self.experts
            + self.shared_experts
            + self.router
            + self.norm
            + self.head
        )

    @property
    def active(self) -> int:
        """Parameters that one token passes through."""
        return self.total - self.inactive


def count_parameters(model: Transformer) -> ParameterCount:
    """Count the parameters of `model`."""
    hidden, dense, sparse = model.hidden, model.dense_layers, model.moe_layers
    width = model.embedding_dim or hidden
    projections = 2 * width * hidden if width != hidden else 0
    positions = model.learned_positions * hidden
    norm = norm_weights(model.norm, hidden)
    norms = model.layers * model.norm.per_layer + model.norm.final + model.norm.embedding
    head = 0 if model.tied_embeddings else model.vocab * width
    expert = expert_parameters(model)
    return ParameterCount(
        embedding=model.vocab * width + positions + projections,
        attention=model.layers * attention_parameters(model),
        mlp=dense * mlp_parameters(model),
        experts=sparse * (model.moe.experts if model.moe else 0) * expert,
        shared_experts=sparse * shared_expert_parameters(model),
        router=sparse * router_parameters(model),
        norm=norms * norm,
        head=head + (model.vocab if model.head_bias else 0),
        inactive=sparse * (model.moe.experts - model.moe.top_k if model.moe else 0) * expert,
        mtp=model.mtp_layers * _mtp_layer(model),
    )


def norm_weights(norm: Norm, width: int) -> int:
    """Weights of one norm over `width` dimensions."""
    return {"rms": 1, "layer": 2, "layer-no-bias": 1, "none": 0}[norm.kind] * width


def attention_parameters(model: Transformer) -> int:
    """Parameters of the attention of one layer."""
    attention = model.attention
    if attention.latent is not None:
        return _latent(model, attention)
    query, key = attention.heads * model.head_dim, model.kv_heads * model.head_dim
    weights = model.hidden * (query + 2 * key) + query * model.hidden
    bias = attention.qkv_bias * (query + 2 * key) + attention.output_bias * model.hidden
    qk_norm = {"none": 0, "head": 2 * model.head_dim, "full": query + key}[attention.qk_norm]
    return weights + bias + qk_norm + attention.sinks * attention.heads


def _latent(model: Transformer, attention: Attention) -> int:
    latent, heads, hidden = attention.latent, attention.heads, model.hidden
    assert latent is not None
    query = heads * model.head_dim
    if latent.q_rank is None:
        queries = hidden * query
        down = latent.kv_rank + latent.rope_dim
    else:
        queries = hidden * latent.q_rank + latent.q_rank + latent.q_rank * query
        down = latent.q_rank + latent.kv_rank + latent.rope_dim
    kv_down = hidden * (latent.kv_rank + latent.rope_dim) + latent.kv_rank
    kv_up = latent.kv_rank * heads * (latent.nope_dim + latent.v_dim)
    output = heads * latent.v_dim * hidden
    bias = attention.qkv_bias * down + attention.output_bias * hidden
    return queries + kv_down + kv_up + output + bias


def _feed_forward(hidden: int, width: int, gated: bool, bias: bool) -> int:
    into = 2 if gated else 1
    return (into + 1) * hidden * width + bias * (into * width + hidden)


def mlp_parameters(model: Transformer) -> int:
    """Parameters of the feed-forward part of a dense layer; 0 if there is none."""
    mlp = model.mlp
    return _feed_forward(model.hidden, mlp.hidden, mlp.gated, mlp.bias) if mlp else 0


def _gated(model: Transformer) -> bool:
    """Experts have the form of the dense layers; without any, they are gated."""
    return model.mlp.gated if model.mlp else True


def expert_parameters(model: Transformer) -> int:
    """Parameters of one routed expert; 0 if there are none."""
    moe = model.moe
    return _feed_forward(model.hidden, moe.hidden, _gated(model), moe.expert_bias) if moe else 0


def shared_expert_parameters(model: Transformer) -> int:
    """Parameters of all shared experts of a layer together, with their gate."""
    moe = model.moe
    if moe is None or not moe.shared_hidden:
        return 0
    gate = model.hidden if moe.shared_gate else 0
    return _feed_forward(model.hidden, moe.shared_hidden, _gated(model), moe.expert_bias) + gate


def router_parameters(model: Transformer) -> int:
    """Parameters of the router of a layer; 0 if there are no experts."""
    moe = model.moe
    return (model.hidden + moe.router_bias) * moe.experts if moe else 0


def _mtp_layer(model: Transformer) -> int:
    """One multi-token prediction layer: a layer of the last kind, two norms and a projection.

    Embedding and output layer are those of the model. Source: DeepSeek-V3 report, section 2.2.
    """
    hidden, norm = model.hidden, norm_weights(model.norm, model.hidden)
    if model.has_experts(model.layers - 1):
        assert model.moe is not None
        routed = model.moe.experts * expert_parameters(model)
        part = routed + shared_expert_parameters(model) + router_parameters(model)
    else:
        part = mlp_parameters(model)
    layer = attention_parameters(model) + part + model.norm.per_layer * norm
    return layer + 2 * hidden * hidden + 3 * norm
