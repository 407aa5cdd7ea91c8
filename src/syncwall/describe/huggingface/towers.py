"""Vision towers of Hugging Face in front of decoders, as the key `encoder` of `Model`.

Holds `TOWERS`, from the `model_type` of a whole model to what reads its `vision_config`,
`decoder_of` and `with_tower`, which put its decoder and the tower together, and `DECODERS`, which
reads the decoder where it is not named. Nothing is frozen, as `transformers` builds it. How many
images a sample has, and of how many pixels where a model takes any, no file says: one image of at
most `IMAGE_SIDE` pixels a side is assumed.
"""

from collections.abc import Callable
from typing import Any, Final

from syncwall.describe.huggingface.config import Config, Fields
from syncwall.describe.huggingface.dense import llama, mistral, qwen2, qwen3

IMAGE_SIDE: Final = 560
"""Pixels of a side where a model takes images of any size: as many as 640 x 480 have (COCO, Lin
2014), and whole patches of 14, 16 and 28 pixels; else the nearest size with whole ones."""
NEXT_TILES: Final = 5
"""Tiles of an image of LLaVA-NeXT: the whole, and four parts of it (2 x 2, the largest of the
published `image_grid_pinpoints`)."""
LLAMA_DEFAULTS: Final = {
    "hidden_size": 4096,
    "num_hidden_layers": 32,
    "num_attention_heads": 32,
    "intermediate_size": 11008,
    "vocab_size": 32000,
}
"""What published files of LLaVA leave out: `LlamaConfig` has it so."""


def decoder_of(whole: dict[str, Any], text: dict[str, Any]) -> dict[str, Any]:
    """The inner configuration `text` with what it takes from the `whole`, or leaves out."""
    kind = whole["model_type"]
    known, stated = {"model_type": kind}, text
    if kind in TOWERS and whole.get("tie_word_embeddings") is not None:
        stated = text | {"tie_word_embeddings": whole["tie_word_embeddings"]}
    if kind in ("llava", "llava_next") and text.get("model_type", "llama") in ("llama", "mistral"):
        known |= LLAMA_DEFAULTS
    return known | stated


def with_tower(whole: Config, fields: Fields) -> Fields:
    """The decoder in `fields` with the tower of its configuration in front, if that has one."""
    reader = TOWERS.get(str(whole.value["model_type"]))
    vision = whole.inner("vision_config")
    if reader is None or vision is None:
        return fields
    encoder = reader(vision, whole, fields["hidden"])
    whole.problems += vision.problems
    return fields | {"encoder": encoder}


def _stack(c: Config, *, image: int | None = None, **patches: Any) -> Fields:
    """A tower with layer norms and biases, as CLIP and SigLIP have it."""
    size = c.whole("patch_size")
    side = c.whole("image_size") if image is None else image
    return {
        "layers": c.layers("num_hidden_layers", "depth"),
        "hidden": c.whole("hidden_size"),
        "patches": {
            "image": side,
            "size": size,
            "channels": c.whole("num_channels", "in_channels", "in_chans", default=3),
            **patches,
        },
        "attention": {
            "heads": c.whole("num_attention_heads", "num_heads"),
            "causal": False,
            "qkv_bias": True,
            "output_bias": True,
        },
        "mlp": {"hidden": c.whole("intermediate_size"), "gated": False, "bias": True},
        "norm": {"kind": "layer"},
    }


def _positions(fields: Fields) -> int:
    """Tokens of an image."""
    patches: dict[str, int] = fields["patches"]
    grid = patches["image"] // max(patches["size"], 1)
    return grid**2 + patches.get("extra_tokens", 0)


def _any_size(c: Config, merge: int = 1) -> int:
    """Pixels of a side of an image for a tower that takes any, at most as many as the file says."""
    unit = max(c.whole("patch_size") * merge, 1)
    side = min(IMAGE_SIDE, c.whole("image_size", default=IMAGE_SIDE))
    return max(round(side / unit), 1) * unit


