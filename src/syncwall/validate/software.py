"""Which software a published run used.

Holds `software_of`, which reads the framework, its release and its kernels from the words of a row,
and `switches_of`, the overlaps that this software had or that the row states.
"""

import re
from typing import Any

from syncwall.cost.software import framework
from syncwall.describe import Software
from syncwall.describe.framework_switches import switches
from syncwall.describe.layout import Shard
from syncwall.validate.row import Row

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
