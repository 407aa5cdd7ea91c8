"""The layers of a dense decoder in PyTorch, eager, as people write them.

Holds `Decoder`, `norm`, `positioned` and `activated`. Imported only where torch is installed.
`built`: a described transformer as a PyTorch module with random weights. Dense decoders only.
"""

from typing import Any

import torch
from torch import nn
from torch.nn import functional

from syncwall.describe import Model
from syncwall.problems import InputError

_ROTARY_BASE = 10000.0


class TransformerLayer(nn.Module):
    """Attention and feed-forward part, each behind a norm and added to what came in."""

    def __init__(self, model: Model, seq: int) -> None:
        super().__init__()
        heads, kv_heads, dim = model.attention.heads, model.kv_heads, model.head_dim
        assert model.mlp is not None
        self.widths = (heads * dim, kv_heads * dim, kv_heads * dim)
        self.dim, self.gated, self.groups = dim, model.mlp.gated, heads > kv_heads
        bias = model.attention.qkv_bias
        into = model.mlp.hidden * (2 if model.mlp.gated else 1)
        self.attention_norm, self.mlp_norm = norm(model), norm(model)
        self.query_key_value = nn.Linear(model.hidden, sum(self.widths), bias=bias)
        self.output = nn.Linear(heads * dim, model.hidden, bias=model.attention.output_bias)
        self.up = nn.Linear(model.hidden, into, bias=model.mlp.bias)
        self.down = nn.Linear(model.mlp.hidden, model.hidden, bias=model.mlp.bias)
        cosine, sine = angles(seq, dim)
        self.register_buffer("cosine", cosine, persistent=False)
        self.register_buffer("sine", sine, persistent=False)

    def forward(self, hidden: torch.Tensor) -> torch.Tensor:
        """One layer."""
        hidden = hidden + self.output(self._attended(self.attention_norm(hidden)))
        return hidden + self.down(activated(self.up(self.mlp_norm(hidden)), self.gated))

    def _attended(self, hidden: torch.Tensor) -> torch.Tensor:
        joint = self.query_key_value(hidden)
        query, key, value = positioned(joint, self.widths, self.dim, self.cosine, self.sine)
        mixed = functional.scaled_dot_product_attention(
            query, key, value, is_causal=True, enable_gqa=self.groups
        )
        return mixed.transpose(1, 2).flatten(2)


class Decoder(nn.Module):
    """Embedding, layers, head and loss: from tokens (batch, seq) and targets to the mean loss."""

    def __init__(self, model: Model, seq: int) -> None:
        super().__init__()
        self.embedding = nn.Embedding(model.vocab, model.hidden)
        self.layers = nn.ModuleList(TransformerLayer(model, seq) for _ in range(model.layers))
        self.norm = norm(model) if model.norm.final else nn.Identity()
        self.head = nn.Linear(model.hidden, model.vocab, bias=model.head_bias)
        if model.tied_embeddings:
            self.head.weight = self.embedding.weight

    def forward(self, tokens: torch.Tensor, targets: torch.Tensor) -> torch.Tensor:
        """The mean loss."""
        hidden = self.embedding(tokens)
        for layer in self.layers:
            hidden = layer(hidden)
        logits = self.head(self.norm(hidden))
        return functional.cross_entropy(logits.flatten(0, 1).float(), targets.flatten())


def norm(model: Model) -> nn.Module:
    """The norm that the model has."""
    if model.norm.kind == "rms":
        return nn.RMSNorm(model.hidden)
    if model.norm.kind == "none":
        return nn.LayerNorm(model.hidden, elementwise_affine=False)
    return nn.LayerNorm(model.hidden, bias=model.norm.kind == "layer")


def angles(seq: int, dim: int) -> tuple[torch.Tensor, torch.Tensor]:
    """Cosines and sines of rotary positions."""
    rates = _ROTARY_BASE ** (-torch.arange(0, dim, 2) / dim)
    turned = torch.outer(torch.arange(seq), rates)
    both = torch.cat((turned, turned), dim=-1)
    return both.cos(), both.sin()


def rotated(x: torch.Tensor, cosine: torch.Tensor, sine: torch.Tensor) -> torch.Tensor:
    """Queries or keys turned by their position."""
    first, second = x.chunk(2, dim=-1)
    return x * cosine + torch.cat((-second, first), dim=-1) * sine


def positioned(
    joint: torch.Tensor,
    widths: tuple[int, int, int],
    dim: int,
    cosine: torch.Tensor,
    sine: torch.Tensor,
) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    """Queries, keys and values by head, the first two turned by their position."""
    parts = joint.split(widths, dim=-1)
    query, key, value = (x.unflatten(-1, (-1, dim)).transpose(1, 2) for x in parts)
    return rotated(query, cosine, sine), rotated(key, cosine, sine), value


def activated(x: torch.Tensor, gated: bool) -> torch.Tensor:
    """SwiGLU of both halves, or GELU."""
    if not gated:
        return functional.gelu(x)
    gate, value = x.chunk(2, dim=-1)
    return functional.silu(gate) * value


def built(model: Model, seq: int) -> Any:
    """`model` as a torch.nn.Module."""
    _refuse_what_is_not_built(model)
    return Decoder(model, seq)


def _refuse_what_is_not_built(model: Model) -> None:
    kinds = {
        "experts": model.moe is not None,
        "layers that differ": model.pattern is not None,
        "latent attention": model.attention.latent is not None,
        "an output gate of attention": model.attention.gated,
        "attention to later tokens": not model.attention.causal,
        "a stack of layers": model.stack is not None,
        "patches or classes": model.patches is not None or model.classes > 0,
        "attention in a window": model.attention.window is not None,
        "multi-token prediction": model.mtp_layers > 0,
        "learned positions": model.learned_positions > 0,
    }
    found = [name for name, present in kinds.items() if present]
    if found:
        raise InputError.of(
            f"{model.name} has {found[0]}: `measure` builds dense decoders with rotary positions"
        )
