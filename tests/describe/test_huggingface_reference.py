"""Parameter counts against what `transformers` instantiates from the same configuration.

The models are built on the meta device from shapes written here: nothing is downloaded.
"""

import json
from pathlib import Path
from typing import Any

import pytest

from syncwall.describe import lookup
from syncwall.describe.huggingface import ARCHITECTURES
from syncwall.describe.huggingface.dense import ENCODERS, PAIRS
from syncwall.describe.huggingface.towers import DECODERS
from tests.describe.tiny import TINY

pytestmark = [
    pytest.mark.slow,
    pytest.mark.filterwarnings("ignore::DeprecationWarning"),  # of torch inside transformers
]

Shape = dict[str, Any]


def _llama(layers: int, hidden: int, heads: int, kv: int, ffn: int, vocab: int, **more) -> Shape:
    return {
        "num_hidden_layers": layers,
        "hidden_size": hidden,
        "num_attention_heads": heads,
        "num_key_value_heads": kv,
        "intermediate_size": ffn,
        "vocab_size": vocab,
        **more,
    }


def _gpt2(layers: int, hidden: int, heads: int) -> Shape:
    return {"n_layer": layers, "n_embd": hidden, "n_head": heads}


_DEEPSEEK_V2 = {"n_routed_experts": 160, "n_shared_experts": 2, "moe_intermediate_size": 1536}
_DEEPSEEK_V2_MLA = {"q_lora_rank": 1536, "kv_lora_rank": 512, "first_k_dense_replace": 1}
_OPT = {"vocab_size": 50272, "max_position_embeddings": 2048}

_NEMOTRON_H_8B = "M-M-M-M*-M-M-M-M-M*-M-M-M-M-M*-M-M-M-M-M*-M-M-M-M-M-"
_NEMOTRON_3_NANO = "MEMEM*EMEMEM*EMEMEM*EMEMEM*EMEMEM*EMEMEMEM*EMEMEMEME"
_NEMOTRON_3_SUPER = "MEMEMEM*EMEMEMEM*EMEMEMEM*EMEMEMEMEM*EMEMEMEMEM*EMEMEMEMEM*EMEMEMEMEM*EMEMEMEM*EMEMEMEME"


def _nemotron_h(pattern: str, hidden: int, heads: int, mamba_heads: int, **more) -> Shape:
    return {
        "hybrid_override_pattern": pattern,
        "hidden_size": hidden,
        "num_attention_heads": heads,
        "mamba_num_heads": mamba_heads,
        **more,
    }


NEEDS_SHAPES = {
    "dbrx",
    "deepseek_v2",
    "dots1",
    "glm4_moe",
    "hunyuan_v1_dense",
    "hunyuan_v1_moe",
    "ministral",
    "nemotron",
}
"""Architectures whose defaults cannot be built or trained: heads that do not divide the width, no
number of experts."""

