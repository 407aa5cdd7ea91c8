"""Architectures of Hugging Face that differ from a known one by little, as a table.

Holds `ALIKE`, from `model_type` to a `Variant`: the architecture that it is like, the names that it
gives to the same values, what it does if its file is silent, and what it has otherwise.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from syncwall.describe.huggingface.config import (
    Config,
    Fields,
    add_sliding_window,
    attention_bias,
    llama_like,
)
from syncwall.describe.huggingface.dense import (
    cohere,
    gemma,
    gpt2,
    gptj,
    llama,
    mistral,
    nemotron,
    olmo,
    olmo2,
    opt,
)
from syncwall.describe.huggingface.experts import (
    deepseek,
    deepseek_experts,
    granitemoe,
    in_every_layer,
    latent,
    olmoe,
    placed,
    qwen3_moe,
)

NO_WINDOW: Final = -1


@dataclass(frozen=True)
class Variant:
    """An architecture by what it has other than the one that `reads` it."""

    reads: Callable[[Config], Fields]
    names: Mapping[str, str] = field(default_factory=dict)
    """From a name that `reads` knows to the name here; dots lead into inner configurations."""
    assume: Mapping[str, Any] = field(default_factory=dict)
    """Values where the file is silent."""
    has: Mapping[str, Any] = field(default_factory=dict)
    """Keys of `Model` that are always so."""
    full_every: int = NO_WINDOW
    """With a window: layers of which one looks back at everything, where the file lists none."""

    def __call__(self, c: Config) -> Fields:
        """The keys of `Model` for a configuration."""
        c.rename(self.names)
        c.assume(**self.assume)
        fields = self.reads(c)
        for key, value in self.has.items():
            fields[key] = fields.get(key, {}) | value if isinstance(value, dict) else value
        if self.full_every == NO_WINDOW:
            return fields
        return add_sliding_window(c, fields, full_every=self.full_every)


def flagged(c: Config) -> Fields:
    """Llama with one flag for all biases."""
    fields = attention_bias(c, llama_like(c), "use_bias")
    fields["mlp"]["bias"] = fields["attention"]["qkv_bias"]
    return fields


def seed_oss(c: Config) -> Fields:
    """Llama with a flag of its own for the bias of the output projection."""
    fields = llama(c)
    fields["attention"]["output_bias"] = c.flag("attention_out_bias", default=False)
    return fields


def hyperclovax(c: Config) -> Fields:
    """Llama with two more norms a layer, by flag."""
    norms = 4 if c.flag("use_post_norm", default=False) else 2
    return llama(c) | {"norm": {"per_layer": norms}}


def latent_llama(c: Config) -> Fields:
    """Llama with latent attention."""
    return latent(c, llama(c))


def persimmon(c: Config) -> Fields:
    """Layer norm, also of queries and keys, biases and a plain MLP."""
    fields = nemotron(c)
    normed = c.flag("qk_layernorm", default=True)
    fields["attention"] |= {"qkv_bias": True, "output_bias": True}
    fields["attention"]["qk_norm"] = "head" if normed else "none"
    fields["mlp"]["bias"] = True
    return fields


def fine_experts(c: Config) -> Fields:
    """Llama with the experts of DeepSeek."""
    return deepseek_experts(c, attention_bias(c, llama_like(c, mlp=c.has("intermediate_size"))))


def ernie4_5_moe(c: Config) -> Fields:
    """Experts from one layer to another, corrected by learned biases."""
    fields = deepseek_experts(c, flagged(c))
    fields["moe"]["router_bias"] = True
    first, last = c.whole("moe_layer_start_index", default=1), c.value.get("moe_layer_end_index")
    end = last + 1 if isinstance(last, int) and last >= 0 else fields["layers"]
    every = c.whole("moe_layer_interval", default=1)
    return placed(
        fields,
        [
            "E" if first <= layer < end and (layer + 1) % every == 0 else "-"
            for layer in range(fields["layers"])
        ],
    )


def _experts_in_every_layer(c: Config) -> Fields:
    return in_every_layer(c, attention_bias(c, llama_like(c)))


_QK_NORM: Final = {"attention": {"qk_norm": "head"}}
_PLAIN_MLP: Final = {"mlp": {"gated": False}}
_TIED: Final = {"tie_word_embeddings": True}
_SHARED: Final = {"n_shared_experts": "num_shared_experts"}
_OF_ONE_WIDTH: Final = {"moe_intermediate_size": "intermediate_size"}

ALIKE: Final[dict[str, Callable[[Config], Fields]]] = {
    "afmoe": Variant(
        fine_experts,
        names=_SHARED | {"first_k_dense_replace": "num_dense_layers"},
        has={
            "attention": {"qk_norm": "head", "gated": True},
            "norm": {"per_layer": 4},
            "moe": {"router_bias": True},
        },
        full_every=4,
    ),
    "apertus": Variant(llama, has=_QK_NORM | {"mlp": {"gated": False, "learned_activation": 2}}),
    "arcee": Variant(llama, has=_PLAIN_MLP),
    "aria_text": Variant(
        fine_experts,
        names=_OF_ONE_WIDTH
        | {
            "n_shared_experts": "moe_num_shared_experts",
            "num_experts": "moe_num_experts",
            "num_experts_per_tok": "moe_topk",
        },
    ),
    "biogpt": Variant(opt, names={"ffn_dim": "intermediate_size"}),
    "bitnet": Variant(llama, has={"attention": {"output_norm": True}, "mlp": {"inner_norm": True}}),
    "codegen": gptj,
    "cohere2": Variant(cohere, full_every=4),
    "ctrl": Variant(gpt2, names={"n_inner": "dff"}, has={"learned_positions": 0, "head_bias": True}),
    "cwm": Variant(llama, full_every=4),
    "dbrx": Variant(
        _experts_in_every_layer,
        names={
            "num_key_value_heads": "attn_config.kv_n_heads",
            "intermediate_size": "ffn_config.ffn_hidden_size",
            "num_experts": "ffn_config.moe_num_experts",
            "num_experts_per_tok": "ffn_config.moe_top_k",
        },
        has={"norm": {"kind": "layer-no-bias"}},
    ),
    "dots1": Variant(fine_experts, has=_QK_NORM),
    "ernie4_5": Variant(flagged, assume=_TIED),
    "ernie4_5_moe": Variant(
        ernie4_5_moe,
        names={
            "n_shared_experts": "moe_num_shared_experts",
            "num_experts": "moe_num_experts",
            "num_experts_per_tok": "moe_k",
        },
        assume=_TIED,
    ),
    "exaone4": Variant(llama_like, has=_QK_NORM, full_every=4),
    "exaone_moe": Variant(fine_experts, names=_SHARED, has=_QK_NORM, full_every=4),
    "flex_olmo": olmoe,
    "glm4_moe_lite": deepseek,
    "gpt-sw3": gpt2,
    "granite_swa": Variant(llama, has={"attention": {"sinks": True}}, full_every=4),
    "granitemoeshared": granitemoe,
    "helium": Variant(llama, has={"attention": {"output_bias": False}}),
    "hunyuan_v1_dense": Variant(llama, has=_QK_NORM),
    "hunyuan_v1_moe": Variant(
        fine_experts,
        names=_OF_ONE_WIDTH | {"num_experts_per_tok": "moe_topk"},
        assume={"n_shared_experts": 1},
        has=_QK_NORM,
    ),
    "hy_v3": Variant(fine_experts, names=_SHARED, has=_QK_NORM),
    "hyperclovax": hyperclovax,
    "jais2": Variant(nemotron, assume={"attention_bias": True, "mlp_bias": True}),
    "mellum": Variant(qwen3_moe, full_every=4),
    "minicpm3": Variant(latent_llama, assume=_TIED),
    "minimax_m2": olmoe,
    "ministral": mistral,
    "ministral3": mistral,
    "nanochat": Variant(olmo, has=_PLAIN_MLP),
    "olmo3": Variant(olmo2, full_every=4),
    "openai-gpt": Variant(gpt2, has={"norm": {"final": False}}),
    "persimmon": persimmon,
    "seed_oss": Variant(seed_oss, assume={"attention_bias": True}),
    "solar_open": fine_experts,
    "vaultgemma": Variant(gemma, full_every=2),
    "xglm": Variant(
        gpt2,
        names={"num_attention_heads": "attention_heads", "intermediate_size": "ffn_dim"},
        has={"learned_positions": 0},
    ),
    "youtu": Variant(latent_llama, assume=_TIED),
}