def _clip(c: Config) -> Fields:
    """A token of the class, norms before the first layer and behind the last."""
    fields = _stack(c, extra_tokens=1, bias=False)
    fields["norm"]["embedding"] = True
    return fields | {"learned_positions": _positions(fields)}


def _siglip(c: Config) -> Fields:
    """Patches alone; a head that pools them is not read: nothing here uses it."""
    fields = _stack(c)
    return fields | {"learned_positions": _positions(fields)}


def _pixtral(c: Config, merge: int = 1) -> Fields:
    """Like a Llama that looks both ways, for images of any size."""
    fields = _stack(c, image=_any_size(c, merge), bias=False)
    fields["attention"] |= {"qkv_bias": False, "output_bias": False}
    if c.has("head_dim"):
        fields["attention"]["head_dim"] = c.whole("head_dim")
    fields["mlp"] |= {"gated": True, "bias": False}
    return fields | {"norm": {"embedding": True, "final": False}}


_STACKS: Final = {"clip_vision_model": _clip, "siglip_vision_model": _siglip, "pixtral": _pixtral}


def llava(c: Config, whole: Config, hidden: int) -> Fields:
    """CLIP, of which one of the last layers is taken, and two matrices."""
    kind = str(c.value.get("model_type", "clip_vision_model"))
    if kind not in _STACKS:
        c.complain("model_type", f'a tower of "{kind}" is not known: {", ".join(_STACKS)} are')
        kind = "clip_vision_model"
    fields = _STACKS[kind](c)
    layer = whole.value.get("vision_feature_layer", -2)
    if not isinstance(layer, int):
        whole.complain("vision_feature_layer", "the output of several layers is not described")
        layer = -2
    skip = str(whole.value.get("vision_feature_select_strategy", "default")) == "default"
    fields["idle_layers"] = -1 - layer if layer < 0 else fields["layers"] - layer
    bias = whole.flag("multimodal_projector_bias", default=True)
    return fields | {"projector": {"hidden": hidden, "bias": bias, "skip": int(skip)}}


def llava_next(c: Config, whole: Config, hidden: int) -> Fields:
    """LLaVA with an image in tiles, and a learned token at the end of each row."""
    fields = llava(c, whole, hidden)
    fields["projector"]["learned_tokens"] = 1
    return fields | {"each": NEXT_TILES}


