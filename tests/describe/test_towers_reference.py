"""Models that see: parameters and FLOP against what `transformers` builds, with parts frozen.

Parameters are counted on the meta device, FLOP of small models by `torch.utils.flop_counter`,
forward and as far backward as weights with `requires_grad` make it go.
"""

from pathlib import Path
from typing import Any

import pytest

from syncwall.catalogue import CatalogueKind, names
from syncwall.describe import Layout, Model, lookup
from syncwall.describe.huggingface.towers import TOWERS
from syncwall.work.flops import forward_flops
from syncwall.work.memory import step_memory
from syncwall.work.transformer_step import transformer_step
from tests.conftest import sampled
from tests.describe.towers import TINY_TOWERS, built, inputs, trained_only

pytestmark = [
    pytest.mark.slow,
    pytest.mark.filterwarnings("ignore::DeprecationWarning"),  # of torch inside transformers
    pytest.mark.filterwarnings("ignore::UserWarning"),
]

_SIGLIP = {
    "hidden_size": 1152,
    "num_hidden_layers": 27,
    "num_attention_heads": 16,
    "intermediate_size": 4304,
    "patch_size": 14,
    "image_size": 896,
    "vision_use_head": False,
}
_LLAMA_4 = {"hidden_size": 1408, "image_size": 336, "vision_output_dim": 4096}


def _gemma(layers: int, hidden: int, heads: int, kv: int, ffn: int, **more: int) -> dict[str, Any]:
    text = {
        "num_hidden_layers": layers,
        "hidden_size": hidden,
        "num_attention_heads": heads,
        "num_key_value_heads": kv,
        "intermediate_size": ffn,
        **more,
    }
    return {"text_config": text, "vision_config": _SIGLIP}


CASES: list[tuple[str, str, dict[str, Any]]] = [
    ("llava-1.5-7b", "llava", {}),
    (
        "llava-with-pixtral",
        "llava",
        {
            "vision_config": {"model_type": "pixtral"},
            "vision_feature_layer": -1,
            "vision_feature_select_strategy": "full",
            "multimodal_projector_bias": False,
        },
    ),
    ("llava-next", "llava_next", {}),
    ("qwen2-vl", "qwen2_vl", {"vision_config": {"hidden_size": 8192}}),
    (
        "qwen2.5-vl-7b",
        "qwen2_5_vl",
        {
            "text_config": {
                "hidden_size": 3584,
                "num_hidden_layers": 28,
                "num_attention_heads": 28,
                "num_key_value_heads": 4,
                "intermediate_size": 18944,
            },
            "vision_config": {"hidden_size": 1280},
        },
    ),
    (
        "qwen2.5-vl-72b",
        "qwen2_5_vl",
        {"vision_config": {"hidden_size": 1280, "intermediate_size": 3456, "out_hidden_size": 8192}},
    ),
    ("qwen3-vl", "qwen3_vl", {"vision_config": {"out_hidden_size": 4096}}),
    ("llama-4-scout-vl", "llama4", {"vision_config": _LLAMA_4}),
    (
        "llama-4-maverick-vl",
        "llama4",
        {
            "vision_config": _LLAMA_4,
            "text_config": {"num_local_experts": 128, "interleave_moe_layer_step": 2},
        },
    ),
    ("gemma-3-4b-vl", "gemma3", _gemma(34, 2560, 8, 4, 10240)),
    ("gemma-3-27b-vl", "gemma3", _gemma(62, 5376, 32, 16, 21504, head_dim=128)),
    ("mistral-small-3.1", "mistral3", {}),
    ("internvl", "internvl", {}),
    (
        "internvl-with-biases",
        "internvl",
        {"vision_config": {"attention_bias": True, "use_mean_pooling": False}},
    ),
]
STAGES = ((), ("encoder",), ("encoder", "decoder"), ("decoder",))
OTHERS = (("encoder", "projector"), ("projector",), ("projector", "decoder"))
"""What else can be frozen; compared for one model."""


@pytest.mark.parametrize(("name", "model_type", "shape"), CASES, ids=[case[0] for case in CASES])
def test_count_equals_what_transformers_builds(name, model_type, shape, tmp_path: Path):
    """From the file, and in the catalogue where that has it."""
    reference = built(model_type, shape, tmp_path, "meta")
    expected = sum(parameter.numel() for parameter in reference.parameters())
    assert lookup.model(str(tmp_path / "config.json")).parameters == expected
    if name in names(CatalogueKind.MODEL):
        assert lookup.model(name).parameters == expected


def test_every_tower_is_compared_and_has_its_flops_counted():
    assert set(TOWERS) == set(TINY_TOWERS) == {model_type for _, model_type, _ in CASES}


@pytest.mark.parametrize("model_type", sampled(TINY_TOWERS, 3))
def test_flops_equal_what_torch_counts_whatever_is_frozen(model_type, tmp_path: Path):
    real = built(model_type, TINY_TOWERS[model_type], tmp_path, "cpu")
    from torch.utils.flop_counter import FlopCounterMode

    model = lookup.model(str(tmp_path))
    given = inputs(model_type, model)
    encoder = model.encoder
    assert encoder is not None
    for frozen in STAGES + (OTHERS if model_type == "llava" else ()):
        trained_only(real, frozen)
        with FlopCounterMode(display=False) as counter:
            real(**given).loss.backward()
        counted = counter.get_total_flops()
        ours = _step_flops(model, frozen, *given["input_ids"].shape)
        assert ours == pytest.approx(counted, rel=0.005), frozen
        with_gradient = sum(one.numel() for one in real.parameters() if one.grad is not None)
        if "encoder" not in frozen:  # positions are too few to be counted in large models
            with_gradient -= encoder.learned_positions * encoder.hidden
        held = step_memory(model, _layout(frozen, 1), given["input_ids"].shape[1])
        assert held.optimizer / 12 == pytest.approx(with_gradient, rel=0.01), frozen


def _layout(frozen: tuple[str, ...], batch: int) -> Layout:
    return Layout(global_batch=batch, frozen=frozen).resolved(1)


def _step_flops(model: Model, frozen: tuple[str, ...], batch: int, seq: int) -> float:
    """Of a step, with all pairs of the decoder where its mask leaves half."""
    decoder = model.model_copy(update={"encoder": None})
    (whole, _), (masked, _) = (forward_flops(decoder, seq, square=sq) for sq in (True, False))
    step = transformer_step(model, _layout(frozen, batch), seq)
    return float(step.model_flops + 3 * batch * (whole - masked))