CASES: list[tuple[str, str, Shape]] = [
    ("nemotron-h-8b", "nemotron_h", _nemotron_h(_NEMOTRON_H_8B, 4096, 32, 128)),
    (
        "nemotron-h-with-biases",
        "nemotron_h",
        _nemotron_h("M-M*", 512, 8, 8, use_bias=True, mlp_bias=True, use_conv_bias=False),
    ),
    (
        "nemotron-3-nano-30b-a3b",
        "nemotron_h",
        _nemotron_h(
            _NEMOTRON_3_NANO,
            2688,
            32,
            64,
            num_key_value_heads=2,
            n_routed_experts=128,
            num_experts_per_tok=6,
            moe_intermediate_size=1856,
            moe_shared_expert_intermediate_size=3712,
        ),
    ),
    (
        "nemotron-3-super-120b-a12b",
        "nemotron_h",
        _nemotron_h(
            _NEMOTRON_3_SUPER,
            4096,
            32,
            128,
            num_key_value_heads=2,
            n_routed_experts=512,
            num_experts_per_tok=22,
            moe_intermediate_size=2688,
            moe_shared_expert_intermediate_size=5376,
            moe_latent_size=1024,
            num_nextn_predict_layers=1,
        ),
    ),
    (
        "falcon-h1-1.5b",
        "falcon_h1",
        _llama(
            24, 2048, 8, 2, 4608, 65537, head_dim=128, mamba_d_ssm=3072, mamba_n_heads=48, mamba_d_state=256
        ),
    ),
    (
        "falcon-h1-with-norm-and-biases",
        "falcon_h1",
        _llama(
            3,
            512,
            8,
            2,
            1000,
            1024,
            mamba_d_ssm=1024,
            mamba_n_heads=16,
            mamba_n_groups=2,
            mamba_d_state=64,
            mamba_rms_norm=True,
            mamba_proj_bias=True,
            projectors_bias=True,
            attention_bias=True,
            mlp_bias=True,
            mamba_conv_bias=False,
        ),
    ),
    ("lfm2-1.2b", "lfm2", _llama(16, 2048, 32, 8, 12288, 65536, full_attn_idxs=[2, 5, 8, 10, 12, 14])),
    (
        "lfm2-with-biases",
        "lfm2",
        _llama(
            3,
            512,
            8,
            8,
            1000,
            1024,
            conv_bias=True,
            block_auto_adjust_ff_dim=False,
            layer_types=["conv", "full_attention", "conv"],
        ),
    ),
    (
        "mamba2-2.7b",
        "mamba2",
        {
            "num_hidden_layers": 64,
            "hidden_size": 2560,
            "num_heads": 80,
            "n_groups": 1,
            "vocab_size": 50288,
            "tie_word_embeddings": True,
        },
    ),
    (
        "qwen3-next-80b-a3b",
        "qwen3_next",
        _llama(48, 2048, 16, 2, 5120, 151936, head_dim=256, num_experts=512, num_experts_per_tok=10),
    ),
    (
        "kimi-linear-48b-a3b",
        "kimi_linear",
        _llama(
            27,
            2304,
            32,
            32,
            9216,
            163840,
            linear_attn_config={
                "head_dim": 128,
                "num_heads": 32,
                "short_conv_kernel_size": 4,
                "full_attn_layers": [4, 8, 12, 16, 20, 24, 27],
                "kda_layers": [i for i in range(1, 28) if i not in (4, 8, 12, 16, 20, 24, 27)],
            },
        ),
    ),
    (
        "minimax-text-01",
        "minimax",
        _llama(
            80,
            6144,
            64,
            8,
            9216,
            200064,
            head_dim=128,
            num_local_experts=32,
            layer_types=["full_attention" if (i + 1) % 8 == 0 else "linear_attention" for i in range(80)],
        ),
    ),
    ("gpt2", "gpt2", _gpt2(12, 768, 12)),
    ("gpt2-xl", "gpt2", _gpt2(48, 1600, 25)),
    (
        "gpt-neox-20b",
        "gpt_neox",
        {
            "num_hidden_layers": 44,
            "hidden_size": 6144,
            "num_attention_heads": 64,
            "intermediate_size": 24576,
            "vocab_size": 50432,
        },
    ),
    (
        "pythia-1b",
        "gpt_neox",
        {
            "num_hidden_layers": 16,
            "hidden_size": 2048,
            "num_attention_heads": 8,
            "intermediate_size": 8192,
            "vocab_size": 50304,
        },
    ),
    ("gpt-j-6b", "gptj", {"n_layer": 28, "n_embd": 4096, "n_head": 16}),
    (
        "gpt-neo-2.7b",
        "gpt_neo",
        {
            "num_layers": 32,
            "hidden_size": 2560,
            "num_heads": 20,
            "attention_types": [[["global", "local"], 16]],
        },
    ),
    (
        "starcoder",
        "gpt_bigcode",
        {
            "n_layer": 40,
            "n_embd": 6144,
            "n_head": 48,
            "n_positions": 8192,
            "vocab_size": 49152,
            "n_inner": 24576,
        },
    ),
    (
        "opt-125m",
        "opt",
        {
            "num_hidden_layers": 12,
            "hidden_size": 768,
            "num_attention_heads": 12,
            "ffn_dim": 3072,
            "word_embed_proj_dim": 768,
            **_OPT,
        },
    ),
    (
        "opt-350m",
        "opt",
        {
            "num_hidden_layers": 24,
            "hidden_size": 1024,
            "num_attention_heads": 16,
            "ffn_dim": 4096,
            "word_embed_proj_dim": 512,
            "do_layer_norm_before": False,
            **_OPT,
        },
    ),
    (
        "opt-66b",
        "opt",
        {
            "num_hidden_layers": 64,
            "hidden_size": 9216,
            "num_attention_heads": 72,
            "ffn_dim": 36864,
            "word_embed_proj_dim": 9216,
            **_OPT,
        },
    ),
    ("bloom-560m", "bloom", {"n_layer": 24, "hidden_size": 1024, "n_head": 16, "vocab_size": 250880}),
    ("bloom-176b", "bloom", {"n_layer": 70, "hidden_size": 14336, "n_head": 112, "vocab_size": 250880}),
    ("llama-65b", "llama", _llama(80, 8192, 64, 64, 22016, 32000)),
    ("llama-2-70b", "llama", _llama(80, 8192, 64, 8, 28672, 32000)),
    ("llama-3.1-8b", "llama", _llama(32, 4096, 32, 8, 14336, 128256)),
    ("llama-3.1-405b", "llama", _llama(126, 16384, 128, 8, 53248, 128256)),
    ("llama-3.2-1b", "llama", _llama(16, 2048, 32, 8, 8192, 128256, head_dim=64, tie_word_embeddings=True)),
    ("llama-with-biases", "llama", _llama(2, 256, 8, 2, 512, 1000, attention_bias=True, mlp_bias=True)),
    (
        "llama-4-scout",
        "llama4_text",
        _llama(
            48,
            5120,
            40,
            8,
            8192,
            202048,
            head_dim=128,
            intermediate_size_mlp=16384,
            num_local_experts=16,
            interleave_moe_layer_step=1,
        ),
    ),
    (
        "llama-4-maverick",
        "llama4_text",
        _llama(
            48,
            5120,
            40,
            8,
            8192,
            202048,
            head_dim=128,
            intermediate_size_mlp=16384,
            num_local_experts=128,
            interleave_moe_layer_step=2,
        ),
    ),
    ("mistral-7b", "mistral", _llama(32, 4096, 32, 8, 14336, 32000, sliding_window=4096)),
    ("mistral-nemo", "mistral", _llama(40, 5120, 32, 8, 14336, 131072, head_dim=128, sliding_window=None)),
    ("mixtral-8x7b", "mixtral", _llama(32, 4096, 32, 8, 14336, 32000, num_local_experts=8)),
    ("mixtral-8x22b", "mixtral", _llama(56, 6144, 48, 8, 16384, 32768, num_local_experts=8)),
    ("qwen2.5-0.5b", "qwen2", _llama(24, 896, 14, 2, 4864, 151936, tie_word_embeddings=True)),
    ("qwen2.5-72b", "qwen2", _llama(80, 8192, 64, 8, 29568, 152064)),
    (
        "qwen1.5-moe-a2.7b",
        "qwen2_moe",
        _llama(
            24,
            2048,
            16,
            16,
            5632,
            151936,
            num_experts=60,
            num_experts_per_tok=4,
            moe_intermediate_size=1408,
            shared_expert_intermediate_size=5632,
        ),
    ),
    ("qwen3-8b", "qwen3", _llama(36, 4096, 32, 8, 12288, 151936, head_dim=128)),
    ("qwen3-0.6b", "qwen3", _llama(28, 1024, 16, 8, 3072, 151936, head_dim=128, tie_word_embeddings=True)),
    (
        "qwen3-30b-a3b",
        "qwen3_moe",
        _llama(
            48,
            2048,
            32,
            4,
            6144,
            151936,
            head_dim=128,
            num_experts=128,
            num_experts_per_tok=8,
            moe_intermediate_size=768,
        ),
    ),
    (
        "qwen3-235b-a22b",
        "qwen3_moe",
        _llama(
            94,
            4096,
            64,
            4,
            12288,
            151936,
            head_dim=128,
            num_experts=128,
            num_experts_per_tok=8,
            moe_intermediate_size=1536,
        ),
    ),
    ("gemma-7b", "gemma", _llama(28, 3072, 16, 16, 24576, 256000, head_dim=256)),
    ("gemma-2-9b", "gemma2", _llama(42, 3584, 16, 8, 14336, 256000, head_dim=256)),
    ("gemma-2-27b", "gemma2", _llama(46, 4608, 32, 16, 36864, 256000, head_dim=128)),
    ("gemma-3-1b", "gemma3_text", _llama(26, 1152, 4, 1, 6912, 262144, head_dim=256, sliding_window=512)),
    (
        "gemma-3-27b",
        "gemma3_text",
        _llama(62, 5376, 32, 16, 21504, 262208, head_dim=128, sliding_window=1024),
    ),
    ("phi-2", "phi", _llama(32, 2560, 32, 32, 10240, 51200)),
    ("phi-3-mini", "phi3", _llama(32, 3072, 32, 32, 8192, 32064, pad_token_id=0)),
    ("phi-4", "phi3", _llama(40, 5120, 40, 10, 17920, 100352, pad_token_id=0)),
    (
        "phi-3.5-moe",
        "phimoe",
        _llama(32, 4096, 32, 8, 6400, 32064, num_local_experts=16, attention_bias=True, lm_head_bias=True),
    ),
    (
        "falcon-7b",
        "falcon",
        {
            "num_hidden_layers": 32,
            "hidden_size": 4544,
            "num_attention_heads": 71,
            "vocab_size": 65024,
            "multi_query": True,
            "parallel_attn": True,
            "bias": False,
            "new_decoder_architecture": False,
        },
    ),
    (
        "falcon-40b",
        "falcon",
        {
            "num_hidden_layers": 60,
            "hidden_size": 8192,
            "num_attention_heads": 128,
            "num_kv_heads": 8,
            "vocab_size": 65024,
            "parallel_attn": True,
            "bias": False,
            "new_decoder_architecture": True,
        },
    ),
    (
        "falcon-rw-1b",
        "falcon",
        {
            "num_hidden_layers": 24,
            "hidden_size": 2048,
            "num_attention_heads": 32,
            "vocab_size": 50304,
            "multi_query": False,
            "alibi": True,
            "parallel_attn": False,
            "bias": True,
            "new_decoder_architecture": False,
        },
    ),
    ("mpt-7b", "mpt", {"n_layers": 32, "d_model": 4096, "n_heads": 32, "vocab_size": 50432}),
    (
        "deepseek-v2",
        "deepseek_v2",
        _llama(60, 5120, 128, 128, 12288, 102400, **_DEEPSEEK_V2, **_DEEPSEEK_V2_MLA, num_experts_per_tok=6),
    ),
    (
        "deepseek-v2-lite",
        "deepseek_v2",
        _llama(
            27,
            2048,
            16,
            16,
            10944,
            102400,
            q_lora_rank=None,
            kv_lora_rank=512,
            n_routed_experts=64,
            n_shared_experts=2,
            moe_intermediate_size=1408,
            first_k_dense_replace=1,
            num_experts_per_tok=6,
        ),
    ),
    ("deepseek-v3", "deepseek_v3", _llama(61, 7168, 128, 128, 18432, 129280, num_nextn_predict_layers=1)),
    ("gpt-oss-20b", "gpt_oss", _llama(24, 2880, 64, 8, 2880, 201088, num_local_experts=32)),
    ("gpt-oss-120b", "gpt_oss", _llama(36, 2880, 64, 8, 2880, 201088, num_local_experts=128)),
    ("nemotron-4-340b", "nemotron", _llama(96, 18432, 96, 8, 73728, 256000)),
    ("olmo-7b", "olmo", _llama(32, 4096, 32, 32, 11008, 50304)),
    ("olmo-2-7b", "olmo2", _llama(32, 4096, 32, 32, 11008, 100352)),
    ("olmoe-1b-7b", "olmoe", _llama(16, 2048, 16, 16, 1024, 50304, num_experts=64)),
    ("starcoder2-15b", "starcoder2", _llama(40, 6144, 48, 4, 24576, 49152)),
    ("command-r", "cohere", _llama(40, 8192, 64, 64, 22528, 256000)),
    ("command-r-plus", "cohere", _llama(64, 12288, 96, 8, 33792, 256000, use_qk_norm=True)),
    ("stablelm-3b", "stablelm", _llama(32, 2560, 32, 32, 6912, 50304)),
    ("stablelm-2-1.6b", "stablelm", _llama(24, 2048, 32, 32, 5632, 100352, use_qkv_bias=True)),
    ("granite-3-8b", "granite", _llama(40, 4096, 32, 8, 12800, 49155, tie_word_embeddings=True)),
    (
        "granite-3-3b-a800m",
        "granitemoe",
        _llama(
            32, 1536, 24, 8, 512, 49155, num_local_experts=40, num_experts_per_tok=8, tie_word_embeddings=True
        ),
    ),
    ("glm-4-9b", "glm", _llama(40, 4096, 32, 2, 13696, 151552, head_dim=128, attention_bias=True)),
    ("glm-4-32b", "glm4", _llama(61, 6144, 48, 2, 23040, 151552, head_dim=128)),
    (
        "glm-4.5-air",
        "glm4_moe",
        _llama(
            46,
            4096,
            96,
            8,
            10944,
            151552,
            head_dim=128,
            attention_bias=True,
            n_routed_experts=128,
            n_shared_experts=1,
            num_experts_per_tok=8,
            moe_intermediate_size=1408,
            first_k_dense_replace=1,
            use_qk_norm=False,
        ),
    ),
    (
        "glm-4.5",
        "glm4_moe",
        _llama(
            92,
            5120,
            96,
            8,
            12288,
            151552,
            head_dim=128,
            attention_bias=True,
            n_routed_experts=160,
            n_shared_experts=1,
            num_experts_per_tok=8,
            moe_intermediate_size=1536,
            first_k_dense_replace=3,
            use_qk_norm=True,
        ),
    ),
    ("smollm3-3b", "smollm3", _llama(36, 2048, 16, 4, 11008, 128256, pad_token_id=0)),
]


