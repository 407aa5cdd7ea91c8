"""The model of a published run: the shapes that its row states, or a model of the catalogue."""

import re
from typing import Any, Final

from syncwall.describe import Model
from syncwall.describe.lookup import model
from syncwall.validate.table import RunRow


class CannotRepresent(ValueError):  # noqa: N818 - it reads as what it says
    """A row describes something that syncwall has no words for; the message says what."""


_UNSAID = ("router_bias", "expert_bias", "clamped", "node_limit")
"""What the columns do not tell of experts."""
_SPECIAL = (
    (r"deepseek-?v3", "deepseek-v3"),
    (r"deepseek-?v2", "deepseek-v2"),
    (r"kimi", "kimi-k2"),
    (r"gpt.?oss", "gpt-oss-120b"),
)


_NAMED = (
    (r"nemotron.?h.?8b", "nemotron-h-8b"),
    (r"nemotron.?h.?47b", "nemotron-h-47b"),
    (r"nemotron.?h.?56b", "nemotron-h-56b"),
    (r"nemotron.?nano.?9b.?v2", "nemotron-nano-2-9b"),
    (r"nemotron.?nano.?12b.?v2", "nemotron-nano-2-12b"),
    (r"nemotron.?3.?nano", "nemotron-3-nano"),
    (r"nemotron.?3.?super", "nemotron-3-super"),
    (r"nemotron.?3.?ultra", "nemotron-3-ultra"),
    (r"qwen3.?next.?80b", "qwen3-next-80b-a3b"),
    (r"kimi.?linear", "kimi-linear-48b-a3b"),
    (r"minimax.?(text.?01|m1)", "minimax-text-01"),
    (r"bert.?large", "bert-large"),
    (r"vit.?b/16", "vit-b-16"),
    (r"vit.?g/14", "vit-g-14"),
    (r"t5.?v1\.1.?(small|large|xxl|xl)", r"t5-v1.1-\1"),
)
"""Models of which the columns do not say enough: mixers and pattern of layers, encoders, images."""


def model_of(row: RunRow) -> Model:
    """The transformer that a row describes."""
    family = row.text("family")
    if not row.text("layers") and not row.text("hidden"):
        return model(row.text("model"))
    if family == "encoder" and not row.text("vocab") and re.match(r"(vit|deit)", row.text("model").lower()):
        family = "vit"  # of images, not of words
    if family in _SHAPES:
        return _reshaped(row, family)
    if family.startswith(("hybrid", "encoder", "vision", "dit", "clip")):
        return _named(row)
    for column in ("layers", "hidden", "heads", "vocab"):
        if not row.text(column):
            raise CannotRepresent(f"the source gives no {column}")
    heads = row.whole("heads")
    fields: dict[str, Any] = {
        "name": row.text("model"),
        "layers": row.whole("layers"),
        "hidden": row.whole("hidden"),
        "vocab": row.whole("vocab"),
        "attention": {"heads": heads, "kv_heads": row.whole("kv_heads", heads)},
    }
    if row.text("head_dim"):
        fields["attention"]["head_dim"] = row.whole("head_dim")
    if row.text("sliding_window"):
        fields["attention"]["window"] = row.whole("sliding_window")
    if row.text("ffn_hidden"):
        gated = row.truth("gated_mlp")
        fields["mlp"] = {"hidden": row.whole("ffn_hidden"), "gated": gated is not False}
    elif family != "moe":
        raise CannotRepresent("the source gives no width of the feed-forward part")
    if family == "moe":
        fields["moe"] = _experts(row)
    fields |= _of_its_kind(row) | _special(row)
    return Model.model_validate(fields)


_ROTARY = re.compile(r"rope|rotary|neox|pythia|falcon|nemotron|nanochat|rms|qk.?norm")
"""Words of decoders whose MLP has no gate, and which yet turn queries and keys."""


