"""From a published run to layouts that syncwall can predict.

What the source leaves open becomes several candidates; the likeliest is chosen later, when their
times and memory are known. No rule here knows a source by its name. Sources that print only TFLOP/s
are used if the formula behind them is known, or if it makes no difference: some count the whole
square of attention, some the causal half, some the recomputation.
"""

import re
from collections.abc import Iterable
from dataclasses import dataclass
from math import sqrt
from typing import Any

from pydantic import ValidationError

from syncwall.answer.many import memory_of
from syncwall.answer.priced import may_fit
from syncwall.answer.settled import candidates, choices
from syncwall.cost.framework_costs import framework_or_default
from syncwall.describe import Cluster, Layout, Model, Software
from syncwall.describe.base import OPEN
from syncwall.describe.choice import Dtype
from syncwall.describe.layout import PLAIN, ContextKind, Recompute, Schedule, Shard
from syncwall.describe.software import cut_by_cost, kept_formats
from syncwall.describe.switches import Lora, MasterWeights, Optimizer
from syncwall.validate.table import RunRow
from syncwall.validate.table_machines import (
    cluster_of,
    document_of,
    gradient_dtype_of,
    keeping_of,
    software_of,
    switches_of,
    unsaid,
)
from syncwall.validate.table_models import CannotRepresent, model_of

_RECOMPUTED = (0.25, 0.5, 0.75)
"""Shares of a stage's layers that may be recomputed where the source does not say."""


def partly(layout: Layout, row: RunRow) -> dict[str, list[Any]]:
    """What "selective" may mean in PyTorch if nobody says of what: every second operation, or
    so many whole layers.
    """
    if layout.recompute is not Recompute.OPERATIONS or row.text("recompute_detail"):
        return {}
    return {"recompute": [Recompute.OPERATIONS, Recompute.FULL]}


def unusual(
    row: RunRow,
    model: Model,
    layout: Layout,
    cluster: Cluster,
    software: Software,
    silent: list[str],
) -> list[Layout]:
    """Candidates for a run that would not fit as its framework usually runs, though it ran.

    It recomputes what it does not mention, adds up gradients in 16 bits if it does mention that,
    trains in pure 16 bits where the weights that are stored could be meant, or has a loss in one
    kernel where nobody calls it eager.
    """
    family = framework_or_default(software.framework).model_copy(update={"recompute": None})
    if re.search(r"(recomputation|checkpointing) (not printed|assumed)", row.text("flags").lower()):
        silent = [*silent, "recompute"]
    values = choices(model, layout, silent, family, date=software.date) | partly(layout, row)
    found, _ = candidates(model, layout, row.whole("seq_len"), cluster.gpus, values)
    if "recompute" in values:
        found += [
            one.model_copy(update={"recompute_layers": round(share * model.layers / one.pp)})
            for share in _RECOMPUTED
            for one in found
            if one.recompute is Recompute.FULL
        ]
    elif layout.kept_gradient_dtype is Dtype.FP32:
        summed = {"gradient_dtype": Dtype.BF16, "kept_gradient_dtype": Dtype.BF16}
        found += [one.model_copy(update=summed) for one in found]
    pure: dict[str, Any] = {"master_weights": MasterWeights.NONE}
    if layout.master_weights == MasterWeights.STORED:
        pure |= kept_formats(layout.model_copy(update=pure), family)
        found += [one.model_copy(update=pure) for one in found]
    if not layout.fused_loss and software.kernels != "eager":
        found += [one.model_copy(update={"fused_loss": True}) for one in found]
    return found


AMBIGUOUS = 1.15
"""Largest ratio between two readings of a TFLOP/s figure at which it is still used."""


def measured_s(row: RunRow, model: Model) -> float:
    """Measured seconds of one optimizer step."""
    step = row.number("step_time_s")
    if step:
        return step
    gpus, batch, seq = (row.number(name) or 0.0 for name in ("gpus", "gbs", "seq_len"))
    each = row.number("tokens_per_s_per_gpu")
    rate = each * gpus if each else row.number("tokens_per_s")
    if rate:
        return batch * seq / rate
    samples = row.number("samples_per_s")
    if samples:
        return batch / samples
    reached = row.number("tflops_per_gpu")
    if reached:
        return _flops(row, model) / (reached * 1e12 * gpus)
    raise CannotRepresent("the source gives no step time or rate")