@pytest.mark.parametrize(("name", "model_type", "shape"), CASES, ids=[case[0] for case in CASES])
def test_count_equals_what_transformers_builds(name, model_type, shape, tmp_path: Path):
    _compare(model_type, shape, tmp_path)


def _compare(model_type: str, shape: Shape, tmp_path: Path) -> None:
    torch = pytest.importorskip("torch", reason="torch is not installed")
    transformers = pytest.importorskip("transformers", reason="transformers is not installed")
    config = transformers.AutoConfig.for_model(model_type, **shape)
    config.save_pretrained(tmp_path)
    with torch.device("meta"):
        reference = transformers.AutoModelForCausalLM.from_config(config)
    expected = sum(parameter.numel() for parameter in reference.parameters())
    assert lookup.model(str(tmp_path / "config.json")).parameters == expected


@pytest.mark.parametrize("model_type", sorted(set(TINY) - NEEDS_SHAPES))
def test_count_equals_what_transformers_builds_by_default(model_type, tmp_path: Path):
    """Configurations that say nothing: most defaults are those of a published model."""
    _compare(model_type, {}, tmp_path)


def test_every_decoder_is_compared_and_has_its_flops_counted():
    """The other names are of models that also see, and one that `transformers` does not know."""
    assert set(ARCHITECTURES) - set(ENCODERS | PAIRS | DECODERS) - set(TINY) == {
        "gemma3",
        "kimi_k2",
        "llama4",
        "qwen3_5",
        "qwen3_5_moe",
    }


def test_a_model_that_also_sees_is_read_by_its_inner_configuration(tmp_path: Path):
    shape = _llama(26, 1152, 4, 1, 6912, 262144, head_dim=256, model_type="gemma3_text")
    (tmp_path / "config.json").write_text(
        json.dumps({"model_type": "gemma3", "vision_config": {}, "text_config": shape})
    )
    (tmp_path / "plain.json").write_text(json.dumps(shape))
    seeing = lookup.model(str(tmp_path))
    assert seeing.parameters == lookup.model(str(tmp_path / "plain.json")).parameters
