"""Dense architectures of Hugging Face, decoders and encoders, as the keys of `Model`.

Counted as they are trained: with the head that predicts masked tokens, or that classifies images.
"""

from collections.abc import Callable
from typing import Any, Final

from syncwall.describe.huggingface.config import (
    Config,
    Fields,
    add_sliding_window,
    attention_bias,
    llama_like,
)


def llama(c: Config) -> Fields:
    """Llama and what is built like it; biases by flag."""
    fields = attention_bias(c, llama_like(c))
    fields["mlp"]["bias"] = c.flag("mlp_bias", default=False)
    return fields


def mistral(c: Config) -> Fields:
    """Llama with a sliding window on every layer, if any."""
    return add_sliding_window(c, llama_like(c))


def qwen2(c: Config) -> Fields:
    """Llama with biases on queries, keys and values."""
    fields = llama_like(c)
    fields["attention"]["qkv_bias"] = True
    return add_sliding_window(c, fields) if c.flag("use_sliding_window", default=False) else fields


def normed_heads(c: Config) -> Fields:
    """Llama with normed queries and keys."""
    fields = attention_bias(c, llama_like(c))
    fields["attention"]["qk_norm"] = "head"
    return add_sliding_window(c, fields) if c.flag("use_sliding_window", default=False) else fields


def qwen3(c: Config) -> Fields:
    """Llama with normed queries and keys, and heads of one width."""
    fields = normed_heads(c)
    fields["attention"].setdefault("head_dim", 128)
    return fields


def gemma(c: Config) -> Fields:
    """Wide heads, the embedding also the head."""
    fields = attention_bias(c, llama_like(c, tied=True))
    fields["attention"].setdefault("head_dim", 256)
    return fields


def gemma2(c: Config) -> Fields:
    """Four norms a layer, every second layer looks back at everything."""
    fields = gemma(c)
    fields["norm"] = {"per_layer": 4}
    return add_sliding_window(c, fields, full_every=2)


def gemma3(c: Config) -> Fields:
    """Normed queries and keys, every sixth layer looks back at everything."""
    # the published files leave out what equals the defaults of their class
    c.assume(num_attention_heads=8, num_key_value_heads=4, head_dim=256, vocab_size=262208)
    fields = gemma(c)
    fields["norm"] = {"per_layer": 4}
    fields["attention"]["qk_norm"] = "head"
    return add_sliding_window(c, fields, full_every=c.whole("sliding_window_pattern", default=6))


def phi(c: Config) -> Fields:
    """Attention and MLP side by side behind one layer norm; biases everywhere."""
    fields = llama_like(c)
    fields["attention"] |= {"qkv_bias": True, "output_bias": True}
    fields["mlp"] |= {"gated": False, "bias": True}
    if c.flag("qk_layernorm", default=False):
        fields["attention"]["qk_norm"] = "head"
    return fields | {"norm": {"kind": "layer", "per_layer": 1}, "head_bias": True}


def phi3(c: Config) -> Fields:
    """Llama with fused projections, which count the same."""
    return add_sliding_window(c, llama_like(c))


def gpt2(c: Config) -> Fields:
    """Learned positions, layer norm, biases, a plain MLP; tied embeddings."""
    fields = llama_like(c, tied=True, mlp=False)
    fields["attention"] |= {"qkv_bias": True, "output_bias": True}
    width = c.optional("n_inner", "intermediate_size") or 4 * fields["hidden"]
    fields["mlp"] = {"hidden": width, "gated": False, "bias": True}
    return fields | {"norm": {"kind": "layer"}, "learned_positions": fields["max_seq"]}


def gpt_bigcode(c: Config) -> Fields:
    """GPT-2 with one key and value head."""
    fields = gpt2(c)
    if c.flag("multi_query", default=True):
        fields["attention"]["kv_heads"] = 1
    return fields


def gpt_neo(c: Config) -> Fields:
    """GPT-2 without biases on queries, keys and values."""
    fields = gpt2(c)
    fields["attention"]["qkv_bias"] = False
    return fields


def gpt_neox(c: Config) -> Fields:
    """Layer norm, biases and a plain MLP; positions are rotary."""
    fields = attention_bias(c, llama_like(c), default=True)
    fields["mlp"] |= {"gated": False, "bias": True}
    return fields | {"norm": {"kind": "layer"}}


def gptj(c: Config) -> Fields:
    """Attention and MLP side by side behind one norm; the head has a bias."""
    fields = llama_like(c, mlp=False)
    width = c.optional("n_inner") or 4 * fields["hidden"]
    fields["mlp"] = {"hidden": width, "gated": False, "bias": True}
    return fields | {"norm": {"kind": "layer", "per_layer": 1}, "head_bias": True}


def opt(c: Config) -> Fields:
    """GPT-2 whose smallest models project the embedding."""
    fields = llama_like(c, tied=True, mlp=False)
    bias = c.flag("enable_bias", default=True)
    before = c.flag("do_layer_norm_before", default=True)
    fields["attention"] |= {"qkv_bias": bias, "output_bias": bias}
    fields["mlp"] = {"hidden": c.whole("ffn_dim"), "gated": False, "bias": bias}
    fields["learned_positions"] = (fields["max_seq"] or 0) + 2  # two rows are kept for padding
    if c.has("word_embed_proj_dim"):
        fields["embedding_dim"] = c.whole("word_embed_proj_dim")
    affine = c.flag("layer_norm_elementwise_affine", default=True)
    return fields | {"norm": {"kind": "layer" if affine else "none", "final": before}}


