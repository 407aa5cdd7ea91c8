"""Encoders with decoders of Hugging Face, as the keys of `Model`.

Holds `PAIRS`, from `model_type` to the function that reads its configuration, and the functions.
"""

from collections.abc import Callable
from typing import Any, Final

from syncwall.describe.huggingface.config import Config, Fields

SOURCE_TOKENS: Final = 512
"""Tokens of T5's encoder in pre-training, where the file is silent."""


def t5(c: Config) -> Fields:
    """No biases; scores have one by distance, learned once in each stack."""
    heads = c.whole("num_heads")
    kind = str(c.value.get("feed_forward_proj", "relu"))
    stack: dict[str, Any] = {
        "hidden": c.whole("d_model"),
        "attention": {"heads": heads, "head_dim": c.whole("d_kv", default=64)},
        "mlp": {"hidden": c.whole("d_ff"), "gated": kind.startswith("gated")},
        "relative_positions": c.whole("relative_attention_num_buckets", default=32),
    }
    layers = c.whole("num_layers")
    tokens = c.whole("n_positions", default=SOURCE_TOKENS)
    encoder = {"layers": layers, "train_seq": tokens}
    return stack | {
        "layers": c.whole("num_decoder_layers", default=layers),
        "vocab": c.whole("vocab_size"),
        "tied_embeddings": c.flag("tie_word_embeddings", default=True),
        "attention": stack["attention"] | {"cross": True},
        "norm": {"per_layer": 3},
        "encoder": stack | encoder | {"attention": stack["attention"] | {"causal": False}},
    }


def _biased(c: Config, side: str) -> Fields:
    """One side of a pair with layer norm and biases everywhere."""
    return {
        "layers": c.whole(f"{side}_layers"),
        "hidden": c.whole("d_model"),
        "attention": {
            "heads": c.whole(f"{side}_attention_heads"),
            "qkv_bias": True,
            "output_bias": True,
            "cross": side == "decoder",
            "causal": side == "decoder",
        },
        "mlp": {"hidden": c.whole(f"{side}_ffn_dim"), "gated": False, "bias": True},
        "norm": {"kind": "layer", "per_layer": 3 if side == "decoder" else 2},
    }


def _pair(c: Config, encoder: Fields, decoder: Fields) -> Fields:
    tied = c.flag("tie_word_embeddings", default=True)
    whole = {"vocab": c.whole("vocab_size"), "tied_embeddings": tied, "encoder": encoder}
    return decoder | whole


def whisper(c: Config) -> Fields:
    """Sound in, as frames that two convolutions join; keys have no bias."""
    encoder, decoder = _biased(c, "encoder"), _biased(c, "decoder")
    tokens, longest = c.whole("max_source_positions"), c.whole("max_target_positions")
    encoder["frames"] = {"channels": c.whole("num_mel_bins"), "tokens": tokens}
    encoder["learned_positions"], decoder["learned_positions"] = tokens, longest
    for side in (encoder, decoder):
        side["attention"]["unbiased_keys"] = True
    return _pair(c, encoder, decoder) | {"max_seq": longest}


def bart(c: Config) -> Fields:
    """Norms after each part and on the embeddings."""
    encoder, decoder = _biased(c, "encoder"), _biased(c, "decoder")
    longest = c.whole("max_position_embeddings")
    for side in (encoder, decoder):
        side["norm"] |= {"final": False, "embedding": True}
        side["learned_positions"] = longest + 2  # two rows are kept for padding
    encoder["train_seq"] = longest
    return _pair(c, encoder, decoder) | {"max_seq": longest}


PAIRS: Final[dict[str, Callable[[Config], Fields]]] = {
    reader.__name__: reader for reader in (bart, t5, whisper)
}
