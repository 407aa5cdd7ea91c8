"""Exact parameter counts of a transformer.

Holds `ParameterCount`, `count_parameters`, `of_a_stack`, and the counts of the parts of a layer.
The sum equals what the reference implementation of an architecture instantiates, to the parameter;
buffers (rotary tables, routing corrections) do not count.
"""

from dataclasses import dataclass

from syncwall.describe.layer_kinds import BLOCKS, LayerKind
from syncwall.describe.mixer import mixer_parameters
from syncwall.describe.patches import SHIFT_SCALE, SHIFT_SCALE_GATE, modulation_parameters
from syncwall.describe.stack import Stack
from syncwall.describe.transformer import Attention, Norm, Transformer


@dataclass(frozen=True, slots=True)
class ParameterCount:
    """Parameters by where they sit; `total` is the published model."""

    embedding: int
    """Embeddings of tokens or patches, positions, token types and conditioning, with their
    projections."""
    attention: int
    """Attention, and the mixers in its place."""
    mlp: int
    """Feed-forward parts of dense layers."""
    experts: int
    """Routed experts."""
    shared_experts: int
    router: int
    """Routers, with the projections to and from the width of routed experts where it is another."""
    norm: int
    """Norms, with the projections of the conditioning that modulates them."""
    head: int
    """Output head; 0 if tied to the embedding."""
    inactive: int
    """Routed experts that one token does not visit."""
    mtp: int
    """Multi-token prediction layers, not in `total`."""
    encoder: int = 0
    """All of the encoder in front, with its projector."""
    stack: int = 0
    """All layers of a model that is no transformer."""

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
            + self.encoder
            + self.stack
        )

    @property
    def active(self) -> int:
        """Parameters that one token passes through."""
        return self.total - self.inactive


def count_parameters(model: Transformer) -> ParameterCount:
    """Count the parameters of `model`."""
    hidden, sparse = model.hidden, model.moe_layers
    dense = sum(kind.count for kind in model.layer_kinds if kind.feed_forward == "-")
    width = model.embedding_width
    projections = 2 * width * hidden if width != hidden else 0
    positions = (model.learned_positions + model.token_types) * hidden
    positions += model.relative_positions * model.attention.heads
    norm = norm_weights(model.norm, hidden)
    norms = sum(kind.count * layer_norms(model, kind) for kind in model.layer_kinds)
    norms += model.norm.final + model.norm.embedding
    head = 0 if model.tied_embeddings else model.head_width * width
    expert = expert_parameters(model)
    modulations = sum(kind.count * layer_modulation(model, kind) for kind in model.layer_kinds)
    modulations += final_modulation(model)
    return ParameterCount(
        embedding=model.vocab * width + positions + projections + input_parameters(model),
        attention=sum(kind.count * mixing_parameters(model, kind) for kind in model.layer_kinds),
        mlp=dense * mlp_parameters(model),
        experts=sparse * (model.moe.experts if model.moe else 0) * expert,
        shared_experts=sparse * shared_expert_parameters(model),
        router=sparse * router_parameters(model),
        norm=norms * norm + modulations,
        head=head + model.head_bias * model.head_width + head_transform_parameters(model),
        inactive=sparse * (model.moe.experts - model.moe.top_k if model.moe else 0) * expert,
        mtp=model.mtp_layers * _mtp_layer(model),
    )


def of_a_stack(stack: Stack) -> ParameterCount:
    """The parameters of layers that were counted elsewhere."""
    nothing = dict.fromkeys(
        ("embedding", "attention", "mlp", "experts", "shared_experts", "router", "norm", "head",
         "inactive", "mtp"), 0,
    )  # fmt: skip
    return ParameterCount(**nothing, stack=sum(one.repeat * one.parameters for one in stack))


def norm_weights(norm: Norm, width: int) -> int:
    """Weights of one norm over `width` dimensions."""
    return {"rms": 1, "layer": 2, "layer-no-bias": 1, "none": 0}[norm.kind] * width


def layer_norms(model: Transformer, kind: LayerKind) -> int:
    """Norms of one layer; a layer of one part has half of them."""
    return model.norm.per_layer * kind.blocks // BLOCKS


def input_parameters(model: Transformer) -> int:
    """Parameters of what makes tokens of patches or frames, and of the conditioning."""
    given = (model.patches, model.frames, model.conditioning)
    return sum(one.parameters(model.hidden) for one in given if one is not None)


def layer_modulation(model: Transformer, kind: LayerKind) -> int:
    """Parameters of the modulation of one layer's norms; 0 without conditioning."""
    if model.conditioning is None:
        return 0
    return modulation_parameters(SHIFT_SCALE_GATE * layer_norms(model, kind), model.hidden)


