"""A tiny configuration of every architecture, by its `model_type`: small enough to be trained here.

Holds `TINY`, and `VARIANTS` of architectures whose configurations switch parts on and off.
"""

from typing import Any

Shape = dict[str, Any]

_TOKENS: Shape = {"pad_token_id": 0, "bos_token_id": 1, "eos_token_id": 2}
_PLAIN: Shape = _TOKENS | {
    "hidden_size": 256,
    "num_hidden_layers": 3,
    "num_attention_heads": 8,
    "intermediate_size": 688,
    "vocab_size": 1024,
}
_GROUPED: Shape = _PLAIN | {"num_key_value_heads": 2}
_WIDE: Shape = _GROUPED | {"head_dim": 48}
_GPT: Shape = _TOKENS | {
    "n_layer": 3,
    "n_embd": 256,
    "n_head": 8,
    "vocab_size": 1024,
    "n_positions": 256,
}
_EXPERTS: Shape = {"num_local_experts": 4, "num_experts_per_tok": 2}
_FINE: Shape = {"num_experts_per_tok": 2, "moe_intermediate_size": 128}
_SHARED: Shape = _FINE | {"num_experts": 4, "shared_expert_intermediate_size": 256}
_DEEPSEEK: Shape = _FINE | {
    "n_routed_experts": 4,
    "n_shared_experts": 1,
    "n_group": 1,
    "topk_group": 1,
    "first_k_dense_replace": 1,
}
_LATENT: Shape = {
    "q_lora_rank": 64,
    "kv_lora_rank": 32,
    "qk_nope_head_dim": 32,
    "qk_rope_head_dim": 16,
    "v_head_dim": 24,
    "num_key_value_heads": 8,
}
_INDEXER: Shape = {"index_n_heads": 4, "index_head_dim": 32, "index_topk": 48}
_MAMBA_2: Shape = {
    "hidden_size": 256,
    "num_attention_heads": 8,
    "num_key_value_heads": 2,
    "head_dim": 32,
    "vocab_size": 1024,
    "mamba_num_heads": 8,
    "mamba_head_dim": 64,
    "ssm_state_size": 64,
    "chunk_size": 64,
}
_DELTA: Shape = {
    "num_hidden_layers": 4,
    "linear_num_value_heads": 8,
    "linear_num_key_heads": 4,
    "linear_key_head_dim": 32,
    "linear_value_head_dim": 64,
}