def _flops(row: RunRow, model: Model) -> float:
    """FLOP of a step as the source counts them."""
    tokens = row.whole("gbs") * row.whole("seq_len")
    again = 4 / 3 if row.text("tflops_kind").startswith("hardware") else 1.0
    causal = _forward_and_backward(row, model, 0.5) * tokens * again
    square = _forward_and_backward(row, model, 1.0) * tokens * again
    formula = row.text("flops_formula").lower()
    if "96*b*s*l" in formula or "num_floating_point" in formula:
        return square
    if "causal" in formula or "half" in formula:
        return causal
    if square / causal > AMBIGUOUS:
        raise CannotRepresent("TFLOP/s without its formula: causal or full attention is unclear")
    return sqrt(causal * square)


def _forward_and_backward(row: RunRow, model: Model, share: float) -> float:
    """FLOP of a token: six for every weight, and `share` of the square of attention."""
    count = model.parameter_count
    weights = count.active - count.embedding + (model.vocab * model.hidden) * model.tied_embeddings
    width = model.attention.heads * (model.head_dim + model.v_head_dim)
    return 6.0 * weights + 6.0 * share * model.attention_layers * row.whole("seq_len") * width


_CORE = ("megatron-core", "megatron-bridge")
_SHARDS = {
    "ddp": Shard.DDP,
    "zero1": Shard.ZERO1,
    "zero2": Shard.ZERO2,
    "zero3": Shard.FSDP,
    "fsdp": Shard.FSDP,
    "hsdp": Shard.FSDP,
}
COLUMNS = {"micro_batch": "mbs", "virtual_stages": "vpp", "recompute": "recompute"}
"""Fields of a layout that sources often leave open, and their columns."""


@dataclass(frozen=True)
class ValidationCase:
    """A row as something to predict."""

    row: RunRow
    model: Model
    cluster: Cluster
    software: Software
    seq: int
    layouts: list[Layout]
    """Resolved candidates; more than one where the source leaves something open."""
    open_fields: tuple[str, ...]
    """What the source does not say."""
    measured_s: float
    unsaid: tuple[str, ...] = ()
    """What of framework, device and fabric had to be assumed."""


def case_of(row: RunRow) -> ValidationCase:
    """The case that `row` describes; CannotRepresent says why there is none."""
    for column in ("gpus", "gbs", "seq_len", "tp", "pp"):
        if not row.text(column):
            raise CannotRepresent(f"the source gives no {column}")
    try:
        model, cluster, software = model_of(row), cluster_of(row), software_of(row)
        layouts, missing = _layouts(row, model, cluster, software)
    except ValueError as error:
        raise CannotRepresent(_reason(error)) from None
    seq = row.whole("seq_len")
    measured = measured_s(row, model)
    assumed = unsaid(row, cluster)
    return ValidationCase(row, model, cluster, software, seq, layouts, missing, measured, assumed)


def cases_of(rows: Iterable[RunRow]) -> list[ValidationCase]:
    """The cases of those rows that can be represented."""
    found = []
    for row in rows:
        try:
            found.append(case_of(row))
        except CannotRepresent:
            continue
    return found


def _reason(error: ValueError) -> str:
    """The first fault in one line."""
    message = error.errors()[0]["msg"] if isinstance(error, ValidationError) else str(error)
    return message.splitlines()[0].removeprefix("Value error, ")


