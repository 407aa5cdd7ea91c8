"""Encoders of Hugging Face, as the keys of `Model`.

Holds `ENCODERS`, from `model_type` to the function that reads its configuration, and the functions.
Counted as they are trained: with the head that predicts masked tokens, or that classifies images.
"""

from collections.abc import Callable
from typing import Final

from syncwall.describe.huggingface.config import Config, Fields, attention_bias, plain


def bert(c: Config) -> Fields:
    """Norms after each part and on the embedding, biases everywhere, segments and positions."""
    fields = plain(c, tied=True)
    fields["attention"] |= {"causal": False, "qkv_bias": True, "output_bias": True}
    fields["mlp"] |= {"gated": False, "bias": True}
    return fields | {
        "norm": {"kind": "layer", "final": False, "embedding": True},
        "learned_positions": fields["max_seq"],
        "token_types": c.whole("type_vocab_size", default=2),
        "head_transform": True,
        "head_bias": True,
    }


def distilbert(c: Config) -> Fields:
    """BERT without segments."""
    c.assume(hidden_size=c.whole("dim"), intermediate_size=c.whole("hidden_dim"), type_vocab_size=0)
    return bert(c)


def modernbert(c: Config) -> Fields:
    """Gated, no biases but of the logits; every third layer, from the first, sees everything.

    The first layer takes the norm of the embedding for its own, so all have two.
    """
    fields = attention_bias(c, plain(c, tied=True))
    fields["mlp"]["bias"] = c.flag("mlp_bias", default=False)
    fields["attention"] |= {
        "causal": False,
        "window": c.whole("local_attention", default=128) + 1,  # half on either side, and itself
        "full_every": c.whole("global_attn_every_n_layers", default=3),
        "full_first": True,
    }
    for flag in ("norm_bias", "classifier_bias"):
        if c.flag(flag, default=False):
            c.complain(flag, f"modernbert with {flag} is not supported")
    return fields | {
        "norm": {"kind": "layer-no-bias"},
        "head_transform": True,
        "head_bias": c.flag("decoder_bias", default=True),
    }


def vit(c: Config) -> Fields:
    """Patches and a token of the class; norms before each part, biases everywhere."""
    c.assume(image_size=224, patch_size=16, vocab_size=0)
    fields = plain(c)
    labels = c.value.get("id2label")
    fields["patches"] = {
        "image": c.whole("image_size"),
        "size": c.whole("patch_size"),
        "channels": c.whole("num_channels", default=3),
        "extra_tokens": 1,
    }
    fields["attention"] |= {
        "causal": False,
        "qkv_bias": c.flag("qkv_bias", default=True),
        "output_bias": True,
    }
    fields["mlp"] |= {"gated": False, "bias": True}
    return fields | {
        "norm": {"kind": "layer"},
        "learned_positions": (c.whole("image_size") // max(c.whole("patch_size"), 1)) ** 2 + 1,
        "tied_embeddings": False,
        "classes": len(labels) if isinstance(labels, dict) else 2,  # what transformers builds
        "head_bias": True,
    }


ENCODERS: Final[dict[str, Callable[[Config], Fields]]] = {
    **{reader.__name__: reader for reader in (bert, distilbert, modernbert, vit)},
    **dict.fromkeys(("camembert", "roberta", "xlm-roberta"), bert),
}