def bloom(c: Config) -> Fields:
    """Biases everywhere and a norm on the embedding; positions are linear biases."""
    fields = llama_like(c, tied=True, mlp=False)
    fields["attention"] |= {"qkv_bias": True, "output_bias": True}
    fields["mlp"] = {"hidden": 4 * fields["hidden"], "gated": False, "bias": True}
    return fields | {"norm": {"kind": "layer", "embedding": True}}


def falcon(c: Config) -> Fields:
    """Attention and MLP side by side; one norm or two, one key head or a few."""
    fields = llama_like(c, tied=True, mlp=False)
    bias = c.flag("bias", default=False)
    grouped = c.flag("new_decoder_architecture", default=False)
    parallel = c.flag("parallel_attn", default=True)
    if grouped:
        fields["attention"]["kv_heads"] = c.whole("num_kv_heads", default=fields["attention"]["heads"])
    elif c.flag("multi_query", default=True):
        fields["attention"]["kv_heads"] = 1
    two = c.whole("num_ln_in_parallel_attn", default=2) == 2 if grouped else not parallel
    fields["attention"] |= {"qkv_bias": bias, "output_bias": bias}
    width = c.optional("ffn_hidden_size") or 4 * fields["hidden"]
    fields["mlp"] = {"hidden": width, "gated": False, "bias": bias}
    return fields | {"norm": {"kind": "layer", "per_layer": 2 if two else 1}}


def mpt(c: Config) -> Fields:
    """No biases at all; positions are linear biases."""
    fields = llama_like(c, tied=True, mlp=False)
    fields["mlp"] = {
        "hidden": c.whole("expansion_ratio", default=4) * fields["hidden"],
        "gated": False,
    }
    return fields | {"norm": {"kind": "layer-no-bias"}}


def glm(c: Config, *, norms: int = 2) -> Fields:
    """Llama with biases on queries, keys and values."""
    fields = llama_like(c)
    fields["attention"]["qkv_bias"] = c.flag("attention_bias", default=False)
    return fields | {"norm": {"per_layer": norms}}


def glm4(c: Config) -> Fields:
    """GLM with four norms a layer."""
    return glm(c, norms=4)


def nemotron(c: Config) -> Fields:
    """Layer norm and a plain MLP with squared ReLU."""
    fields = attention_bias(c, llama_like(c))
    fields["mlp"] |= {"gated": False, "bias": c.flag("mlp_bias", default=False)}
    return fields | {"norm": {"kind": "layer"}}


def olmo(c: Config) -> Fields:
    """Llama with norms that have no weights."""
    return attention_bias(c, llama_like(c)) | {"norm": {"kind": "none"}}


def olmo2(c: Config) -> Fields:
    """Llama with norms over all queries and keys."""
    fields = attention_bias(c, llama_like(c))
    fields["attention"]["qk_norm"] = "full"
    return fields


def starcoder2(c: Config) -> Fields:
    """Layer norm, biases and a plain MLP; grouped key heads."""
    fields = attention_bias(c, add_sliding_window(c, llama_like(c, tied=True)), "use_bias", default=True)
    fields["mlp"] |= {"gated": False, "bias": fields["attention"]["qkv_bias"]}
    return fields | {"norm": {"kind": "layer"}}


def cohere(c: Config) -> Fields:
    """Attention and MLP side by side behind one norm without bias."""
    fields = attention_bias(c, llama_like(c, tied=True))
    normed = c.flag("use_qk_norm", default=False)
    fields["attention"]["qk_norm"] = "full" if normed else "none"
    return fields | {"norm": {"kind": "layer-no-bias", "per_layer": 1}}


def stablelm(c: Config) -> Fields:
    """Llama with layer norm."""
    fields = llama_like(c)
    fields["attention"]["qkv_bias"] = c.flag("use_qkv_bias", default=False)
    if c.flag("qk_layernorm", default=False):
        c.complain("qk_layernorm", "stablelm with QK norm is not supported")
    norms = 1 if c.flag("use_parallel_residual", default=False) else 2
    return fields | {"norm": {"kind": "layer", "per_layer": norms}}


def smollm3(c: Config) -> Fields:
    """Llama with tied embeddings."""
    fields = llama(c)
    fields["tied_embeddings"] = c.flag("tie_word_embeddings", default=True)
    return fields


_NAMED: Final = (
    bloom,
    cohere,
    falcon,
    gemma,
    gemma2,
    gemma3,
    glm,
    glm4,
    gpt2,
    gpt_bigcode,
    gpt_neo,
    gpt_neox,
    gptj,
    llama,
    mistral,
    mpt,
    nemotron,
    olmo,
    olmo2,
    opt,
    phi,
    phi3,
    qwen2,
    qwen3,
    smollm3,
    stablelm,
    starcoder2,
)
DENSE: Final[dict[str, Callable[[Config], Fields]]] = {
    **{architecture.__name__: architecture for architecture in _NAMED},
    "gemma3_text": gemma3,
    "granite": llama,
}


def bert(c: Config) -> Fields:
    """Norms after each part and on the embedding, biases everywhere, segments and positions."""
    fields = llama_like(c, tied=True)
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
    fields = attention_bias(c, llama_like(c, tied=True))
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
    fields = llama_like(c)
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
