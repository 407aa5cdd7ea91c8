"""Software, machine and state formats of a published run."""

import re
from functools import lru_cache
from math import ceil, log2
from pathlib import Path
from typing import Any, Final

from syncwall.catalogue import added_folders
from syncwall.cost.framework_costs import framework_or_default
from syncwall.describe import Cluster, Device, Layout, Software
from syncwall.describe.choice import Dtype
from syncwall.describe.layout import Dispatcher, Shard
from syncwall.describe.lookup import cluster, device, link
from syncwall.describe.names import varied
from syncwall.describe.software import at, kept_formats, switches
from syncwall.describe.switches import MasterWeights, NarrowActivations
from syncwall.validate.table import RunRow
from syncwall.validate.table_models import CannotRepresent

_CARDS: Final[tuple[tuple[str, str, tuple[str, ...]], ...]] = (
    (r"GB200", "gb200-nvl72", ("gb200",)),
    (r"GB300", "gb300-nvl72", ("gb300",)),
    (r"GH200", "alps", ("gh200-680w", "gh200")),
    (r"H100.*PCIE", "dgx-h100", ("h100-pcie",)),
    (r"H100.*NVL\b", "dgx-h100", ("h100-nvl",)),
    (r"H100", "dgx-h100", ("h100-sxm", "h100-sxm-500w", "h100-sxm-64")),
    (r"H200", "dgx-h200", ("h200-sxm",)),
    (r"H20\b", "dgx-h100", ("h20",)),
    (r"H800", "deepseek-h800", ("h800-sxm",)),
    (r"B200", "dgx-b200", ("b200",)),
    (r"B300", "dgx-b300", ("b300",)),
    (r"A100.*PCIE", "dgx-a100", ("a100-pcie-80", "a100-pcie-40")),
    (r"A100", "dgx-a100", ("a100-sxm-80", "a100-sxm-40", "a100-sxm-64")),
    (r"A800", "dgx-a100", ("a800-sxm-80",)),
    (r"V100.*PCIE", "l40s-8", ("v100-pcie-32", "v100-pcie-16")),
    (r"V100", "dgx-2", ("v100-sxm-32", "v100-sxm-16")),
    (r"MI250X", "frontier", ("mi250x",)),
    (r"MI300X", "mi300x-8", ("mi300x",)),
    (r"MI325X", "mi300x-8", ("mi325x",)),
    (r"MI35[05]X", "mi300x-8", ("mi355x",)),
    (r"RTX PRO 6000", "rtx-pro-6000-8", ("rtx-pro-6000",)),
    (r"(RTX )?6000 ADA", "l40s-8", ("rtx-6000-ada",)),
    (r"(RTX )?A6000", "workstation-pcie-4xa6000", ("rtx-a6000",)),
    (r"(RTX )?5090", "workstation-pcie-4x5090", ("rtx-5090",)),
    (r"(RTX )?4090", "workstation-pcie-4x4090", ("rtx-4090",)),
    (r"(RTX )?3090 TI", "workstation-pcie-4x3090", ("rtx-3090-ti",)),
    (r"(RTX )?3090", "workstation-pcie-4x3090", ("rtx-3090",)),
    (r"L40S", "l40s-8", ("l40s",)),
    (r"L40\b", "l40s-8", ("l40",)),
    (r"L20\b", "l40s-8", ("l20",)),
    (r"L4\b", "l40s-8", ("l4",)),
    (r"A40\b", "l40s-8", ("a40",)),
    (r"A30\b", "l40s-8", ("a30",)),
    (r"A10G\b", "l40s-8", ("a10g",)),
    (r"A10\b", "l40s-8", ("a10",)),
    (r"T4\b", "l40s-8", ("t4",)),
)
"""How the name of an accelerator begins, a machine that it stands in, and the devices of that name,
the usual one first."""
_LINKS: Final = (
    (r"\befa\b", "efa-v2"),
    (r"slingshot", "slingshot-11"),
    (r"omni-?path", "omni-path-100"),
    (r"infiniband|\bib\b|\bndr|\bhdr|\bxdr", "infiniband-ndr"),
    (r"roce|ethernet", "roce-400"),
)
SAME_MEMORY: Final = 0.05
"""Sizes nearer than this are equal: some count in 1e9 bytes, some in 2**30, some what is free."""


