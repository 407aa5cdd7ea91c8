"""Models of Hugging Face: FLOPs are those that PyTorch counts on real tensors."""

from typing import Any

import pytest

torch = pytest.importorskip("torch", reason="torch is not installed")
transformers = pytest.importorskip("transformers", reason="transformers is not installed")

from torch.utils.flop_counter import FlopCounterMode  # noqa: E402

from syncwall.work.operations import Convolution, CoreAttention, Gemm  # noqa: E402
from tests.capture.programs import recorded, train  # noqa: E402

pytestmark = pytest.mark.slow

SMALL = {
    "vocab_size": 128,
    "hidden_size": 64,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "intermediate_size": 96,
    "max_position_embeddings": 64,
}
EXPERTS = {"num_experts_per_tok": 2, "moe_intermediate_size": 32}
MODELS: dict[str, dict[str, Any]] = {
    "Qwen3": {**SMALL, "num_key_value_heads": 2, "head_dim": 16},
    "Mixtral": {**SMALL, "num_key_value_heads": 2, "num_local_experts": 4},
    "Qwen3Moe": {**SMALL, **EXPERTS, "num_key_value_heads": 2, "num_experts": 4, "head_dim": 16},
    "Gemma3": {**SMALL, "num_key_value_heads": 2, "head_dim": 16},
    "Bert": {**SMALL, "attention_probs_dropout_prob": 0.0},
    "Mamba2": {
        "vocab_size": 128,
        "hidden_size": 64,
        "num_hidden_layers": 2,
        "num_heads": 8,
        "head_dim": 16,
        "state_size": 16,
        "n_groups": 1,
        "chunk_size": 8,
    },
    "T5": {
        "vocab_size": 128,
        "d_model": 64,
        "d_kv": 16,
        "d_ff": 96,
        "num_layers": 2,
        "num_heads": 4,
        "decoder_start_token_id": 0,
        "dropout_rate": 0.0,
    },
    "DeepseekV3": {
        **SMALL,
        **EXPERTS,
        "num_key_value_heads": 4,
        "n_routed_experts": 4,
        "n_group": 2,
        "topk_group": 1,
        "first_k_dense_replace": 1,
        "q_lora_rank": 32,
        "kv_lora_rank": 16,
        "qk_nope_head_dim": 16,
        "qk_rope_head_dim": 8,
        "v_head_dim": 16,
    },
    "GptOss": {
        **SMALL,
        "num_key_value_heads": 2,
        "head_dim": 16,
        "num_local_experts": 4,
        "num_experts_per_tok": 2,
    },
    "Whisper": {
        "vocab_size": 128,
        "d_model": 64,
        "encoder_layers": 2,
        "decoder_layers": 2,
        "encoder_attention_heads": 4,
        "decoder_attention_heads": 4,
        "encoder_ffn_dim": 96,
        "decoder_ffn_dim": 96,
        "num_mel_bins": 16,
        "max_source_positions": 32,
        "max_target_positions": 32,
        "pad_token_id": 0,
        "decoder_start_token_id": 1,
    },
}
CLASSES = {
    "Bert": "BertForMaskedLM",
    "T5": "T5ForConditionalGeneration",
    "Gemma3": "Gemma3ForCausalLM",
    "Whisper": "WhisperForConditionalGeneration",
}
CONFIGS = {"Gemma3": "Gemma3TextConfig"}


def model(name):
    config = getattr(transformers, CONFIGS.get(name, f"{name}Config"))(**MODELS[name])
    return getattr(transformers, CLASSES.get(name, f"{name}ForCausalLM"))(config)


def loss(model, device):
    tokens = torch.ones(2, 32, dtype=torch.int64, device=device)
    if hasattr(model.config, "num_mel_bins"):
        sound = torch.zeros(2, model.config.num_mel_bins, 64, device=device, dtype=torch.bfloat16)
        return model(input_features=sound, labels=tokens).loss
    return model(input_ids=tokens, labels=tokens).loss


NOT_COMPARED = ("attention", "grouped_mm", "convolution_backward")
"""What the counter misses, or has too much of: gradients of weights in groups."""


COMPOSED = ("T5", "DeepseekV3")
"""Models whose attention the CPU composes of products: a bias, or values narrower than keys."""
EXPERT_LAYERS = {"Mixtral": (2, 96), "Qwen3Moe": (2, 32), "DeepseekV3": (1, 32), "GptOss": (2, 96)}
"""Layers with experts, and how wide these are."""


@pytest.mark.parametrize("name", EXPERT_LAYERS)
def test_each_token_meets_its_experts(name):
    layers, hidden = EXPERT_LAYERS[name]
    rank = recorded(lambda: train(model(name).bfloat16().cuda(), lambda m: loss(m, "cuda")))
    products = [c.what for c in rank if isinstance(c.what, Gemm) and "grouped_mm" in c.name]
    grouped = sum(float(gemm.flops) for gemm in products)
    copies, width = 2 * 32 * 2, 64
    assert grouped == 3 * layers * 2 * copies * 3 * width * hidden


@pytest.mark.parametrize("name", MODELS)
def test_flops_are_those_of_real_tensors(name):
    left_out = (*NOT_COMPARED, *(["bmm"] if name in COMPOSED else []))
    counter = FlopCounterMode(display=False)
    real = model(name).bfloat16()
    with counter:
        loss(real, "cpu").backward()
    counted = sum(
        flops
        for operation, flops in counter.get_flop_counts()["Global"].items()
        if not any(part in str(operation) for part in left_out)
    )
    rank = recorded(lambda: train(model(name).bfloat16().cuda(), lambda m: loss(m, "cuda")))
    flops = sum(
        call.what.flops
        for call in rank
        if isinstance(call.what, Gemm | Convolution) and not any(part in call.name for part in left_out)
    )
    assert flops == pytest.approx(counted, rel=1e-3)
    has_attention = any(isinstance(call.what, CoreAttention) for call in rank)
    assert has_attention == (name not in ("Mamba2", "GptOss"))  # sinks are composed of products
