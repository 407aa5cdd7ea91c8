"""Mixture-of-experts architectures of Hugging Face, as the keys of `Model`.

Holds `EXPERTS`, from `model_type` to the function that reads its configuration, and the functions.
"""

from collections.abc import Callable
from typing import Final

from syncwall.describe.huggingface.config import (
    HEADS,
    Config,
    Fields,
    add_sliding_window,
    attention_bias,
    llama_like,
)
from syncwall.describe.huggingface.dense import llama, normed_heads, olmo2, qwen2

_COUNT: Final = ("num_experts", "num_local_experts", "n_routed_experts")


def in_every_layer(c: Config, fields: Fields) -> Fields:
    """Replace every MLP by routed experts, each as wide as it was."""
    fields["moe"] = {
        "experts": c.whole(*_COUNT),
        "top_k": c.whole("num_experts_per_tok", "experts_per_token"),
        "hidden": fields.pop("mlp")["hidden"],
    }
    return fields


def mixtral(c: Config) -> Fields:
    """Mistral with experts in every layer."""
    return in_every_layer(c, add_sliding_window(c, llama_like(c)))


def qwen_experts(c: Config, fields: Fields) -> Fields:
    """Add the experts of Qwen, in every layer or every n-th."""
    fields["moe"] = {
        "experts": c.whole(*_COUNT),
        "top_k": c.whole("num_experts_per_tok"),
        "hidden": c.whole("moe_intermediate_size"),
        "every": c.whole("decoder_sparse_step", default=1),
    }
    dense = c.value.get("mlp_only_layers")
    if not isinstance(dense, list) or not dense:
        return fields
    letters = with_experts(fields)
    return placed(fields, ["-" if i in dense else letter for i, letter in enumerate(letters)])


def with_experts(fields: Fields) -> list[str]:
    """What works on each token, layer by layer, by what `moe` states."""
    moe = fields["moe"]
    first, every = moe.get("dense_first", 0), moe.get("every", 1)
    return ["E" if layer >= first and (layer + 1) % every == 0 else "-" for layer in range(fields["layers"])]


def placed(fields: Fields, letters: list[str]) -> Fields:
    """`fields` with experts in the layers that have an `E` among `letters`.

    Dense layers at the start are a number of the model, dense layers elsewhere a pattern.
    """
    moe = fields["moe"]
    moe.pop("every", None)
    moe["dense_first"] = letters.index("E") if "E" in letters else len(letters)
    if letters != with_experts(fields):
        moe.pop("dense_first")
        fields["pattern"] = " ".join(f"*{letter}" for letter in letters)
    return fields


def qwen2_moe(c: Config) -> Fields:
    """Qwen 2 with routed experts and a gated shared one."""
    fields = qwen_experts(c, qwen2(c))
    fields["attention"]["qkv_bias"] = c.flag("qkv_bias", default=True)
    fields["moe"] |= {
        "shared_hidden": c.whole("shared_expert_intermediate_size"),
        "shared_gate": True,
    }
    return fields


def qwen3_moe(c: Config) -> Fields:
    """Qwen 3 with routed experts."""
    return qwen_experts(c, normed_heads(c))


def phimoe(c: Config) -> Fields:
    """Mixtral with layer norm and biases."""
    fields = attention_bias(c, mixtral(c))
    fields["head_bias"] = c.flag("lm_head_bias", default=False)
    return fields | {"norm": {"kind": "layer"}}


def latent(c: Config, fields: Fields) -> Fields:
    """Replace plain attention by latent attention."""
    bias = c.flag("attention_bias", default=False)
    fields["attention"] = {
        "heads": c.whole(*HEADS),
        "qkv_bias": bias,
        "output_bias": bias,
        "latent": {
            "q_rank": c.optional("q_lora_rank"),
            "kv_rank": c.whole("kv_lora_rank"),
            "nope_dim": c.whole("qk_nope_head_dim"),
            "rope_dim": c.whole("qk_rope_head_dim"),
            "v_dim": c.whole("v_head_dim"),
        },
    }
    return fields


