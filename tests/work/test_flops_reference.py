"""FLOP counts against `torch.utils.flop_counter` on real models, forward and backward."""

from pathlib import Path
from typing import Any

import pytest

from syncwall.describe import lookup
from syncwall.work.flops import forward_flops

pytestmark = [
    pytest.mark.slow,
    pytest.mark.filterwarnings("ignore::DeprecationWarning"),  # of torch inside transformers
    pytest.mark.filterwarnings("ignore::UserWarning"),
]

SMALL: dict[str, Any] = {
    "hidden_size": 256, "num_hidden_layers": 3, "num_attention_heads": 8,
    "num_key_value_heads": 8, "intermediate_size": 688, "vocab_size": 1024,
}  # fmt: skip
CASES = {
    "dense": ("llama", SMALL),
    "grouped-query": ("llama", SMALL | {"num_key_value_heads": 2}),
    "plain-mlp": ("gpt2", {"n_layer": 3, "n_embd": 256, "n_head": 8, "vocab_size": 1024}),
    "experts": ("mixtral", SMALL | {"num_local_experts": 4, "num_experts_per_tok": 2}),
    "shared-experts": (
        "qwen2_moe",
        SMALL | {"num_experts": 4, "num_experts_per_tok": 2, "moe_intermediate_size": 128,
                 "shared_expert_intermediate_size": 256},
    ),
    "latent": (
        "deepseek_v3",
        SMALL | {"q_lora_rank": 64, "kv_lora_rank": 32, "qk_nope_head_dim": 32, "v_head_dim": 32,
                 "qk_rope_head_dim": 16, "n_routed_experts": 4, "num_experts_per_tok": 2,
                 "n_group": 1, "topk_group": 1, "moe_intermediate_size": 128,
                 "first_k_dense_replace": 1},
    ),
}  # fmt: skip
BATCH, SEQ = 2, 128


@pytest.mark.parametrize("name", CASES)
def test_flops_equal_what_torch_counts(name, tmp_path: Path):
    torch = pytest.importorskip("torch", reason="torch is not installed")
    transformers = pytest.importorskip("transformers", reason="transformers is not installed")
    from torch.utils.flop_counter import FlopCounterMode

    model_type, shape = CASES[name]
    config = transformers.AutoConfig.for_model(model_type, **shape)
    config.save_pretrained(tmp_path)
    real = transformers.AutoModelForCausalLM.from_config(
        config, attn_implementation="eager", experts_implementation="eager"
    )
    tokens = torch.randint(0, 1000, (BATCH, SEQ))
    with FlopCounterMode(display=False) as counter:
        real(input_ids=tokens, labels=tokens).loss.backward()
    ours = 3 * BATCH * forward_flops(lookup.model(str(tmp_path)), SEQ, square=True)[0]
    assert ours == pytest.approx(counter.get_total_flops(), rel=0.005)
