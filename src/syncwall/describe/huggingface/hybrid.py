"""Hybrid architectures of Hugging Face and those with Mamba in whole layers, as the keys of
`Model`.

Some layers have attention, others a state of fixed size (Mamba-2, gated DeltaNet, Kimi Delta
Attention, lightning attention) or a short convolution (LFM2).
"""

from collections.abc import Callable, Sequence
from typing import Any, Final

from syncwall.describe.huggingface.config import Config, Fields, attention_bias, llama_like
from syncwall.describe.huggingface.dense import olmo2
from syncwall.describe.huggingface.experts import (
    deepseek_experts,
    in_every_layer,
    latent,
    qwen_experts,
    with_experts,
)

_LETTERS: Final = {
    "mamba": "M",
    "linear_attention": "M",
    "attention": "*",
    "full_attention": "*",
    "mlp": "-",
    "moe": "E",
    "dense": "-",
    "sparse": "E",
}
_ONE_HEAD: Final = {"heads": 1}
"""Attention of models that have none."""


def letters(c: Config, name: str, words: Sequence[str]) -> list[str]:
    """Letters of a pattern for the `words` that a configuration lists under `name`."""
    unknown = next((word for word in words if word not in _LETTERS), None)
    if unknown is not None:
        c.complain(name, f'"{unknown}" is not a kind of layer: {", ".join(_LETTERS)}')
        return ["*"]
    return [_LETTERS[word] for word in words]


def nemotron_h(c: Config) -> Fields:
    """Layers of one part each: Mamba-2, attention, a plain MLP or experts."""
    pattern = c.value.get("hybrid_override_pattern")
    layers = (
        list(pattern)
        if isinstance(pattern, str)
        else letters(c, "layers_block_type", c.kinds("layers_block_type"))
    )
    if not layers:
        c.complain("hybrid_override_pattern", '"hybrid_override_pattern" is missing')
        layers = ["M"]
    c.assume(num_hidden_layers=len(layers), head_dim=128)
    c.value |= {"num_hidden_layers": len(layers)}
    fields = llama_like(c, mlp="-" in layers)
    fields["mixer"] = _mamba2(
        c,
        heads=c.whole("mamba_num_heads"),
        head_dim=c.whole("mamba_head_dim"),
        state=c.whole("ssm_state_size"),
        chunk=c.whole("chunk_size", default=128),
    )
    if "-" in layers:
        fields["mlp"] |= {"gated": False, "bias": c.flag("mlp_bias", default=False)}
    if "E" in layers:
        fields["moe"] = {
            "experts": c.whole("n_routed_experts", "num_local_experts"),
            "top_k": c.whole("num_experts_per_tok"),
            "hidden": c.whole("moe_intermediate_size"),
            "shared_hidden": c.whole("n_shared_experts", default=1)
            * c.whole("moe_shared_expert_intermediate_size"),
            "latent": c.optional("moe_latent_size"),
            "gated": False,
        }
    return _without_mixer(fields | {"pattern": " ".join(layers)})