def _layouts(
    row: RunRow, model: Model, cluster: Cluster, software: Software
) -> tuple[list[Layout], tuple[str, ...]]:
    """Every admissible candidate, and the fields that are open."""
    stated = _stated(row, software) | _cut(row, model)
    layout = Layout.model_construct(**stated).resolved(cluster.gpus)
    silent = [name for name, column in COLUMNS.items() if not row.text(column)]
    if "schedule=1F1B;" in row.text("options") and "virtual_stages" in silent:
        silent.remove("virtual_stages")
    if "virtual_stages" in silent and layout.pp > 1 and layout.schedule is Schedule.ONE_F_ONE_B:
        layout = layout.model_copy(update={"schedule": OPEN})  # nobody says that either
    seq = row.whole("seq_len")
    family = framework_or_default(software.framework)
    values = choices(model, layout, silent, family, date=software.date)
    missing = tuple(name for name, several in values.items() if len(several) > 1)
    values |= partly(layout, row)
    found, reasons = candidates(model, layout, seq, cluster.gpus, values)
    if not found:
        raise CannotRepresent(reasons[0])
    if not any(may_fit(used, cluster.device) for used in memory_of(model, found, seq)):
        found = unusual(row, model, layout, cluster, software, silent) or found
    return [one.plain() for one in found], missing + (() if row.text("precision") else ("precision",))


