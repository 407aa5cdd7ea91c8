"""The plain decoder, from which every architecture differs by name.

Holds `plain` (RMS norm, gated MLP, no biases, as Llama has it), and the common differences `window`
and `attention_bias`.
"""

from typing import Any, Final

from syncwall.describe.huggingface.config import Config

Fields = dict[str, Any]

_LAYERS: Final = ("num_hidden_layers", "n_layer", "num_layers", "n_layers")
_HIDDEN: Final = ("hidden_size", "n_embd", "d_model", "n_embed")
HEADS: Final = ("num_attention_heads", "n_head", "n_heads", "num_heads")
_POSITIONS: Final = ("max_position_embeddings", "n_positions", "n_ctx", "max_seq_len", "seq_length")


def plain(c: Config, *, tied: bool = False, mlp: bool = True) -> Fields:
    """A decoder as Llama has it.

    `tied` is what the architecture does if the file is silent; without `mlp` it adds its own.
    """
    heads = c.whole(*HEADS)
    fields: Fields = {
        "layers": c.whole(*_LAYERS),
        "hidden": c.whole(*_HIDDEN),
        "vocab": c.whole("vocab_size"),
        "attention": {"heads": heads, "kv_heads": c.whole("num_key_value_heads", default=heads)},
        "tied_embeddings": c.flag("tie_word_embeddings", default=tied),
        "max_seq": c.optional(*_POSITIONS),
        "mtp_layers": c.whole("num_nextn_predict_layers", default=0),
    }
    if c.has("head_dim"):
        fields["attention"]["head_dim"] = c.whole("head_dim")
    if mlp:
        fields["mlp"] = {"hidden": c.whole("intermediate_size")}
    return fields


def window(c: Config, fields: Fields, *, full_every: int = 0) -> Fields:
    """Add a sliding window if the configuration uses one; layer kinds, if listed, say where."""
    kinds = c.kinds("layer_types")
    if kinds:
        full = [i for i, kind in enumerate(kinds) if kind == "full_attention"]
        every = full[0] + 1 if full else 0
        regular = [i for i in range(len(kinds)) if every and (i + 1) % every == 0]
        if full != regular:
            c.complain("layer_types", "full attention must come at every n-th layer")
        full_every = every
        if len(full) == len(kinds):
            return fields
    if c.has("sliding_window") and full_every != 1:
        fields["attention"] |= {"window": c.whole("sliding_window"), "full_every": full_every}
    return fields


def attention_bias(
    c: Config, fields: Fields, flag: str = "attention_bias", *, default: bool = False
) -> Fields:
    """Give attention biases before and after, if the configuration says so."""
    bias = c.flag(flag, default=default)
    fields["attention"] |= {"qkv_bias": bias, "output_bias": bias}
    return fields