def mamba2(c: Config) -> Fields:
    """Nothing but Mamba-2 layers."""
    width = c.whole("expand", default=2) * c.whole("hidden_size")
    head_dim = c.whole("head_dim", default=64)
    c.assume(num_attention_heads=1)
    fields = llama_like(c, mlp=False)
    fields["attention"] = _ONE_HEAD | {"head_dim": head_dim}
    fields["mixer"] = _mamba2(
        c,
        heads=c.whole("num_heads", default=width // head_dim),
        head_dim=head_dim,
        state=c.whole("state_size", default=128),
        chunk=c.whole("chunk_size", default=256),
    )
    return fields | {"pattern": "M"}


def _mamba2(c: Config, *, heads: int, head_dim: int, state: int, chunk: int) -> Fields:
    return {
        "kind": "mamba-2",
        "heads": heads,
        "head_dim": head_dim,
        "key_heads": c.whole("n_groups", default=8),
        "key_dim": state,
        "conv": c.whole("conv_kernel", default=4),
        "conv_bias": c.flag("use_conv_bias", default=True),
        "bias": c.flag("use_bias", default=False),
        "chunk": chunk,
    }


def qwen3_next(c: Config) -> Fields:
    """Experts in every layer; three of four layers have gated DeltaNet, the fourth attention."""
    fields = _gated_attention(c)
    qwen_experts(c, fields)["moe"] |= {
        "shared_hidden": c.whole("shared_expert_intermediate_size"),
        "shared_gate": True,
    }
    return _gated_delta(c, fields, with_experts(fields))


def qwen3_5(c: Config) -> Fields:
    """Qwen3-Next without experts."""
    fields = _gated_attention(c)
    return _gated_delta(c, fields, ["-"] * fields["layers"])


def olmo_hybrid(c: Config) -> Fields:
    """OLMo 2 with gated DeltaNet in three of four layers."""
    fields = olmo2(c)
    return _gated_delta(c, fields, ["-"] * fields["layers"])


def _gated_attention(c: Config) -> Fields:
    fields = attention_bias(c, llama_like(c, mlp=c.has("intermediate_size")))
    fields["attention"] |= {"qk_norm": "head", "gated": True}
    fields["attention"].setdefault("head_dim", 256)
    return fields


def _gated_delta(c: Config, fields: Fields, feed_forward: list[str]) -> Fields:
    """`fields` with gated DeltaNet in all layers but every n-th."""
    fields["mixer"] = {
        "kind": "gated-delta",
        "heads": c.whole("linear_num_value_heads"),
        "head_dim": c.whole("linear_value_head_dim"),
        "key_heads": c.whole("linear_num_key_heads"),
        "key_dim": c.whole("linear_key_head_dim"),
        "conv": c.whole("linear_conv_kernel_dim"),
    }
    every = c.whole("full_attention_interval", default=4) or 1
    mixers = _mixers(c, fields, lambda layer: (layer + 1) % every == 0)
    return of_pairs(fields, mixers, feed_forward)


def kimi_linear(c: Config) -> Fields:
    """Kimi Delta Attention with a few layers of latent attention; experts after dense layers."""
    own = c.value.get("linear_attn_config")
    own = own if isinstance(own, dict) else {}
    c.value = c.value | {  # the two spellings of the same file
        "num_experts_per_tok": _either(c, "num_experts_per_tok", "num_experts_per_token"),
        "n_shared_experts": _either(c, "n_shared_experts", "num_shared_experts"),
        "n_group": _either(c, "n_group", "num_expert_group"),
    }
    fields = deepseek_experts(c, latent(c, llama_like(c)))
    fields["mixer"] = {
        "kind": "kimi-delta",
        "heads": own.get("num_heads") or c.whole("linear_num_heads", default=32),
        "head_dim": own.get("head_dim") or c.whole("linear_head_dim", default=128),
        "conv": own.get("short_conv_kernel_size") or c.whole("linear_conv_kernel_dim", default=4),
    }
    full = own.get("full_attn_layers") or ()  # counted from 1
    mixers = _mixers(c, fields, lambda layer: layer + 1 in full)
    listed = letters(c, "mlp_layer_types", c.kinds("mlp_layer_types"))
    return of_pairs(fields, mixers, listed or with_experts(fields))


def minimax(c: Config) -> Fields:
    """Experts in every layer; lightning attention with an eighth of the layers as attention."""
    fields = in_every_layer(c, llama_like(c))
    heads, hidden = fields["attention"]["heads"], fields["hidden"]
    fields["mixer"] = {
        "kind": "lightning",
        "heads": heads,
        "head_dim": fields["attention"].get("head_dim", hidden // heads),
        "conv": 0,
        "chunk": c.whole("block_size", default=256),
    }
    kinds = c.value.get("attn_type_list")
    full = kinds if isinstance(kinds, list) else []
    mixers = _mixers(c, fields, lambda layer: layer < len(full) and full[layer] == 1)
    return of_pairs(fields, mixers, with_experts(fields))


def lfm2(c: Config) -> Fields:
    """Gated short convolutions with a few layers of attention; the MLP's width is two thirds of
    what is stated, rounded up, unless the file says that it is not.
    """
    c.rename({"intermediate_size": "block_ff_dim", "tie_word_embeddings": "tie_embedding"})
    fields = llama_like(c, tied=True)
    fields["attention"]["qk_norm"] = "head"
    if c.flag("block_auto_adjust_ff_dim", default=True):
        times = c.value.get("block_ffn_dim_multiplier", 1.0)
        multiple = c.whole("block_multiple_of", default=256) or 1
        width = int(2 * fields["mlp"]["hidden"] / 3)
        if isinstance(times, int | float):
            width = multiple * -(-int(times * width) // multiple)
        fields["mlp"]["hidden"] = width
    bias = c.flag("conv_bias", default=False)
    fields["mixer"] = {
        "kind": "short-conv",
        "heads": fields["hidden"],
        "head_dim": 1,
        "conv": c.whole("conv_L_cache", default=3),
        "conv_bias": bias,
        "bias": bias,
    }
    kinds = ["mamba" if kind == "conv" else kind for kind in c.kinds("layer_types")]
    c.value = c.value | {"layer_types": kinds}
    full = c.value.get("full_attn_idxs")
    mixers = _mixers(c, fields, lambda layer: not isinstance(full, list) or layer in full)
    return of_pairs(fields, mixers, ["-"] * fields["layers"])


def _either(c: Config, first: str, second: str) -> Any:
    return c.value.get(first) if c.has(first) else c.value.get(second)


def _mixers(c: Config, fields: Fields, is_full: Callable[[int], bool]) -> list[str]:
    """What mixes tokens in each layer: as listed, or by `is_full`, which counts from 0."""
    listed = letters(c, "layer_types", c.kinds("layer_types"))
    return listed or ["*" if is_full(layer) else "M" for layer in range(fields["layers"])]


def of_pairs(fields: Fields, mixers: list[str], feed_forward: list[str]) -> Fields:
    """`fields` with the pattern of layers that have both."""
    for name in ("dense_first", "every"):
        fields.get("moe", {}).pop(name, None)
    if "-" not in feed_forward:
        fields.pop("mlp", None)
    words = [mixer + part for mixer, part in zip(mixers, feed_forward, strict=False)]
    return _without_mixer(fields | {"pattern": " ".join(words)})


def _without_mixer(fields: Fields) -> Fields:
    """`fields` without the mixer where no layer has one."""
    if "M" not in fields["pattern"]:
        fields.pop("mixer")
    return fields


HYBRID: Final[dict[str, Callable[[Config], Fields]]] = {
    **{
        architecture.__name__: architecture
        for architecture in (
            kimi_linear,
            lfm2,
            mamba2,
            minimax,
            nemotron_h,
            olmo_hybrid,
            qwen3_next,
        )
    },
    **dict.fromkeys(("qwen3_5", "qwen3_5_text"), qwen3_5),
    **dict.fromkeys(("qwen3_5_moe", "qwen3_5_moe_text"), qwen3_next),
}


_NAMES: Final = {
    "n_groups": "mamba_n_groups",
    "conv_kernel": "mamba_d_conv",
    "use_conv_bias": "mamba_conv_bias",
    "use_bias": "mamba_proj_bias",
    "expand": "mamba_expand",
    "state_size": "mamba_d_state",
    "time_step_rank": "mamba_dt_rank",
    "num_heads": "mamba_n_heads",
    "chunk_size": "mamba_chunk_size",
}
STEP_SHARE: Final = 16
"""Of the hidden width, the rank of time steps that is not stated."""


def mamba(c: Config) -> Fields:
    """Nothing but Mamba-1 layers."""
    c.assume(num_attention_heads=1, tie_word_embeddings=True)
    fields = llama_like(c, mlp=False)
    return fields | {"mixer": _mamba1(c, fields["hidden"]), "pattern": "M"}


def jamba(c: Config) -> Fields:
    """Mamba-1 with an eighth of the layers as attention; experts in every second layer."""
    c.rename(_NAMES)
    fields = llama_like(c)
    layers = range(fields["layers"])
    mixers = _periodic(c, "attn_layer", (8, 4), layers, "*M")
    fields["mixer"] = _mamba1(c, fields["hidden"]) | {"inner_norms": True}
    if c.whole("num_experts", default=16) == 1:
        return of_pairs(fields, mixers, ["-"] * len(layers))
    width = fields["mlp"]["hidden"]
    in_every_layer(c, fields)
    fields["mlp"] = {"hidden": width}
    return of_pairs(fields, mixers, _periodic(c, "expert_layer", (2, 1), layers, "E-"))


def bamba(c: Config) -> Fields:
    """Llama with Mamba-2 in most layers."""
    fields = attention_bias(c, llama_like(c))
    fields["mlp"]["bias"] = c.flag("mlp_bias", default=False)
    full = c.value.get("attn_layer_indices") or ()
    mixers = ["*" if layer in full else "M" for layer in range(fields["layers"])]
    return of_pairs(fields | {"mixer": _mamba2_of_whole_layers(c)}, mixers, ["-"] * len(mixers))


def granitemoehybrid(c: Config) -> Fields:
    """Granite with Mamba-2 in most layers; all of them have the shared experts, or only those."""
    fields = attention_bias(c, llama_like(c)) | {"mixer": _mamba2_of_whole_layers(c)}
    mixers = letters(c, "layer_types", c.kinds("layer_types")) or ["M"] * fields["layers"]
    shared = c.whole("shared_intermediate_size", default=1024)
    if not c.whole("num_local_experts", default=8):
        fields["mlp"] = {"hidden": shared}
        return of_pairs(fields, mixers, ["-"] * len(mixers))
    in_every_layer(c, fields)["moe"]["shared_hidden"] = shared
    return of_pairs(fields, mixers, ["E"] * len(mixers))


def falcon_h1(c: Config) -> Fields:
    """Llama with Mamba-2 beside the attention of every layer."""
    fields = attention_bias(c, llama_like(c))
    fields["mlp"]["bias"] = c.flag("mlp_bias", default=False)
    mixer = _mamba2_of_whole_layers(c)
    width = c.whole("mamba_d_ssm", default=mixer["heads"] * mixer["head_dim"])
    mixer["head_dim"] = width // max(mixer["heads"], 1)
    mixer["output_norm"] = c.flag("mamba_rms_norm", default=False)
    if c.flag("projectors_bias", default=False) != mixer["bias"]:
        c.complain("projectors_bias", "must be as mamba_proj_bias: one bias for both projections")
    return fields | {"mixer": mixer, "pattern": "M*-"}


def _periodic(c: Config, name: str, default: tuple[int, int], layers: range, either: str) -> list[str]:
    """The first of `either` letters for one layer in each period, the second for the others."""
    period = c.whole(f"{name}_period", default=default[0]) or 1
    offset = c.whole(f"{name}_offset", default=default[1])
    return [either[0] if layer % period == offset else either[1] for layer in layers]


def _mamba1(c: Config, hidden: int) -> Fields:
    stated = c.value.get("time_step_rank")
    width = c.whole("expand", default=2) * hidden
    return {
        "kind": "mamba-1",
        "heads": width,
        "head_dim": 1,
        "key_heads": 1,
        "key_dim": c.whole("state_size", default=16),
        "rank": stated if isinstance(stated, int) else -(-hidden // STEP_SHARE),
        "conv": c.whole("conv_kernel", default=4),
        "conv_bias": c.flag("use_conv_bias", default=True),
        "bias": c.flag("use_bias", default=False),
    }


def _mamba2_of_whole_layers(c: Config) -> Fields:
    c.rename(_NAMES)
    heads = c.whole("num_heads", default=128)
    width = c.whole("expand", default=2) * c.whole("hidden_size")
    stated = c.value.get("mamba_d_head")
    return {
        "kind": "mamba-2",
        "heads": heads,
        "head_dim": stated if isinstance(stated, int) else width // max(heads, 1),
        "key_heads": c.whole("n_groups", default=1),
        "key_dim": c.whole("state_size", default=256),
        "conv": c.whole("conv_kernel", default=4),
        "conv_bias": c.flag("use_conv_bias", default=True),
        "bias": c.flag("use_bias", default=False),
        "chunk": c.whole("chunk_size", default=256),
    }


MAMBA: Final[dict[str, Callable[[Config], Fields]]] = {
    **{one.__name__: one for one in (bamba, falcon_h1, granitemoehybrid, jamba, mamba)},
    "falcon_mamba": mamba,
}
