"""Architectures of Hugging Face with Mamba in whole layers, as the keys of `Model`.

Holds `MAMBA`, from `model_type` to the function that reads its configuration, and the functions:
Mamba-1 alone and in Jamba, Mamba-2 in Bamba and Granite 4, and beside attention in Falcon-H1.
"""

from collections.abc import Callable
from typing import Final

from syncwall.describe.huggingface.config import Config, Fields, attention_bias, plain
from syncwall.describe.huggingface.experts import in_every_layer
from syncwall.describe.huggingface.hybrid import letters, of_pairs

_NAMES: Final = {
    "n_groups": "mamba_n_groups", "conv_kernel": "mamba_d_conv", "use_conv_bias": "mamba_conv_bias",
    "use_bias": "mamba_proj_bias", "expand": "mamba_expand", "state_size": "mamba_d_state",
    "time_step_rank": "mamba_dt_rank", "num_heads": "mamba_n_heads", "chunk_size":
    "mamba_chunk_size",
}  # fmt: skip
STEP_SHARE: Final = 16
"""Of the hidden width, the rank of time steps that is not stated."""


def mamba(c: Config) -> Fields:
    """Nothing but Mamba-1 layers."""
    c.assume(num_attention_heads=1, tie_word_embeddings=True)
    fields = plain(c, mlp=False)
    return fields | {"mixer": _mamba1(c, fields["hidden"]), "pattern": "M"}


def jamba(c: Config) -> Fields:
    """Mamba-1 with an eighth of the layers as attention; experts in every second layer."""
    c.rename(_NAMES)
    fields = plain(c)
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
    fields = attention_bias(c, plain(c))
    fields["mlp"]["bias"] = c.flag("mlp_bias", default=False)
    full = c.value.get("attn_layer_indices") or ()
    mixers = ["*" if layer in full else "M" for layer in range(fields["layers"])]
    return of_pairs(fields | {"mixer": _mamba2(c)}, mixers, ["-"] * len(mixers))


def granitemoehybrid(c: Config) -> Fields:
    """Granite with Mamba-2 in most layers; all of them have the shared experts, or only those."""
    fields = attention_bias(c, plain(c)) | {"mixer": _mamba2(c)}
    mixers = letters(c, "layer_types", c.kinds("layer_types")) or ["M"] * fields["layers"]
    shared = c.whole("shared_intermediate_size", default=1024)
    if not c.whole("num_local_experts", default=8):
        fields["mlp"] = {"hidden": shared}
        return of_pairs(fields, mixers, ["-"] * len(mixers))
    in_every_layer(c, fields)["moe"]["shared_hidden"] = shared
    return of_pairs(fields, mixers, ["E"] * len(mixers))


def falcon_h1(c: Config) -> Fields:
    """Llama with Mamba-2 beside the attention of every layer."""
    fields = attention_bias(c, plain(c))
    fields["mlp"]["bias"] = c.flag("mlp_bias", default=False)
    mixer = _mamba2(c)
    width = c.whole("mamba_d_ssm", default=mixer["heads"] * mixer["head_dim"])
    mixer["head_dim"] = width // max(mixer["heads"], 1)
    mixer["output_norm"] = c.flag("mamba_rms_norm", default=False)
    if c.flag("projectors_bias", default=False) != mixer["bias"]:
        c.complain("projectors_bias", "must be as mamba_proj_bias: one bias for both projections")
    return fields | {"mixer": mixer, "pattern": "M*-"}


def _periodic(
    c: Config, name: str, default: tuple[int, int], layers: range, either: str
) -> list[str]:
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


def _mamba2(c: Config) -> Fields:
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
