"""The model of a published run.

Holds `model_of`. What the columns cannot say (latent attention, windows, sinks) is taken from the
catalogue's model of the same name.
"""

import re
from typing import Any

from syncwall.describe import Model
from syncwall.describe.lookup import model
from syncwall.validate.machine import CannotRepresent
from syncwall.validate.row import Row

_SPECIAL = (
    (r"deepseek-?v3", "deepseek-v3"),
    (r"deepseek-?v2", "deepseek-v2"),
    (r"kimi", "kimi-k2"),
    (r"gpt.?oss", "gpt-oss-120b"),
)


def model_of(row: Row) -> Model:
    """The transformer that a row describes."""
    family = row.text("family")
    if family.startswith("hybrid"):
        raise CannotRepresent("hybrid models (Mamba, linear attention) are not described yet")
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
    if row.text("ffn_hidden"):
        gated = row.truth("gated_mlp")
        fields["mlp"] = {"hidden": row.whole("ffn_hidden"), "gated": gated is not False}
    elif family != "moe":
        raise CannotRepresent("the source gives no width of the feed-forward part")
    if family == "moe":
        fields["moe"] = _experts(row)
    fields |= _special(row)
    return Model.model_validate(fields)


def _experts(row: Row) -> dict[str, Any]:
    layers, dense = row.whole("layers"), row.whole("moe_dense_layers", 0)
    alternating = dense > 0 and dense * 2 == layers
    experts = {
        "experts": row.whole("moe_experts"),
        "top_k": row.whole("moe_topk"),
        "hidden": row.whole("moe_ffn_hidden"),
        "shared_hidden": row.whole("moe_shared_ffn", 0),
    }
    return experts | ({"every": 2} if alternating else {"dense_first": dense})


def _special(row: Row) -> dict[str, Any]:
    """Attention of a kind that the columns do not tell."""
    name = row.text("model").lower()
    for pattern, known in _SPECIAL:
        if re.search(pattern, name):
            base = model(known)
            fields: dict[str, Any] = {"attention": base.attention, "norm": base.norm}
            if base.mtp_layers and "w/ mtp" in name:
                fields["mtp_layers"] = base.mtp_layers
            return fields
    return {}
