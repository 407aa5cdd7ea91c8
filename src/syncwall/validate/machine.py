"""Model and software of a published run.

Holds `model_of` (what the columns cannot say, such as latent attention, layers of hybrids or
images, comes from the catalogue's model of that name); `software_of`, which reads the framework,
its release and its kernels from the words of a row; `switches_of`, the overlaps that this software
had or that the row states; and `unsaid`, what the row leaves to be assumed.
"""

import re
from typing import Any

from syncwall.cost.software import framework
from syncwall.describe import Cluster, Model, Software
from syncwall.describe.framework_switches import switches
from syncwall.describe.layout import Dispatcher, Shard
from syncwall.describe.lookup import model
from syncwall.validate.hardware import CannotRepresent, variant_of
from syncwall.validate.table import RunRow

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
    if family.startswith(("hybrid", "encoder", "vision")):
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
    if row.text("ffn_hidden"):
        gated = row.truth("gated_mlp")
        fields["mlp"] = {"hidden": row.whole("ffn_hidden"), "gated": gated is not False}
    elif family != "moe":
        raise CannotRepresent("the source gives no width of the feed-forward part")
    if family == "moe":
        fields["moe"] = _experts(row)
    fields |= _special(row)
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


UNKNOWN = "unknown"
"""The framework of which nothing is known."""
_OWN = re.compile(r"in-house|internal")
"""Words of software that nobody else has, whatever it resembles."""
_FAMILIES = (
    (r"megatron-deepspeed|gpt-neox", "megatron-deepspeed"),
    (r"automodel", "nemo-automodel"),
    (r"bridge", "megatron-bridge"),
    (r"megatron-core|nemo(?! megatron)|mlperf", "megatron-core"),
    (r"mega", "megatron-lm"),
    (r"nanotron", "nanotron"),
    (r"internevo", "internevo"),
    (r"llm-foundry|composer|mosaic", "llm-foundry"),
    (r"torchtitan", "torchtitan"),
    (r"deepspeed", "deepspeed"),
    (
        r"pytorch|fsdp(?!\+)|torchtune|lit-?gpt|hugging ?face|accelerate|transformers|lightning"
        r"|olmo",
        "pytorch",
    ),
    (r"paxml", "paxml"),
    (r"maxtext|jax|levanter|easylm", "maxtext"),
)
_MLPERF = {"3.0": "2023-06", "3.1": "2023-10", "4.0": "2024-05", "4.1": "2024-10",
           "5.0": "2025-05", "5.1": "2025-10"}  # fmt: skip

_PYTORCH = {"2.0": "2023-03", "2.1": "2023-10", "2.2": "2024-01", "2.3": "2024-04",
            "2.4": "2024-07", "2.5": "2024-10", "2.6": "2025-01", "2.7": "2025-04",
            "2.8": "2025-08", "2.9": "2025-10", "2.10": "2026-01"}  # fmt: skip


def software_of(row: RunRow) -> Software:
    """Framework, date and kernels of a run."""
    words = f"{row.text('framework')} {row.text('options')}".lower()
    stated: dict[str, Any] = {"framework": _family(row) or UNKNOWN, "date": _date(row)}
    if re.search(r"fa ?2|flash-attn-2|flash-?attention-?2|sdpa", words):
        stated["attention"] = "flash-2"
    if re.search(r"fa ?3|fa ?4|flash-attn-3|minimal_flash", words):
        stated["attention"] = "flash-3"
    if re.search(r"no compile|\beager\b|(not |un)fused", words):
        stated["kernels"] = "eager"
    elif re.search(r"torch\.compile|liger|transformer.?engine|\bte\b|deepep|hybridep", words):
        stated["kernels"] = "fused"
    if re.search(r"deepep|grouped.?(gemm|mm|mlp)", words) or row.whole("ep", 1) > 1:
        stated["expert_kernels"] = "grouped"  # a loop of the host knows no other ranks
    stated |= _graphs(words)
    scalings = {r"row-?wise": "row", r"block-?wise|block scaling": "block"}
    for pattern, scaling in scalings.items():
        if re.search(pattern, words):
            stated["fp8_scaling"] = scaling
    return Software.model_validate(stated)