def cluster_of(row: RunRow) -> Cluster:
    """The cluster that a row describes, with the nodes it used."""
    machine, names = _card(row)
    efa = "EFA" in row.text("inter_link") and names[0] == "h100-sxm"
    base = _base("aws-p5" if efa else machine, added_folders())
    gpus, built = row.whole("gpus"), row.whole("gpus_per_node", base.node.gpus)
    used = min(gpus, built)
    if gpus % used:
        raise CannotRepresent(f"{gpus} GPUs do not fill nodes of {used}")
    if names == ("mi250x",) and built > base.node.gpus:
        raise CannotRepresent("the dies of an MI250X are not described on their own")
    chip = _device(row, names)
    links, whole = _scale_up(base, chip, built), max(built, base.node.gpus)
    whole = built if links and links["gpus"] == built else whole
    node: dict[str, Any] = {"device": chip, "gpus": whole}
    if base.node.nics or gpus > used:
        node["nics"] = _nics(row, base, whole)
    fields = {"name": base.name, "node": node, "scale_up": links, "nodes": gpus // used}
    return Cluster.model_validate(fields | {"gpus_per_node": used})


def variant_of(row: RunRow) -> str | None:
    """The device that a row means by its name and memory; None if it leaves that open."""
    names, memory = _card(row)[1], _memory_gb(row)
    if not memory:
        return None if len(names) > 1 else names[0]
    return next((name for name in names if _has_memory(device(name), memory)), None)


@lru_cache(maxsize=32)
def _base(name: str, folders: tuple[Path, ...]) -> Cluster:
    """Read once for each name and each setting of the user's catalogue directories."""
    return cluster(name)


def _card(row: RunRow) -> tuple[str, tuple[str, ...]]:
    """A machine with the accelerator that a row names, and the devices it may be."""
    words = re.sub(r"^((NVIDIA|AMD|GEFORCE|TESLA|INSTINCT)\s+)+", "", row.text("gpu").upper())
    for pattern, machine, names in _CARDS:
        if re.match(pattern, words):
            return machine, names
    raise CannotRepresent(f"no machine with a {row.text('gpu')} is known")


def _memory_gb(row: RunRow) -> float | None:
    """Memory of a device, by its column or by its name: "A100 40GB", "A100-SXM-40"."""
    named = re.search(r"(\d+) ?GB|(?:SXM|PCIE)-(\d+)\b", row.text("gpu").upper())
    return row.number("gpu_mem_gb") or (float(named[1] or named[2]) if named else None)


def _has_memory(chip: Device, gigabytes: float) -> bool:
    size = chip.memory.size_bytes
    return min(abs(gigabytes * unit / size - 1) for unit in (1e9, 2.0**30)) < SAME_MEMORY


def _device(row: RunRow, names: tuple[str, ...]) -> Device:
    """The known variant; else the usual one with the memory and the power limit that are stated."""
    known, memory = variant_of(row), _memory_gb(row)
    named = re.search(r"\b(\d{3,4}) ?W\b", row.text("gpu").upper())
    limit = row.number("power_limit_w") or (float(named[1]) if named else None)
    changes: dict[str, Any] = {}
    found = device(known or names[0])
    if known is None and memory and not _has_memory(found, memory):
        changes["memory"] = {"size": memory * 2.0**30}
    if limit and (found.tdp_w or 0) > limit != found.power_limit_w:
        changes["power_limit"] = limit
    return varied(found, changes) if changes else found


def _scale_up(base: Cluster, chip: Device, built: int) -> dict[str, Any] | None:
    """The domain of a node: that of the base, with the links that the chip has.

    Boards of four have no switch: each GPU has a third of its links to each of the others.
    """
    if base.scale_up is None:
        return None
    fields: dict[str, Any] = dict(base.scale_up)
    if chip.scale_up is None:
        rate = link(chip.pcie or "pcie-4").rate_bytes_per_s
        slot = {"topology": "pcie", "rate_bytes_per_s": rate, "link": chip.pcie}
        return fields | slot | {"in_switch_reduction": False, "gpus": built}
    if base.device.scale_up is not None:
        fields["rate_bytes_per_s"] = chip.scale_up.rate_bytes_per_s
    if built == BOARD < base.scale_up.gpus == base.node.gpus:
        fields |= {"gpus": built, "topology": "mesh", "in_switch_reduction": False}
    return fields


BOARD: Final = 4
"""GPUs of the smaller boards."""


def _nics(row: RunRow, base: Cluster, gpus: int) -> dict[str, Any]:
    """One NIC a GPU at the stated rate; the machine's own where the row is silent."""
    nics = base.node.nics
    rate, words = row.number("inter_gbps_per_gpu"), row.text("inter_link")
    if nics is None and not rate:
        raise CannotRepresent(f"the rate between nodes with a {row.text('gpu')} is not known")
    own = nics.rate_bytes_per_s * nics.count / base.node.gpus if nics else 0.0
    usual = nics.link if nics else "roce-400"
    name = next((name for pattern, name in _LINKS if re.search(pattern, words.lower())), usual)
    each = rate * 1e9 / 8 if rate else own
    fields: dict[str, Any] = {"count": gpus, "rate_bytes_per_s": each, "link": name}
    if "TCP" in words:
        fields["transport"] = "tcp"
    return fields


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
_MLPERF = {
    "3.0": "2023-06",
    "3.1": "2023-10",
    "4.0": "2024-05",
    "4.1": "2024-10",
    "5.0": "2025-05",
    "5.1": "2025-10",
}

_PYTORCH = {
    "2.0": "2023-03",
    "2.1": "2023-10",
    "2.2": "2024-01",
    "2.3": "2024-04",
    "2.4": "2024-07",
    "2.5": "2024-10",
    "2.6": "2025-01",
    "2.7": "2025-04",
    "2.8": "2025-08",
    "2.9": "2025-10",
    "2.10": "2026-01",
}


_EAGER = re.compile(
    r"no compile|not compiled|\beager\b(?! attention)|(?<!adamw )(not |un)fused(?! attention)"
)
FLASH_2 = "2023-08"
"""When the second FlashAttention was there."""
_WRITTEN_OUT = re.compile(
    r"attention written out|no flash|(unfused|eager|naive|math) attention|scores? (matrix )?materiali[sz]ed"
)
"""Words of attention whose scores go through memory."""


def _usual_attention(stated: dict[str, Any]) -> str:
    return at(framework_or_default(stated["framework"]).attention, stated["date"])


def software_of(row: RunRow) -> Software:
    """Framework, date and kernels of a run."""
    words = f"{row.text('framework')} {row.text('options')}".lower()
    stated: dict[str, Any] = {"framework": _family(row) or UNKNOWN, "date": _date(row)}
    if re.search(r"fa ?2|flash-attn-2|flash-?attention-?2|sdpa", words):
        stated["attention"] = "flash-2"
    elif re.search(r"flash.?att", words) and _usual_attention(stated) == "unfused":
        stated["attention"] = "flash-2" if (stated["date"] or FLASH_2) >= FLASH_2 else "flash-1"
    if re.search(r"fa ?3|fa ?4|flash-attn-3|minimal_flash", words):
        stated["attention"] = "flash-3"
    if named := re.search(r"(non-|not |un)?fused adam|adamw? (not )?fused|plain python adamw", words):
        stated["fused_optimizer"] = not re.search(r"\b(non-|not |un)|plain", named[0])
    if "launch_blocking=1" in words:
        stated["launch_blocking"] = True
    if _WRITTEN_OUT.search(words):
        stated["attention"] = "unfused"
    if _EAGER.search(words):
        stated["kernels"] = "eager"
    elif re.search(r"\bcompiled?\b(?! not)|liger|transformer.?engine|\bte\b|deepep|hybridep", words):
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
    family = framework_or_default(software.framework)
    stated: dict[str, Any] = switches(family, software.date, shard, software)
    stated.pop("gradient_dtype", None)
    if family.reshards_in_pipeline and shard == Shard.FSDP and row.whole("pp") > 1:
        stated["reshard_after_forward"] = True
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


_MODULES = {
    "core_attn": r"core_attn",
    "layernorm": r"norm",
    "mla_up_proj": r"mla_up_proj",
    "mlp": r"\bmlp\b",
    "moe": r"\bmoe\b",
    "moe_act": r"moe_act|\bact\b",
    "shared_experts": r"shared_experts",
}
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
        "fused_loss": fields["fused_loss"] or _is_tuned(row) or _fused_loss(words, software),
        "loss_chunks": _chunks(row, words),
        **_recomputed(row),
        **_offloaded(row, fields),
    }
    dated = software.date or "9999-12"
    stated = f"{words} {row.text('precision')} {row.text('flags')}".lower()
    if re.search(_PURE, stated) and fields["precision"].size_bytes == 2:
        found["master_weights"] = MasterWeights.NONE
    if "nemo" in words and dated < _NEMO_2 and fields["precision"] is Dtype.BF16:
        found["master_weights"] = MasterWeights.REMAINDER  # Apex's distributed Adam
    if fields["frozen_weights"] and "mlperf" in words:
        found["narrow_activations"] = NarrowActivations.ACTIVATIONS  # its config stores their inputs in fp8
    if "hai-llm" in words:
        found |= _HAI_LLM
    layout = Layout.model_construct(**{**fields, **found})
    return {**kept_formats(layout, framework_or_default(software.framework)), **found}