def deepseek_experts(c: Config, fields: Fields) -> Fields:
    """Routed and shared experts of one width, after a few dense layers."""
    width = c.whole("moe_intermediate_size")
    fields["moe"] = {
        "experts": c.whole(*_COUNT),
        "top_k": c.whole("num_experts_per_tok"),
        "hidden": width,
        "shared_hidden": c.whole("n_shared_experts", default=0) * width,
        "dense_first": c.whole("first_k_dense_replace", default=0),
        "every": c.whole("moe_layer_freq", default=1),
    }
    if c.whole("n_group", default=1) > c.whole("topk_group", default=1):
        fields["moe"]["node_limit"] = c.whole("topk_group")
    kinds = c.kinds("mlp_layer_types")
    return placed(fields, ["E" if k == "sparse" else "-" for k in kinds]) if kinds else fields


def deepseek(c: Config) -> Fields:
    """Latent attention; fine routed experts beside shared ones."""
    return deepseek_experts(c, latent(c, llama_like(c)))


def deepseek_sparse(c: Config) -> Fields:
    """DeepSeek whose queries attend to the tokens that an indexer picks."""
    fields = deepseek(c)
    fields["attention"]["indexer"] = {
        "heads": c.whole("index_n_heads"),
        "head_dim": c.whole("index_head_dim"),
        "top_k": c.whole("index_topk"),
    }
    if "shared" in c.kinds("indexer_types"):
        c.complain("indexer_types", "layers that share an indexer are not supported")
    return fields


def glm4_moe(c: Config) -> Fields:
    """GLM with the experts of DeepSeek."""
    fields = deepseek_experts(c, llama_like(c))
    fields["attention"] |= {
        "qkv_bias": c.flag("attention_bias", default=False),
        "qk_norm": "head" if c.flag("use_qk_norm", default=False) else "none",
    }
    return fields


def gpt_oss(c: Config) -> Fields:
    """Experts and router with biases, attention with sinks, every second layer a window."""
    fields = attention_bias(c, llama_like(c), default=True)
    fields["attention"]["sinks"] = True
    in_every_layer(c, fields)["moe"] |= {
        "router_bias": True,
        "expert_bias": True,
        "clamped": True,
    }
    return add_sliding_window(c, fields, full_every=2)


def llama4(c: Config) -> Fields:
    """Routed experts beside one shared; three layers of four look back at one chunk."""
    fields = llama(c)
    width = fields["mlp"]["hidden"]
    fields["mlp"] = {"hidden": c.whole("intermediate_size_mlp", default=width)}
    fields["moe"] = {
        "experts": c.whole(*_COUNT),
        "top_k": c.whole("num_experts_per_tok", default=1),
        "hidden": width,
        "shared_hidden": width,
        "every": c.whole("interleave_moe_layer_step", default=1),
    }
    if c.has("attention_chunk_size"):
        fields["attention"] |= {
            "window": c.whole("attention_chunk_size"),
            "full_every": c.whole("no_rope_layer_interval", default=4),
        }
    return fields


def olmoe(c: Config) -> Fields:
    """OLMo 2 with experts in every layer."""
    return in_every_layer(c, olmo2(c))


def granitemoe(c: Config) -> Fields:
    """Granite with experts in every layer, also shared ones."""
    fields = in_every_layer(c, attention_bias(c, llama_like(c)))
    fields["moe"]["shared_hidden"] = c.whole("shared_intermediate_size", default=0)
    return fields


_NAMED: Final = (
    glm4_moe,
    gpt_oss,
    granitemoe,
    llama4,
    mixtral,
    olmoe,
    phimoe,
    qwen2_moe,
    qwen3_moe,
)
EXPERTS: Final[dict[str, Callable[[Config], Fields]]] = {
    **{architecture.__name__: architecture for architecture in _NAMED},
    **dict.fromkeys(("deepseek_v2", "deepseek_v3", "kimi_k2"), deepseek),
    **dict.fromkeys(("deepseek_v32", "glm_moe_dsa"), deepseek_sparse),
    "llama4_text": llama4,
}