def _stated(row: RunRow, software: Software) -> dict[str, Any]:
    """What a row says of its layout, the framework's defaults where it is silent."""
    tp, cp, pp = (row.whole(name) for name in ("tp", "cp", "pp"))
    gpus = row.whole("gpus")
    dp = max(gpus // (tp * cp * pp), 1)
    precision = _precision(row)
    core = software.framework in _CORE
    fields: dict[str, Any] = {**Layout().__dict__, **PLAIN}
    fields |= {
        "dp": dp,
        "tp": tp,
        "cp": cp,
        "pp": pp,
        "ep": row.whole("ep"),
        "etp": _etp(row, software),
        "global_batch": row.whole("gbs"),
        "micro_batch": row.whole("mbs"),
        "virtual_stages": row.whole("vpp"),
        "recompute": _recompute(row, software.framework),
        "schedule": _schedule(row, row.whole("vpp")),
        "precision": precision,
        "gradient_dtype": gradient_dtype_of(row, precision, software),
        "document_tokens": document_of(row),
        **_adapters(row),
        "dropless": not re.search(r"tokendrop|capacity factor", row.text("options") + row.text("model")),
        "capacity_factor": _capacity(row),
        "expert_imbalance": 1.15 if "unbalanced" in row.text("flags") else 1.0,
    }
    sp = row.truth("sp")
    fields["sp"] = tp > 1 and ((core or software.framework == "nanotron") if sp is None else sp)
    fields |= _shard(row, software, dp * cp)
    fields |= switches_of(row, software, fields["shard"])
    fields |= keeping_of(row, software, fields)
    if row.text("optimizer"):
        fields["optimizer"] = _optimizer(row)
    if "CP all-to-all" in row.text("options"):
        fields["cp_kind"] = ContextKind.ULYSSES
    elif software.framework == "torchtitan":
        fields["cp_kind"] = ContextKind.ALL_GATHER
    return fields


USUAL_RANK, USUAL_TARGETS = 16, "q_proj;k_proj;v_proj;o_proj"
"""Of adapters of which the source says no more than that there are some; assumed."""


def _adapters(row: RunRow) -> dict[str, Any]:
    """Frozen weights, and the adapters beside them as far as their columns tell."""
    frozen = "lora" in (row.text("shard") + row.text("model")).lower()
    if not (frozen or row.text("lora_rank")):
        return {"frozen_weights": False}
    words = re.split(r"[;,\s]+", row.text("lora_targets") or USUAL_TARGETS)
    targets = tuple(_TARGETS.get(word, word) for word in words if word)
    weights = _FROZEN.get(row.text("frozen_weights").lower())
    rank = row.whole("lora_rank", USUAL_RANK)
    lora = Lora.model_validate({"rank": rank, "targets": targets, "weights": weights})
    return {"frozen_weights": True, "lora": lora}


_TARGETS = {
    "output_proj": "o_proj",
    "out_proj": "o_proj",
    "query": "q_proj",
    "key": "k_proj",
    "value": "v_proj",
}
"""Names of matrices in libraries, in PEFT's words for Llama."""
_FROZEN = {"fp32": "fp32", "bf16": "bf16", "fp16": "bf16", "int8": "fp8", "nf4": "nf4"}
_OPTIMIZERS = (
    (r"adam.*8.?bit|8.?bit.*adam", Optimizer.ADAM_8BIT),
    (r"adafactor", Optimizer.ADAFACTOR),
    (r"muon", Optimizer.MUON),
    (r"\bsgd\b|\blion\b", Optimizer.SGD),
)


def _optimizer(row: RunRow) -> Optimizer:
    words = row.text("optimizer").lower()
    return next((kind for pattern, kind in _OPTIMIZERS if re.search(pattern, words)), Optimizer.ADAM)


_WITHOUT_MLP = r"save_(qkv|out)_proj|save_dot\w*_except_mlp|\w+_offloaded"
"""Policies of MaxText (`get_remat_policy`) that keep no product of the feed-forward part."""


def _recompute(row: RunRow, family: str) -> Recompute:
    words = row.text("recompute")
    named = f"{row.text('recompute_detail')} {row.text('options')}".lower()
    if family == "maxtext" and words != "none" and re.search(_WITHOUT_MLP, named):
        return Recompute.FULL
    if words == "selective" and family in ("pytorch", "torchtitan", "deepspeed", "maxtext"):
        return Recompute.OPERATIONS  # PyTorch's word for every second operation or layer
    if words == "selective" and family == "paxml":
        return Recompute.FULL  # its policies keep a few projections
    return Recompute(Recompute.read(words)) if words else Recompute.NONE


def _cut(row: RunRow, model: Model) -> dict[str, Any]:
    """Layers of the first and last stage, or how they are found."""
    words = row.text("options").lower()
    schedule = _schedule(row, row.whole("vpp"))
    if cut_by_cost(schedule, further_tokens=model.mtp_layers > 0):
        return {"balanced_stages": True}
    pp = row.whole("pp")
    if "first and last stage one layer fewer" in words and (model.layers + 2) % pp == 0:
        each = (model.layers + 2) // pp - 1
        return {"balanced_stages": False, "first_stage_layers": each, "last_stage_layers": each}
    return {}


def _schedule(row: RunRow, virtual_stages: int) -> Schedule:
    if "schedule=ZB-2p" in row.text("options"):
        return Schedule.ZERO_BUBBLE_2P
    if "schedule=ZB" in row.text("options"):
        return Schedule.ZERO_BUBBLE
    if "dualpipe" in row.text("options").lower():
        return Schedule.DUALPIPE
    interleaved = virtual_stages > 1 or "Interleaved" in row.text("options")
    return Schedule.INTERLEAVED if interleaved else Schedule.ONE_F_ONE_B


def _shard(row: RunRow, software: Software, whole: int) -> dict[str, Any]:
    words = row.text("shard").lower()
    kind = next((value for name, value in _SHARDS.items() if words.startswith(name)), None)
    if kind is None:
        kind = Shard.ZERO1 if software.framework in _CORE else Shard.DDP
    if kind is Shard.DDP and software.framework == "megatron-deepspeed" and _precision(row) is Dtype.BF16:
        kind = Shard.ZERO1  # DeepSpeed's BF16_Optimizer shards states at stage 0 too (its pull request 1801)
    node = row.whole("gpus_per_node", 8)
    degree = row.whole("shard_degree", min(node, whole) if words.startswith("hsdp") else whole)
    fits = kind is not Shard.DDP and whole % degree == 0
    return {"shard": kind, "shard_degree": degree if fits else whole}


def _capacity(row: RunRow) -> float:
    """Tokens that an expert takes over the average, where the row states a capacity."""
    capacity = re.search(r"capacity (?:factor )?([\d.]+)", row.text("options"))
    return float(capacity[1]) if capacity else 1.0


def _etp(row: RunRow, software: Software) -> int:
    """Tensor ranks inside an expert: those of the layer until they could be chosen apart."""
    if row.text("etp"):
        return row.whole("etp")
    early = software.date is not None and software.date < "2025-01"
    return row.whole("tp") if early and row.text("family") == "moe" else 1


def _precision(row: RunRow) -> Dtype:
    words = row.text("precision").split(" ")[0]
    if words:
        return Dtype(words)
    return Dtype.FP8 if "MLPerf" in row.text("framework") else Dtype.BF16