def _of_its_kind(row: RunRow) -> dict[str, Any]:
    """Norms and positions of a decoder whose MLP has no gate: those of GPT-2, unless it is named."""
    words = f"{row.text('model')} {row.text('options')}".lower()
    if row.truth("gated_mlp") is not False:
        return {}
    rotary = _ROTARY.search(words)
    norm = "rms" if re.search(r"nanochat|rms|qk.?norm", words) else "layer"
    return {"norm": {"kind": norm}, "learned_positions": 0 if rotary else row.whole("seq_len")}


_SHAPES: Final = {"encoder": "bert-large", "vit": "vit-b-16"}
"""Families whose other sizes are those of one model of the catalogue, in another size."""


def _reshaped(row: RunRow, family: str) -> Model:
    """An encoder or a vision transformer with the sizes of the row."""
    base = model(_SHAPES[family])
    assert base.mlp is not None
    fields: dict[str, Any] = {name: getattr(base, name) for name in base.model_fields_set}
    fields |= {"name": row.text("model"), "layers": row.whole("layers"), "hidden": row.whole("hidden")}
    fields["attention"] = base.attention.model_copy(update={"heads": row.whole("heads"), "kv_heads": None})
    fields["mlp"] = base.mlp.model_copy(update={"hidden": row.whole("ffn_hidden", 4 * row.whole("hidden"))})
    if base.patches is not None:
        pixels = re.search(r"(?<!\d)\d{3}(?!\d)", row.text("model"))  # ViT-B/16 384
        image = int(pixels[0]) if pixels else base.patches.image
        side = image // round((row.whole("seq_len") - base.patches.extra_tokens) ** 0.5)
        fields["patches"] = base.patches.model_copy(update={"image": image, "size": side})
        fields["learned_positions"] = row.whole("seq_len")
    elif row.text("vocab"):
        fields["vocab"] = row.whole("vocab")
        fields["learned_positions"] = max(row.whole("seq_len"), base.learned_positions or 0)
    return Model.model_validate(fields)


def _named(row: RunRow) -> Model:
    """The catalogue's model of that name; what the row does state must agree with it."""
    name = row.text("model").lower()
    matches = ((re.search(pattern, name), known) for pattern, known in _NAMED)
    known = next((match.expand(known) for match, known in matches if match), None)
    if known is None:
        what = "hybrid's" if row.text("family").startswith("hybrid") else f"{row.text('family')}'s"
        raise CannotRepresent(f"the columns do not tell a {what} layers, nor does its name")
    found = model(known)
    for column in ("layers", "hidden"):
        has = getattr(found, column)
        if row.text(column) and row.whole(column) != has:
            raise CannotRepresent(f"{known} has {column} {has}, not {row.whole(column)}")
    return found


def _experts(row: RunRow) -> dict[str, Any]:
    layers, dense = row.whole("layers"), row.whole("moe_dense_layers", 0)
    alternating = dense > 0 and dense * 2 == layers
    experts = {
        "experts": row.whole("moe_experts"),
        "top_k": row.whole("moe_topk"),
        "hidden": row.whole("moe_ffn_hidden"),
        "shared_hidden": row.whole("moe_shared_ffn", 0),
    }
    return experts | ({"every": 2} if alternating else {"dense_first": dense})


def _special(row: RunRow) -> dict[str, Any]:
    """Attention of a kind that the columns do not tell."""
    name = row.text("model").lower()
    words = f"{name} {row.text('options').lower()}"
    for pattern, known in _SPECIAL:
        if re.search(pattern, name):
            base = model(known)
            fields: dict[str, Any] = {"attention": base.attention, "norm": base.norm}
            if base.moe is not None:
                fields["moe"] = _experts(row) | {n: getattr(base.moe, n) for n in _UNSAID}
            if row.whole("layers") == base.layers and not re.search("w/o mtp|mtp off", words):
                fields["mtp_layers"] = base.mtp_layers  # as it is published and trained
            return fields
    return {}
