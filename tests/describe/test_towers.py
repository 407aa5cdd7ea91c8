"""Configurations of models that see, as they are published: what is read, assumed and refused."""

import json
from pathlib import Path
from typing import Any

import pytest

from syncwall.describe import Model, lookup
from syncwall.describe.transformer import Projector
from syncwall.problems import InputError

CLIP = {
    "model_type": "clip_vision_model",
    "hidden_size": 1024,
    "image_size": 336,
    "patch_size": 14,
    "intermediate_size": 4096,
    "num_attention_heads": 16,
    "num_hidden_layers": 24,
}
LLAVA: dict[str, Any] = {
    "model_type": "llava",
    "text_config": {"model_type": "llama", "vocab_size": 32064},
    "vision_config": CLIP,
}
QWEN: dict[str, Any] = {
    "model_type": "qwen2_vl",
    "hidden_size": 1536,
    "num_hidden_layers": 28,
    "vocab_size": 151936,
    "num_attention_heads": 12,
    "num_key_value_heads": 2,
    "intermediate_size": 8960,
    "tie_word_embeddings": True,
    "vision_config": {
        "depth": 32,
        "embed_dim": 1280,
        "mlp_ratio": 4,
        "num_heads": 16,
        "in_chans": 3,
        "hidden_size": 1536,
        "patch_size": 14,
        "spatial_merge_size": 2,
    },
}


def _read(config: dict[str, Any], folder: Path) -> Model:
    (folder / "config.json").write_text(json.dumps(config))
    return lookup.model(str(folder))


def test_sizes_that_published_files_of_llava_leave_out_are_llamas(tmp_path: Path):
    model = _read(LLAVA, tmp_path)
    assert (model.layers, model.hidden, model.vocab) == (32, 4096, 32064)
    assert model.parameters == lookup.model("llava-1.5-7b").parameters + 2 * 64 * 4096


def test_the_layer_that_llava_reads_leaves_those_behind_it_idle(tmp_path: Path):
    for layer, idle in ((-2, 1), (-1, 0), (20, 4)):
        encoder = _read(LLAVA | {"vision_feature_layer": layer}, tmp_path).encoder
        assert encoder is not None
        assert (encoder.idle_layers, encoder.given_tokens) == (idle, 576)


def test_a_decoder_beside_its_tower_and_not_inside_is_read(tmp_path: Path):
    """As files of Qwen2-VL 2B are; of which `transformers` builds as many parameters."""
    model = _read(QWEN, tmp_path)
    assert model.parameters == 2_208_985_600
    assert model.encoder is not None
    assert model.encoder.given_tokens == 400  # 560 pixels, of which 28 are a token


def test_an_image_is_at_most_as_large_as_the_file_says(tmp_path: Path):
    smaller = QWEN | {"vision_config": QWEN["vision_config"] | {"image_size": 448}}
    encoder = _read(smaller, tmp_path).encoder
    assert encoder is not None
    assert encoder.given_tokens == 256


@pytest.mark.parametrize("config", [{"vision_config": {}}, {"vision_config": None}])
def test_without_sizes_of_a_tower_the_decoder_is_read_alone(config, tmp_path: Path):
    assert _read(LLAVA | config, tmp_path).encoder is None


@pytest.mark.parametrize(
    ("changes", "says"),
    [
        ({"vision_config": CLIP | {"model_type": "dinov2"}}, 'a tower of "dinov2" is not known'),
        ({"vision_feature_layer": [-2, -5]}, "several layers is not described"),
        ({"vision_config": CLIP | {"patch_size": None}}, '"patch_size" is missing'),
    ],
)
def test_a_tower_that_cannot_be_described_is_refused(changes, says, tmp_path: Path):
    with pytest.raises(InputError, match=says):
        _read(LLAVA | changes, tmp_path)


def test_widths_between_matrices_norms_and_further_projectors_count():
    three = Projector(merge=4, hidden=(32, 16), bias=False)
    assert three.matrices(8, 64) == [(32, 32), (16, 32), (64, 16)]
    assert three.parameters(8, 64) == 32 * 32 + 16 * 32 + 64 * 16
    one = Projector(merge=4, norm="layer")
    assert one.parameters(8, 64) == 64 * 33 + 2 * 8
    stacked = Projector(merge=4, norm="layer", further=2, learned_tokens=1)
    assert stacked.parameters(8, 64) == 64 * 33 + 2 * 8 + 2 * (64 * 33 + 2 * 32) + 64