def final_modulation(model: Transformer) -> int:
    """Parameters of the modulation of the final norm; 0 without conditioning."""
    if model.conditioning is None:
        return 0
    return modulation_parameters(SHIFT_SCALE, model.hidden)


def mixing_parameters(model: Transformer, kind: LayerKind) -> int:
    """Parameters of what mixes tokens in one layer of `kind`."""
    if kind.mixer == "M":
        assert model.mixer is not None, "the pattern goes with it"
        return mixer_parameters(model.mixer, model.hidden)
    return attention_parameters(model) if kind.mixer == "*" else 0


def attention_parameters(model: Transformer) -> int:
    """Parameters of the attention of one layer."""
    attention = model.attention
    if attention.latent is not None:
        return _latent(model, attention)
    query, key = attention.heads * model.head_dim, model.kv_heads * model.head_dim
    into = query * (1 + attention.gated) + 2 * key
    weights = model.hidden * into + query * model.hidden
    biased = into - key if attention.unbiased_keys else into
    bias = attention.qkv_bias * biased + attention.output_bias * model.hidden
    weights, bias = (1 + attention.cross) * weights, (1 + attention.cross) * bias
    normed = {"none": 0, "head": 2 * model.head_dim, "full": query + key}[attention.qk_norm]
    norms = norm_weights(model.norm, normed + attention.output_norm * query)
    return weights + bias + norms + attention.sinks * attention.heads


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
    return queries + kv_down + kv_up + output + bias + indexer_parameters(model)


def indexer_parameters(model: Transformer) -> int:
    """Parameters of what picks the tokens to attend to: queries, one key with its norm, weights of
    heads; 0 if there is none.
    """
    indexer, latent = model.attention.indexer, model.attention.latent
    if indexer is None or latent is None:
        return 0
    queries = (latent.q_rank or model.hidden) * indexer.heads * indexer.head_dim
    return queries + model.hidden * (indexer.head_dim + indexer.heads) + 2 * indexer.head_dim


def _feed_forward(hidden: int, width: int, gated: bool, bias: bool) -> int:
    into = 2 if gated else 1
    return (into + 1) * hidden * width + bias * (into * width + hidden)


def mlp_parameters(model: Transformer) -> int:
    """Parameters of the feed-forward part of a dense layer; 0 if there is none."""
    mlp = model.mlp
    if mlp is None:
        return 0
    inner = norm_weights(model.norm, mlp.hidden) if mlp.inner_norm else 0
    products = _feed_forward(model.hidden, mlp.hidden, mlp.gated, mlp.bias)
    return products + inner + mlp.learned_activation


def gated_experts(model: Transformer) -> bool:
    """True if experts have three matrices: as stated, as the dense layers have, or if none have."""
    if model.moe is not None and model.moe.gated is not None:
        return model.moe.gated
    return model.mlp.gated if model.mlp else True


def expert_parameters(model: Transformer) -> int:
    """Parameters of one routed expert; 0 if there are none."""
    moe = model.moe
    if moe is None:
        return 0
    width = moe.latent or model.hidden
    return _feed_forward(width, moe.hidden, gated_experts(model), moe.expert_bias)


def shared_expert_parameters(model: Transformer) -> int:
    """Parameters of all shared experts of a layer together, with their gate."""
    moe = model.moe
    if moe is None or not moe.shared_hidden:
        return 0
    gate = model.hidden if moe.shared_gate else 0
    gated = gated_experts(model)
    return _feed_forward(model.hidden, moe.shared_hidden, gated, moe.expert_bias) + gate


def router_parameters(model: Transformer) -> int:
    """Parameters of the router of a layer, and of the projections to and from the latent width;
    0 if there are no experts.
    """
    moe = model.moe
    if moe is None:
        return 0
    return (model.hidden + moe.router_bias) * moe.experts + 2 * model.hidden * (moe.latent or 0)


def head_transform_parameters(model: Transformer) -> int:
    """Parameters of projection and norm before the logits; 0 if there are none."""
    if not model.head_transform:
        return 0
    bias = model.mlp is not None and model.mlp.bias
    return model.hidden * (model.hidden + bias) + norm_weights(model.norm, model.hidden)


def _mtp_layer(model: Transformer) -> int:
    """One multi-token prediction layer: a layer of the last kind, two norms and a projection.

    Embedding and output layer are those of the model. Source: DeepSeek-V3 report, section 2.2.
    """
    hidden, norm = model.hidden, norm_weights(model.norm, model.hidden)
    if model.mtp_kind.has_experts:
        assert model.moe is not None
        routed = model.moe.experts * expert_parameters(model)
        part = routed + shared_expert_parameters(model) + router_parameters(model)
    else:
        part = mlp_parameters(model)
    layer = attention_parameters(model) + part + model.norm.per_layer * norm
    return layer + 2 * hidden * hidden + 3 * norm
