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
    "vocab_size": 128, "hidden_size": 64, "num_hidden_layers": 2, "num_attention_heads": 4,
    "intermediate_size": 96, "max_position_embeddings": 64,
}  # fmt: skip
EXPERTS = {"num_experts_per_tok": 2, "moe_intermediate_size": 32}
MODELS: dict[str, dict[str, Any]] = {
    "Qwen3": {**SMALL, "num_key_value_heads": 2, "head_dim": 16},
    "Mixtral": {**SMALL, "num_key_value_heads": 2, "num_local_experts": 4},
    "Qwen3Moe": {**SMALL, **EXPERTS, "num_key_value_heads": 2, "num_experts": 4, "head_dim": 16},
    "Gemma3": {**SMALL, "num_key_value_heads": 2, "head_dim": 16},
    "Bert": {**SMALL, "attention_probs_dropout_prob": 0.0},
    "Mamba2": {
        "vocab_size": 128, "hidden_size": 64, "num_hidden_layers": 2, "num_heads": 8,
        "head_dim": 16, "state_size": 16, "n_groups": 1, "chunk_size": 8,
    },
    "T5": {
        "vocab_size": 128, "d_model": 64, "d_kv": 16, "d_ff": 96, "num_layers": 2, "num_heads": 4,
        "decoder_start_token_id": 0, "dropout_rate": 0.0,
    },
}  # fmt: skip
CLASSES = {
    "Bert": "BertForMaskedLM", "T5": "T5ForConditionalGeneration", "Gemma3": "Gemma3ForCausalLM",
}  # fmt: skip
CONFIGS = {"Gemma3": "Gemma3TextConfig"}


def model(name):
    config = getattr(transformers, CONFIGS.get(name, f"{name}Config"))(**MODELS[name])
    return getattr(transformers, CLASSES.get(name, f"{name}ForCausalLM"))(config)


def loss(model, device):
    tokens = torch.ones(2, 32, dtype=torch.int64, device=device)
    return model(input_ids=tokens, labels=tokens).loss


NOT_COMPARED = ("attention", "grouped_mm", "convolution_backward")
"""What the counter misses, or has too much of: gradients of weights in groups."""


@pytest.mark.parametrize("name", MODELS)
def test_flops_are_those_of_real_tensors(name):
    left_out = (*NOT_COMPARED, *(["bmm"] if name == "T5" else []))  # the CPU composes its attention
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
        if isinstance(call.what, Gemm | Convolution)
        and not any(part in call.name for part in left_out)
    )
    assert flops == pytest.approx(counted, rel=1e-3)
    has_attention = any(isinstance(call.what, CoreAttention) for call in rank)
    assert has_attention == (name != "Mamba2")
