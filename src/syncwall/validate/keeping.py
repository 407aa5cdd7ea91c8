"""What a published run keeps in memory, from the words of its row.

Holds `keeping_of`: formats of gradients and states, what is recomputed by name, what waits in the
host's memory, and how the loss is computed; `gradient_dtype_of` and `document_of`.
"""

import re
from math import ceil, log2
from typing import Any

from syncwall.cost.software import framework
from syncwall.describe import Layout, Software
from syncwall.describe.choice import Dtype
from syncwall.describe.framework_switches import kept_formats
from syncwall.describe.state_formats import MasterWeights, NarrowActivations
from syncwall.validate.table import RunRow

_MODULES = {
    "core_attn": r"core_attn", "layernorm": r"norm", "mla_up_proj": r"mla_up_proj",
    "mlp": r"\bmlp\b", "moe": r"\bmoe\b", "moe_act": r"moe_act|\bact\b",
    "shared_experts": r"shared_experts",
}  # fmt: skip
"""Modules that Megatron recomputes, and the words for them."""
_NEMO_2 = "2025-01"
"""Until then recipes were those of NeMo 1."""
_SQUAD_TOKENS = 192
"""Tokens of an example of SQuAD, a paragraph with a question and its answer; assumed. 128 and 512
change no prediction by more than 1%."""
CHUNKS = 8
"""Parts in which a chunked loss is computed (torchtune's default)."""


def keeping_of(row: RunRow, software: Software, fields: dict[str, Any]) -> dict[str, Any]:
    """Fields of a layout that say what is kept; `fields` are all others."""
    words = f"{row.text('framework')} {row.text('options')}".lower()
    found: dict[str, Any] = {
        "fused_loss": fields["fused_loss"] or _is_tuned(row) or "cross-entropy fusion" in words,
        "loss_chunks": _chunks(row, words),
        "offload_optimizer": "cpu adamw" in words,
        **_recomputed(row),
    }
    dated = software.date or "9999-12"
    if "bf16-true" in words:
        found["master_weights"] = MasterWeights.NONE
    if "nemo" in words and dated < _NEMO_2 and fields["precision"] is Dtype.BF16:
        found["master_weights"] = MasterWeights.REMAINDER  # Apex's distributed Adam
    if fields["frozen_weights"] and "mlperf" in words:
        found["narrow_activations"] = (
            NarrowActivations.ACTIVATIONS
        )  # its config stores their inputs in fp8
    if "hai-llm" in words:
        found |= _HAI_LLM
    layout = Layout.model_construct(**{**fields, **found})
    return {**kept_formats(layout, framework(software.framework)), **found}


_HAI_LLM = {
    "narrow_activations": NarrowActivations.ACTIVATIONS, "moment_dtype": Dtype.BF16,
    "narrow_weights": True,
    "recompute_modules": ("layernorm", "mla_up_proj", "moe_act"),
}  # fmt: skip
"""DeepSeek-V3 report, sections 3.2.3 and 3.3.3."""


def _chunks(row: RunRow, words: str) -> int:
    """Parts of the loss; Liger's are as many as the vocabulary is wider than the model."""
    if "liger" in words:
        return int(2 ** ceil(log2(row.whole("vocab") / row.whole("hidden"))))
    return CHUNKS if "chunked" in words else 1


def _recomputed(row: RunRow) -> dict[str, Any]:
    """Modules and numbers of layers that `recompute_detail` names."""
    words = row.text("recompute_detail").lower()
    found: dict[str, Any] = {}
    modules = tuple(name for name, pattern in _MODULES.items() if re.search(pattern, words))
    if row.text("recompute") == "selective" and modules:
        found["recompute_modules"] = modules
    offloaded = re.search(r"cpu_offload_layers=(\d+)", words)
    if offloaded:
        found["offload_layers"] = int(offloaded[1])
    return found


def gradient_dtype_of(row: RunRow, precision: Dtype, software: Software) -> Dtype:
    """Format in which gradients are reduced.

    NVIDIA's performance recipes and MLPerf submissions reduce in bf16 (`grad_reduce_in_fp32=False`
    in NeMo's and Megatron-Bridge's, `grad_sync_dtype: bf16` before them).
    """
    words = row.text("options") + row.text("framework")
    if precision is Dtype.FP16:
        return Dtype.FP16
    narrow = "PURE" in words or "(fms)" in words or _is_tuned(row)
    return Dtype.BF16 if narrow else framework(software.framework).gradient_dtype


def document_of(row: RunRow) -> int | None:
    """Tokens of the documents that a sequence is packed of; None if it is one.

    Fine-tuning recipes of NeMo and Megatron-Bridge pack the examples of SQuAD (`SquadDataModule`
    in dgxc-benchmarking's llama3_finetune.py, `is_squad` in Megatron-Bridge's flop_utils.py).
    MLPerf's fine-tuning has documents as long as its sequences.
    """
    tuned = re.search(r"\b(sft|lora)\b", row.text("model").lower())
    recipe = re.search(r"\bnemo\b|bridge", row.text("framework").lower())
    return _SQUAD_TOKENS if tuned and recipe else None


def _is_tuned(row: RunRow) -> bool:
    """True for recipes that NVIDIA tuned for speed."""
    return bool(re.search(r"\bnemo\b|bridge|mlperf", row.text("framework").lower()))
