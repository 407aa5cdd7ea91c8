"""Machine, model and software of a published run.

Holds `cluster_of`: the catalogue's machine with that accelerator and the NICs that the row states,
and `CannotRepresent`; `model_of` (what the columns cannot say, such as latent attention, is taken
from the catalogue's model of the same name); `software_of`, which reads the framework, its release
and its kernels from the words of a row; and `switches_of`, the overlaps that this software had or
that the row states.
"""

import os
import re
from functools import lru_cache
from typing import Any

from syncwall.catalogue import VARIABLE
from syncwall.cost.software import framework
from syncwall.describe import Cluster, Model, Software
from syncwall.describe.framework_switches import switches
from syncwall.describe.layout import Shard
from syncwall.describe.lookup import cluster, device, model
from syncwall.validate.table import Row

_MACHINES = {
    "A100": "dgx-a100", "H100": "dgx-h100", "H200": "dgx-h200", "B200": "dgx-b200",
    "B300": "dgx-b300", "GB200": "gb200-nvl72", "GB300": "gb300-nvl72", "V100": "dgx-2",
    "H800": "deepseek-h800", "L40S": "l40s-8", "MI300X": "mi300x-8", "MI325X": "mi300x-8",
    "MI350X": "mi300x-8", "MI355X": "mi300x-8",
}  # fmt: skip
_DEVICES = {"MI325X": "mi325x", "MI350X": "mi355x", "MI355X": "mi355x"}


class CannotRepresent(ValueError):  # noqa: N818 - it reads as what it says
    """A row describes something that syncwall has no words for; the message says what."""


def cluster_of(row: Row) -> Cluster:
    """The cluster that a row describes, with the nodes it used."""
    name = row.text("gpu").upper()
    kind = re.split(r"[-\s(]", name)[0]
    if kind not in _MACHINES:
        raise CannotRepresent(f"no machine with a {row.text('gpu')} is known")
    efa = "EFA" in row.text("inter_link") and kind == "H100"
    base = _base("aws-p5" if efa else _MACHINES[kind], os.environ.get(VARIABLE, ""))
    gpus, built = row.whole("gpus"), row.whole("gpus_per_node", base.node.gpus)
    used = min(gpus, built)
    if gpus % used:
        raise CannotRepresent(f"{gpus} GPUs do not fill nodes of {used}")
    node: dict[str, Any] = {"device": _device(name, kind, base), "gpus": max(built, base.node.gpus)}
    if base.node.nics:
        node["nics"] = _nics(row, base, node["gpus"])
    fields = {"name": base.name, "node": node, "scale_up": base.scale_up, "nodes": gpus // used}
    return Cluster.model_validate(fields | {"gpus_per_node": used})


@lru_cache(maxsize=32)
def _base(name: str, directories: str) -> Cluster:
    """Read once for each name and each setting of the user's catalogue directories."""
    return cluster(name)


def _device(name: str, kind: str, base: Cluster) -> Any:
    if kind == "H100" and "500W" in name:
        return device("h100-sxm-500w")
    return device(_DEVICES[kind]) if kind in _DEVICES else base.device


def _nics(row: Row, base: Cluster, gpus: int) -> dict[str, Any]:
    """One NIC a GPU at the stated rate; the machine's own where the row is silent."""
    nics = base.node.nics
    assert nics is not None
    rate = row.number("inter_gbps_per_gpu")
    bytes_per_s = rate * 1e9 / 8 if rate else nics.rate_bytes_per_s * nics.count / base.node.gpus
    words = row.text("inter_link")
    fields: dict[str, Any] = {"count": gpus, "rate": bytes_per_s, "link": nics.link}
    if "TCP" in words:
        fields["transport"] = "tcp"
    return fields


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


_FAMILIES = (
    (r"megatron-deepspeed|gpt-neox", "megatron-deepspeed"),
    (r"megatron-core|bridge|nemo(?! megatron)|mlperf", "megatron-core"),
    (r"mega", "megatron-lm"),
    (r"nanotron", "nanotron"),
    (r"internevo", "internevo"),
    (r"llm-foundry", "llm-foundry"),
    (r"torchtitan", "torchtitan"),
    (r"deepspeed", "deepspeed"),
    (r"pytorch|fsdp \(fms\)", "pytorch"),
    (r"paxml", "paxml"),
    (r"maxtext|jax", "maxtext"),
)
_MLPERF = {"3.0": "2023-06", "3.1": "2023-10", "4.0": "2024-05", "4.1": "2024-10",
           "5.0": "2025-05", "5.1": "2025-10"}  # fmt: skip


def software_of(row: Row) -> Software:
    """Framework, date and kernels of a run."""
    words = f"{row.text('framework')} {row.text('options')}".lower()
    stated: dict[str, Any] = {"framework": _family(row), "date": _date(row)}
    if re.search(r"fa ?2|flash-attn-2|flash-?attention-?2", words):
        stated["attention"] = "flash-2"
    if re.search(r"fa ?3|fa ?4|flash-attn-3|minimal_flash", words):
        stated["attention"] = "flash-3"
    if "no compile" in words or re.search(r"\beager\b", words):
        stated["kernels"] = "eager"
    elif "torch.compile" in words or "liger" in words:
        stated["kernels"] = "fused"
    if "full_iteration" in words or re.search(r"mlperf v[5-9]", words):
        stated["graphs"] = "full"
    if "rowwise" in words:
        stated["fp8_scaling"] = "row"
    return Software.model_validate(stated)


def switches_of(row: Row, software: Software, shard: Shard) -> dict[str, Any]:
    """The layout's switches: the framework's, or what the row states."""
    stated: dict[str, Any] = switches(framework(software.framework), software.date, shard)
    stated.pop("gradient_dtype", None)
    words = row.text("options").lower()
    stated["overlap_ep"] = bool(re.search(r"a2a_overlap=true|1f1b overlap|dualpipe", words))
    stated["merged_ep"] = bool(re.search(r"deepep|hybridep|dualpipe", words))
    if "overlaps off" in words:
        return stated | {name: False for name in stated if name.startswith(("overlap", "async"))}
    if re.search(r"async ?tp|tp-comm-overlap|tp/pp/dp overlap", words):
        stated["overlap_tp"] = "tp-comm-overlap off" not in words
    if "tp/pp/dp overlap" in words:
        stated["overlap_pp"] = stated["overlap_gradients"] = True
    return stated


def _family(row: Row) -> str:
    words = row.text("framework").lower()
    return next((name for pattern, name in _FAMILIES if re.search(pattern, words)), "megatron-core")


def _date(row: Row) -> str | None:
    """Month of the release that the row names; else the middle of the year."""
    words = row.text("framework")
    round_ = re.search(r"MLPerf v(\d\.\d)", words)
    if round_ and round_[1] in _MLPERF:
        return _MLPERF[round_[1]]
    release = re.search(r"\b(2\d)\.(0[1-9]|1[0-2])\b", words)
    if release:
        return f"20{release[1]}-{release[2]}"
    return f"{row.whole('year')}-06" if row.text("year") else None