TINY: dict[str, Shape] = {
    "afmoe": _WIDE | _FINE | {"num_experts": 4, "num_shared_experts": 2, "num_dense_layers": 1},
    "apertus": _GROUPED,
    "arcee": _GROUPED,
    "aria_text": _GROUPED | {"moe_num_experts": 4, "moe_topk": 2, "moe_num_shared_experts": 2},
    "bamba": _GROUPED
    | {
        "mamba_n_heads": 8,
        "mamba_d_head": 64,
        "mamba_n_groups": 2,
        "mamba_d_state": 32,
        "mamba_chunk_size": 64,
        "attn_layer_indices": [1],
    },
    "biogpt": _PLAIN,
    "bitnet": _GROUPED,
    "bloom": {"n_layer": 3, "hidden_size": 256, "n_head": 8, "vocab_size": 1024},
    "codegen": _GPT | {"rotary_dim": 16},
    "cohere": _GROUPED,
    "cohere2": _GROUPED | {"num_hidden_layers": 4, "sliding_window": 64},
    "ctrl": _GPT | {"dff": 688},
    "cwm": _GROUPED | {"sliding_window": 64},
    "dbrx": {
        "d_model": 256,
        "n_heads": 8,
        "n_layers": 3,
        "max_seq_len": 256,
        "vocab_size": 1024,
        "attn_config": {"kv_n_heads": 2, "rope_theta": 1e4, "clip_qkv": 8},
        "ffn_config": {"hidden_size": 256, "ffn_hidden_size": 688, "moe_num_experts": 4, "moe_top_k": 2},
    },
    "deepseek_v2": _PLAIN | _DEEPSEEK | _LATENT,
    "deepseek_v3": _PLAIN | _DEEPSEEK | _LATENT,
    "deepseek_v32": _PLAIN | _DEEPSEEK | _LATENT | _INDEXER,
    "dots1": _GROUPED | _DEEPSEEK,
    "ernie4_5": _WIDE,
    "ernie4_5_moe": _GROUPED
    | {"moe_num_experts": 4, "moe_k": 2, "moe_intermediate_size": 128, "moe_num_shared_experts": 2},
    "exaone4": _GROUPED | {"num_hidden_layers": 4, "sliding_window": 64},
    "exaone_moe": _GROUPED | _FINE | {"num_experts": 4, "num_shared_experts": 1, "sliding_window": 64},
    "falcon": _PLAIN,
    "falcon_mamba": {"num_hidden_layers": 3, "hidden_size": 256, "vocab_size": 1024},
    "flex_olmo": _GROUPED | {"num_experts": 4, "num_experts_per_tok": 2},
    "gemma": _WIDE,
    "gemma2": _WIDE,
    "gemma3_text": _WIDE | {"num_hidden_layers": 6, "sliding_window": 64},
    "glm": _WIDE,
    "glm4": _WIDE,
    "glm4_moe": _WIDE | _DEEPSEEK,
    "glm4_moe_lite": _PLAIN | _DEEPSEEK | _LATENT,
    "glm_moe_dsa": _PLAIN | _DEEPSEEK | _LATENT | _INDEXER,
    "gpt-sw3": _GPT,
    "gpt2": _GPT,
    "gpt_bigcode": _GPT,
    "gpt_neo": {
        "num_layers": 2,
        "hidden_size": 256,
        "num_heads": 8,
        "vocab_size": 1024,
        "attention_types": [[["global", "local"], 1]],
    },
    "gpt_neox": _PLAIN,
    "gpt_oss": _WIDE | _EXPERTS,
    "gptj": _GPT | {"rotary_dim": 16},
    "granite": _GROUPED,
    "granite_swa": _GROUPED | {"num_hidden_layers": 4, "sliding_window": 64},
    "granitemoe": _GROUPED | _EXPERTS,
    "granitemoehybrid": _GROUPED
    | _EXPERTS
    | {
        "mamba_n_heads": 8,
        "mamba_d_head": 64,
        "mamba_d_state": 32,
        "mamba_chunk_size": 64,
        "layer_types": ["mamba", "attention", "mamba"],
        "shared_intermediate_size": 128,
    },
    "granitemoeshared": _GROUPED | _EXPERTS | {"shared_intermediate_size": 128},
    "helium": _GROUPED | {"head_dim": 32},
    "hunyuan_v1_dense": _WIDE,
    "hunyuan_v1_moe": _WIDE | {"num_experts": 4, "moe_topk": 2},
    "hy_v3": _WIDE | _FINE | {"num_experts": 4, "num_shared_experts": 1},
    "hyperclovax": _GROUPED,
    "jais2": _GROUPED,
    "jamba": _GROUPED
    | {
        "num_hidden_layers": 4,
        "num_experts": 4,
        "attn_layer_period": 4,
        "attn_layer_offset": 1,
        "mamba_dt_rank": 24,
    },
    "kimi_linear": _PLAIN
    | _FINE
    | _LATENT
    | {"num_hidden_layers": 5, "num_local_experts": 4, "linear_num_heads": 8, "linear_head_dim": 32},
    "llama": _GROUPED,
    # transformers sends every token through every expert, most of them multiplied by zero
    "llama4_text": _WIDE
    | {
        "num_hidden_layers": 4,
        "intermediate_size_mlp": 512,
        "interleave_moe_layer_step": 2,
        "num_local_experts": 4,
        "num_experts_per_tok": 4,
    },
    "mamba": {"num_hidden_layers": 3, "hidden_size": 256, "vocab_size": 1024},
    "mamba2": {
        "num_hidden_layers": 3,
        "hidden_size": 256,
        "num_heads": 8,
        "head_dim": 64,
        "n_groups": 2,
        "vocab_size": 1024,
        "state_size": 64,
        "chunk_size": 64,
    },
    "mellum": _WIDE | _FINE | {"num_experts": 4},
    "minicpm3": _PLAIN | _LATENT,
    "minimax": _GROUPED | _EXPERTS | {"num_hidden_layers": 4, "block_size": 32},
    "minimax_m2": _WIDE | _EXPERTS,
    "ministral": _WIDE | {"sliding_window": 64},
    "ministral3": _WIDE,
    "mistral": _GROUPED | {"sliding_window": 64},
    "mixtral": _GROUPED | _EXPERTS,
    "mpt": {"n_layers": 3, "d_model": 256, "n_heads": 8, "vocab_size": 1024},
    "nanochat": _GROUPED,
    "nemotron": _GROUPED,
    "falcon_h1": _GROUPED
    | {
        "mamba_d_ssm": 384,
        "mamba_n_heads": 6,
        "mamba_n_groups": 2,
        "mamba_d_state": 32,
        "mamba_chunk_size": 64,
    },
    "lfm2": _GROUPED | {"full_attn_idxs": [1], "block_ff_dim": 1000, "block_multiple_of": 64},
    "nemotron_h": _MAMBA_2 | {"hybrid_override_pattern": "M-M*M-", "intermediate_size": 688},
    "olmo": _GROUPED,
    "olmo2": _GROUPED,
    "olmo3": _GROUPED | {"num_hidden_layers": 4, "sliding_window": 64},
    "olmo_hybrid": _PLAIN | _DELTA,
    "olmoe": _GROUPED | {"num_experts": 4, "num_experts_per_tok": 2},
    "openai-gpt": _GPT,
    "opt": _PLAIN | {"ffn_dim": 688, "word_embed_proj_dim": 256},
    "persimmon": _PLAIN,
    "phi": _GROUPED,
    "phi3": _GROUPED,
    "phimoe": _GROUPED | _EXPERTS,
    "qwen2": _GROUPED,
    "qwen2_moe": _GROUPED | _SHARED,
    "qwen3": _WIDE,
    "qwen3_5_moe_text": _WIDE | _SHARED | _DELTA,
    "qwen3_5_text": _WIDE | _DELTA,
    "qwen3_moe": _WIDE | _FINE | {"num_experts": 4},
    "qwen3_next": _WIDE | _SHARED | _DELTA,
    "seed_oss": _WIDE,
    "smollm3": _GROUPED,
    "solar_open": _WIDE | _DEEPSEEK | {"first_k_dense_replace": 0},
    "stablelm": _GROUPED,
    "starcoder2": _GROUPED,
    "vaultgemma": _WIDE | {"sliding_window": 64},
    "xglm": _TOKENS
    | {"d_model": 256, "ffn_dim": 688, "num_layers": 3, "attention_heads": 8, "vocab_size": 1024},
    "youtu": _PLAIN | _LATENT,
}

VARIANTS: dict[str, tuple[str, Shape]] = {
    "falcon-grouped": ("falcon", _PLAIN | {"new_decoder_architecture": True, "num_kv_heads": 2}),
    "latent-with-whole-queries": (
        "deepseek_v3",
        _PLAIN | _DEEPSEEK | _LATENT | {"q_lora_rank": None},
    ),
    "mamba-2-and-experts": (
        "nemotron_h",
        _MAMBA_2
        | {
            "hybrid_override_pattern": "MEM*E",
            "n_routed_experts": 4,
            "moe_intermediate_size": 128,
            "moe_shared_expert_intermediate_size": 256,
            "moe_latent_size": 64,
        },
    ),
    "opt-projected": (
        "opt",
        _PLAIN | {"ffn_dim": 688, "word_embed_proj_dim": 96, "do_layer_norm_before": False},
    ),
}
