"""A tiny configuration of every model that sees, by its `model_type`, and how torch runs it.

Holds `TINY_TOWERS`, `PARTS`, `built`, `inputs` and `trained_only`.
"""

from pathlib import Path
from typing import Any

import pytest

from syncwall.describe import Model

Shape = dict[str, Any]
IMAGE_TOKEN, START_TOKEN, WORDS = 5, 6, 40
_TEXT: Shape = {
    "hidden_size": 256,
    "num_hidden_layers": 3,
    "num_attention_heads": 8,
    "num_key_value_heads": 2,
    "intermediate_size": 688,
    "vocab_size": 1024,
    "pad_token_id": 0,
    "bos_token_id": 1,
    "eos_token_id": 2,
}
_TOWER: Shape = {
    "hidden_size": 128,
    "num_hidden_layers": 4,
    "num_attention_heads": 4,
    "intermediate_size": 384,
    "patch_size": 14,
    "image_size": 112,
}
_QWEN: Shape = {"depth": 4, "num_heads": 4, "patch_size": 14, "image_size": 112}
_SECTIONS: Shape = {
    "rope_parameters": {"rope_type": "default", "rope_theta": 1e4, "mrope_section": [4, 6, 6]}
}
_IMAGE: Shape = {"image_token_index": IMAGE_TOKEN}
_IMAGE_ID: Shape = {"image_token_id": IMAGE_TOKEN, "vision_start_token_id": START_TOKEN}
_LLAVA: Shape = _IMAGE | {
    "text_config": _TEXT | {"model_type": "llama"},
    "vision_config": _TOWER | {"model_type": "clip_vision_model"},
    "image_seq_length": 64,
}

TINY_TOWERS: dict[str, Shape] = {
    "gemma3": _IMAGE
    | {
        "text_config": _TEXT | {"head_dim": 32, "sliding_window": 64},
        "vision_config": _TOWER | {"vision_use_head": False},
        "mm_tokens_per_image": 16,
    },
    "internvl": {
        "text_config": _TEXT | {"model_type": "qwen2"},
        "image_token_id": IMAGE_TOKEN,
        "vision_config": _TOWER | {"image_size": [112, 112], "patch_size": [14, 14]},
        "image_seq_length": 16,
    },
    # transformers sends every token through every expert, most of them multiplied by zero
    "llama4": _IMAGE
    | {
        "text_config": _TEXT
        | {
            "head_dim": 32,
            "num_hidden_layers": 4,
            "intermediate_size_mlp": 512,
            "interleave_moe_layer_step": 2,
            "num_local_experts": 4,
            "num_experts_per_tok": 4,
        },
        "vision_config": _TOWER
        | {
            "intermediate_size": 512,
            "projector_input_dim": 160,
            "projector_output_dim": 160,
            "vision_output_dim": 160,
        },
    },
    "llava": _LLAVA,
    "llava_next": _LLAVA
    | {
        "vision_config": _LLAVA["vision_config"] | {"image_size": 56},
        "image_seq_length": 16,
        "image_grid_pinpoints": [[112, 112]],
    },
    "mistral3": _IMAGE
    | {
        "text_config": _TEXT | {"model_type": "mistral", "head_dim": 32},
        "vision_config": _TOWER | {"model_type": "pixtral", "head_dim": 32},
    },
    "qwen2_5_vl": _IMAGE_ID
    | {
        "text_config": _TEXT | _SECTIONS,
        "vision_config": _QWEN
        | {
            "hidden_size": 128,
            "intermediate_size": 384,
            "out_hidden_size": 256,
            "fullatt_block_indexes": [1, 3],
            "image_size": 224,
        },
    },
    "qwen2_vl": _IMAGE_ID
    | {"text_config": _TEXT | _SECTIONS, "vision_config": _QWEN | {"embed_dim": 128, "hidden_size": 256}},
    "qwen3_vl": _IMAGE_ID
    | {
        "text_config": _TEXT | _SECTIONS | {"head_dim": 32},
        "vision_config": _QWEN
        | {
            "hidden_size": 128,
            "intermediate_size": 384,
            "out_hidden_size": 256,
            "deepstack_visual_indexes": [1],
            "num_position_embeddings": 256,
        },
    },
}
BATCH = dict.fromkeys(TINY_TOWERS, 2) | {"mistral3": 1}
"""Samples; eager attention of Pixtral computes scores between images, which others do not."""
PARTS = {
    "projector": ("multi_modal_projector", "merger", "vision_adapter", "image_newline"),
    "decoder": ("language_model", "lm_head"),
}
"""Names of modules of `transformers` by the part of a model; all others are the encoder's."""


def built(model_type: str, shape: Shape, folder: Path, device: str) -> Any:
    """The model as `transformers` builds it; its configuration is in `folder`."""
    torch = pytest.importorskip("torch", reason="torch is not installed")
    transformers = pytest.importorskip("transformers", reason="transformers is not installed")
    config = transformers.AutoConfig.for_model(model_type, **shape)
    config.save_pretrained(folder)
    experts = {"experts_implementation": "eager"} if model_type == "llama4" else {}
    with torch.device(device):
        return transformers.AutoModelForImageTextToText.from_config(
            config, attn_implementation="eager", **experts
        )


def inputs(model_type: str, model: Model) -> dict[str, Any]:
    """A batch of samples, each an image and some words."""
    import torch

    encoder, batch = model.encoder, BATCH[model_type]
    assert encoder is not None and encoder.patches is not None  # noqa: PT018
    projector, patches = encoder.projector, encoder.patches
    assert projector is not None
    side, grid = patches.image, patches.image // patches.size
    count = (patches.tokens - projector.skip) // (projector.merge * projector.pool)
    if model_type == "llava_next":  # the whole image, and its parts with a token for each new line
        count += (2 * grid) ** 2 + 2 * grid
    tokens = torch.randint(10, 1000, (batch, count + WORDS))
    tokens[:, 4 : 4 + count] = IMAGE_TOKEN
    is_image = (tokens == IMAGE_TOKEN).long()
    sizes = torch.tensor([[2 * side if encoder.each > 1 else side] * 2] * batch)
    given = {"input_ids": tokens, "labels": tokens.clone()}
    if model_type.startswith("qwen"):
        pixels = torch.rand(batch * grid * grid, patches.width)
        where = torch.tensor([[1, grid, grid]] * batch)
        return given | {"pixel_values": pixels, "image_grid_thw": where, "mm_token_type_ids": is_image}
    tiles = (batch, encoder.each) if encoder.each > 1 else (batch,)
    given["pixel_values"] = torch.rand(*tiles, 3, side, side)
    if model_type == "gemma3":
        given["token_type_ids"] = is_image
    if model_type in ("llava_next", "mistral3"):
        given["image_sizes"] = sizes
    return given


def trained_only(real: Any, frozen: tuple[str, ...]) -> None:
    """Take gradients away from the weights of `frozen` parts."""
    for name, parameter in real.named_parameters():
        part = next((part for part, words in PARTS.items() if any(w in name for w in words)), None)
        parameter.requires_grad_((part or "encoder") not in frozen)
        parameter.grad = None
