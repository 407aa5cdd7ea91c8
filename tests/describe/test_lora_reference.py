"""Parameters of adapters against those that PEFT makes."""

from pathlib import Path
from typing import Any

import pytest

from syncwall.describe import lookup
from syncwall.describe.switches import Lora
from tests.describe.adapters import adapter_parameters

pytestmark = [
    pytest.mark.slow,
    pytest.mark.filterwarnings("ignore::DeprecationWarning"),  # of torch inside transformers
    pytest.mark.filterwarnings("ignore::UserWarning"),
]

SMALL: dict[str, Any] = {
    "hidden_size": 256,
    "num_attention_heads": 8,
    "num_key_value_heads": 2,
    "num_hidden_layers": 3,
    "intermediate_size": 688,
    "vocab_size": 1024,
    "pad_token_id": 0,
}
LATENT = {
    "num_key_value_heads": 8,
    "q_lora_rank": 64,
    "kv_lora_rank": 32,
    "qk_nope_head_dim": 16,
    "v_head_dim": 32,
    "qk_rope_head_dim": 16,
    "n_routed_experts": 4,
    "num_experts_per_tok": 2,
    "n_group": 1,
    "topk_group": 1,
    "moe_intermediate_size": 128,
    "first_k_dense_replace": 1,
}
MODELS = {
    "llama": SMALL,
    "qwen2": SMALL,
    "qwen3": SMALL | {"head_dim": 32},
    "gemma": SMALL | {"head_dim": 64},
    "mistral": SMALL,
    "starcoder2": SMALL,
    "deepseek_v3": SMALL | LATENT,
    "mixtral": SMALL | {"num_local_experts": 4, "num_experts_per_tok": 2},
}

EXPERTS = ("deepseek_v3", "mixtral")


@pytest.mark.filterwarnings("ignore:.is_gradient_checkpointing:FutureWarning")  # by peft
@pytest.mark.parametrize("name", MODELS)
@pytest.mark.parametrize("targets", ["all-linear", "q_proj v_proj", "o_proj"])
def test_trained_parameters_are_those_of_peft(name, targets, tmp_path: Path):
    transformers = pytest.importorskip("transformers", reason="transformers is not installed")
    peft = pytest.importorskip("peft", reason="peft is not installed")
    if name in EXPERTS and targets != "o_proj":
        pytest.skip("only attention may be named, and its queries may go through a low rank")
    if name == "starcoder2" and targets == "all-linear":
        names = ["q_proj", "k_proj", "v_proj", "o_proj", "c_fc", "c_proj"]
    else:
        names = targets if targets == "all-linear" else targets.split()  # as LoraConfig takes them
    config = transformers.AutoConfig.for_model(name, **MODELS[name])
    config.save_pretrained(tmp_path)
    base = transformers.AutoModelForCausalLM.from_config(config)
    made = peft.get_peft_model(base, peft.LoraConfig(r=16, target_modules=names, task_type="CAUSAL_LM"))
    trained = sum(one.numel() for one in made.parameters() if one.requires_grad)
    lora = Lora.model_validate({"rank": 16, "targets": targets.split()})
    assert adapter_parameters(lookup.model(str(tmp_path)), lora) == trained