def gemma3_tower(c: Config, whole: Config, hidden: int) -> Fields:
    """SigLIP, whose patches are averaged to 256 tokens, normed, and projected."""
    fields = _siglip(c)
    tokens = whole.whole("mm_tokens_per_image", default=256)
    pool = max(_positions(fields) // max(tokens, 1), 1)
    return fields | {"projector": {"pool": pool, "norm": "rms", "bias": False}}


def llama4_tower(c: Config, whole: Config, hidden: int) -> Fields:
    """A token of the class; four patches side by side go through three matrices."""
    c.assume(image_size=336)
    fields = _stack(c, extra_tokens=1, bias=False)
    fields["norm"]["embedding"] = True
    ratio = c.value.get("pixel_shuffle_ratio", 0.5)
    if ratio != 1 / 2:
        c.complain("pixel_shuffle_ratio", f"0.5 is described, not {ratio!r}")
    widths = (c.whole("projector_input_dim"), c.whole("projector_output_dim"))
    projector = {"merge": 4, "skip": 1, "hidden": widths, "bias": False}
    return fields | {"learned_positions": _positions(fields), "projector": projector}


def _qwen(c: Config, kind: str) -> Fields:
    """Pairs of frames as patches, an image being both of a pair; a norm before the projector."""
    merge = c.whole("spatial_merge_size", default=2)
    c.assume(patch_size=14)
    frames = c.whole("temporal_patch_size", default=2)
    fields = _stack(c, image=_any_size(c, merge), bias=False)
    fields["patches"]["channels"] *= frames
    between = merge**2 * fields["hidden"]
    projector = {"merge": merge**2, "norm": kind, "hidden": between}
    return fields | {"norm": {"kind": kind, "final": False}, "projector": projector}


def qwen2_vl(c: Config, whole: Config, hidden: int) -> Fields:
    """Layer norms and a plain MLP; every patch sees the whole image."""
    width = c.whole("embed_dim", default=1280)
    c.value = c.value | {
        "hidden_size": width,  # the file's is that of the decoder
        "intermediate_size": c.whole("mlp_ratio", default=4) * width,
    }
    return _qwen(c, "layer")


def qwen2_5_vl(c: Config, whole: Config, hidden: int) -> Fields:
    """RMS norms and a gated MLP; most layers see a window of the image."""
    fields = _qwen(c, "rms")
    fields["mlp"]["gated"] = True
    side = c.whole("window_size", default=112) // max(fields["patches"]["size"], 1)
    full = c.value.get("fullatt_block_indexes", [7, 15, 23, 31])
    every = full[0] + 1 if full else 0
    if full and full != list(range(every - 1, fields["layers"], every)):
        c.complain("fullatt_block_indexes", "full attention must come at every n-th layer")
    window = {"window": max(side**2 - 1, 1), "full_every": every}
    return fields | {"attention": fields["attention"] | window}


def qwen3_vl(c: Config, whole: Config, hidden: int) -> Fields:
    """Learned positions, and a projector for each of some earlier layers too (DeepStack)."""
    c.assume(patch_size=16)
    fields = _qwen(c, "layer")
    fields["patches"]["bias"] = True
    fields["projector"]["further"] = len(c.value.get("deepstack_visual_indexes", [8, 16, 24]))
    return fields | {"learned_positions": c.whole("num_position_embeddings", default=2304)}


def mistral3(c: Config, whole: Config, hidden: int) -> Fields:
    """Pixtral's tower; four patches side by side go through three matrices."""
    merge = whole.whole("spatial_merge_size", default=2)
    if whole.flag("multimodal_projector_bias", default=False):
        whole.complain("multimodal_projector_bias", "mistral3 with it is not supported")
    fields = _pixtral(c, merge)
    widths = (fields["hidden"], hidden)
    projector = {"merge": merge**2, "norm": "rms", "hidden": widths, "bias": False}
    return fields | {"projector": projector}


def internvl(c: Config, whole: Config, hidden: int) -> Fields:
    """A token of the class; parts of a layer are scaled, which counts as a third norm."""
    fields = _stack(c, extra_tokens=1)
    fields["attention"]["qkv_bias"] = c.flag("attention_bias", default=False)
    pooled = c.flag("use_mean_pooling", default=True)
    fields["norm"] = {"kind": "layer", "per_layer": 3, "final": not pooled}
    for flag, wanted in (("use_qk_norm", False), ("use_absolute_position_embeddings", True)):
        if c.flag(flag, default=wanted) != wanted:
            c.complain(flag, f"internvl with {flag} {str(not wanted).lower()} is not supported")
    if str(c.value.get("norm_type", "layer_norm")) != "layer_norm":
        c.complain("norm_type", "internvl with other norms than layer_norm is not supported")
    projector = {"merge": 4, "skip": 1, "hidden": hidden, "norm": "layer", "norm_merged": True}
    return fields | {"learned_positions": _positions(fields), "projector": projector}


TOWERS: Final[dict[str, Callable[[Config, Config, int], Fields]]] = {
    "gemma3": gemma3_tower,
    "internvl": internvl,
    "llama4": llama4_tower,
    "llava": llava,
    "llava_next": llava_next,
    "mistral3": mistral3,
    "qwen2_5_vl": qwen2_5_vl,
    "qwen2_vl": qwen2_vl,
    "qwen3_vl": qwen3_vl,
}
DECODERS: Final[dict[str, Callable[[Config], Fields]]] = {
    "internvl": qwen2,
    "llava": llama,
    "llava_next": llama,
    "mistral3": mistral,
    **dict.fromkeys(("qwen2_5_vl", "qwen2_5_vl_text"), qwen2),
    **dict.fromkeys(("qwen2_vl", "qwen2_vl_text"), qwen2),
    **dict.fromkeys(("qwen3_vl", "qwen3_vl_text"), qwen3),
}