_PURE = (
    r"bf16-true|pure bf16|no master weights|states all bf16|bf16 weights and (adamw )?states"
    r"|weights held in the named precision"
)
"""Words for weights, gradients and states all in 16 bits."""


def _fused_loss(words: str, software: Software) -> bool:
    """True if the loss is said to be one kernel, or is in the graph of a plain loop's compiled model."""
    compiled = software.framework == "pytorch" and software.kernels == "fused" and "torch.compile" in words
    fused = r"cross-entropy fusion|fused [^;]*cross.?entropy|loss is the sum"
    return compiled or bool(re.search(fused, words))


def _offloaded(row: RunRow, fields: dict[str, Any]) -> dict[str, Any]:
    """What the row puts on the host: states, FSDP's weights with them, or activations."""
    words = f"{row.text('options')} {row.text('recompute_detail')}".lower()
    if "offload_params=true" in words and fields["shard"] is Shard.FSDP and fields["pp"] == 1:
        return {"offload_weights": True, "offload_gradients": True, "offload_optimizer": True}
    share = re.search(r"(\d+) % of activations offloaded|share ([\d.]+) of activations offloaded", words)
    if share:
        part = float(share[1]) / 100 if share[1] else float(share[2])
        return {"offload_layers": round(part * row.whole("layers") / fields["pp"])}
    return {"offload_optimizer": bool(re.search(r"cpu adamw|optimizer offloaded to cpu(?! between)", words))}


_HAI_LLM = {
    "narrow_activations": NarrowActivations.ACTIVATIONS,
    "moment_dtype": Dtype.BF16,
    "narrow_weights": True,
    "recompute_modules": ("layernorm", "mla_up_proj", "moe_act"),
}
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
    return Dtype.BF16 if narrow else framework_or_default(software.framework).gradient_dtype


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