def switches_of(row: RunRow, software: Software, shard: Shard) -> dict[str, Any]:
    """The layout's switches: the framework's, or what the row states."""
    family = framework(software.framework)
    stated: dict[str, Any] = switches(family, software.date, shard, software)
    stated.pop("gradient_dtype", None)
    words = row.text("options").lower()
    stated |= _exchange(words)
    if "overlaps off" in words:
        return stated | {name: False for name in stated if name.startswith(("overlap", "async"))}
    if re.search(r"async ?tp|tp-comm-overlap|tp/pp/dp overlap", words):
        stated["overlap_tp"] = "tp-comm-overlap off" not in words
    if "tp/pp/dp overlap" in words:
        stated["overlap_pp"] = stated["overlap_gradients"] = True
    return stated


def _graphs(words: str) -> dict[str, Any]:
    """CUDA graphs, as far as the words tell; a preset that is listed has no others."""
    if "full_iteration" in words or re.search(r"mlperf v[5-9]", words):
        return {"graphs": "full"}
    if re.search(r"cuda_graph_scope=\[[^\]]*attn|graphs attn", words):
        return {"graphs": "attention"}
    if re.search(r"cuda_graph_scope=\[[^\]]*moe_router", words):
        return {"graphs": "router"}
    none = "preset=" in words or "cuda graphs off" in words
    return {"graphs": "none"} if none else {}


def _exchange(words: str) -> dict[str, Any]:
    """How experts exchange tokens, as far as the words tell; a preset that is listed says all."""
    stated: dict[str, Any] = {}
    if "preset=" in words:
        stated = {"dispatcher": Dispatcher.ALL_TO_ALL, "overlap_ep": False}
    if "hybridep" in words:
        stated["dispatcher"] = Dispatcher.HYBRIDEP
    elif re.search(r"deepep|dualpipe", words):
        stated["dispatcher"] = Dispatcher.DEEPEP
    elif re.search(r"alltoall dispatcher|dispatcher=a2a|tokendrop", words):
        stated["dispatcher"] = Dispatcher.ALL_TO_ALL
    elif re.search(r"all-?gather dispatcher|dispatcher=all-?gather", words):
        stated["dispatcher"] = Dispatcher.ALL_GATHER
    if re.search(r"a2a_overlap=true|1f1b overlap|dualpipe", words):
        stated["overlap_ep"] = True
    return stated


def _family(row: RunRow) -> str | None:
    """The framework that the row names; None if that is none of ours."""
    words = row.text("framework").lower()
    known = (name for pattern, name in _FAMILIES if re.search(pattern, words))
    return None if _OWN.search(words) else next(known, None)


def unsaid(row: RunRow, cluster: Cluster) -> tuple[str, ...]:
    """What a prediction must assume: "framework", "device" (its variant) or "fabric"."""
    rate, several = row.number("inter_gbps_per_gpu"), cluster.gpus > cluster.domain_gpus
    assumed = {
        "framework": _family(row) is None,
        "device": variant_of(row) is None,
        "fabric": several and not rate,
    }
    return tuple(name for name, is_assumed in assumed.items() if is_assumed)


def _date(row: RunRow) -> str | None:
    """Month of the release that the row names; else the middle of the year."""
    words = row.text("framework")
    round_ = re.search(r"MLPerf v(\d\.\d)", words)
    if round_ and round_[1] in _MLPERF:
        return _MLPERF[round_[1]]
    torch = re.search(r"PyTorch (2\.\d+)", words)
    if torch and torch[1] in _PYTORCH:
        return _PYTORCH[torch[1]]
    release = re.search(r"\b(2\d)\.(0[1-9]|1[0-2])\b", words)
    if release:
        return f"20{release[1]}-{release[2]}"
    return f"{row.whole('year')}-06" if row.text("year") else None
