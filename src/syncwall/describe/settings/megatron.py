"""Settings of Megatron-LM: its arguments, in a shell script or as a list of them.

Holds `read` and the words it shares with `megatron_writing`. A file with `--micro-batch-size`,
without which Megatron-LM does not start, is a whole command: a switch that it leaves out is off. In
any other file it is open. Names and defaults: `training/arguments.py` and the configurations of
`core/`, August 2026; some older names are read too.
"""

import re
from collections.abc import Sequence
from typing import Any, Final, get_args

from syncwall.describe.choice import Dtype
from syncwall.describe.layout import ContextKind, Dispatcher, Recompute, Schedule, Shard
from syncwall.describe.settings.keys import DeferredSettings, Keys, Settings
from syncwall.describe.settings.models import shaped
from syncwall.describe.state_formats import Optimizer, RecomputeModule
from syncwall.documents import Document

COUNTS: Final = {
    "tp": "--tensor-model-parallel-size",
    "pp": "--pipeline-model-parallel-size",
    "cp": "--context-parallel-size",
    "ep": "--expert-model-parallel-size",
    "etp": "--expert-tensor-parallel-size",
    "micro_batch": "--micro-batch-size",
    "global_batch": "--global-batch-size",
}
SWITCHES: Final = {
    "sp": "--sequence-parallel",
    "overlap_gradients": "--overlap-grad-reduce",
    "overlap_parameters": "--overlap-param-gather",
    "overlap_tp": "--tp-comm-overlap",
    "overlap_ep": "--overlap-moe-expert-parallel-comm",
}
DISPATCHERS: Final = {"allgather": Dispatcher.ALL_GATHER, "alltoall": Dispatcher.ALL_TO_ALL}
CONTEXT: Final = {
    "p2p": ContextKind.RING,
    "a2a": ContextKind.ULYSSES,
    "allgather": ContextKind.ALL_GATHER,
}
STRATEGIES: Final = {
    "no_shard": Shard.DDP,
    "optim": Shard.ZERO1,
    "optim_grads": Shard.ZERO2,
    "optim_grads_params": Shard.FSDP,
}
STAGES: Final = "--pipeline-model-parallel-layout"
_FSDP: Final = ("--use-megatron-fsdp", "--use-custom-fsdp")
_BALANCED: Final = (
    "--account-for-loss-in-pipeline-split",
    STAGES,
)
CUTS: Final = {
    "first_stage_layers": "--decoder-first-pipeline-num-layers",
    "last_stage_layers": "--decoder-last-pipeline-num-layers",
}


def read(document: Document) -> Settings:
    """What the arguments of `document` (see `formats.arguments_document`) state."""
    words: dict[str, list[str]] = document.value
    first: dict[str, Any] = {name: values[0] if values else True for name, values in words.items()}
    keys = Keys(Document(document.file, _without_unknown(first), document.places))
    for name, value in first.items():
        if isinstance(value, str) and "$" in value and name in _COUNTED:
            keys.note(f"{name} {value[:40]}: the variable is not set above; left open", name)
    given = set(first)
    whole = "--micro-batch-size" in given
    for field, name in COUNTS.items():
        keys.take(field, keys.whole(name), name)
    for field, name in SWITCHES.items():
        if name in given or whole:
            keys.take(field, name in given, name)
    if keys.layout.get("sp") and keys.layout.get("tp", 1 if whole else 2) == 1:
        keys.take("sp", False, SWITCHES["sp"])  # it turns it off itself
    keys.take_run("seq", keys.whole("--seq-length"), "--seq-length")
    for name in ("--nnodes", "--nproc_per_node", "--nproc-per-node"):
        field = "nodes" if name == "--nnodes" else "gpus_per_node"
        keys.take_run(field, keys.whole(name), name)
    shaped(keys, given)
    copies = _shard(keys, given, whole=whole)
    _precision(keys, given)
    _recompute(keys, given, words.get("--recompute-modules", ()), whole=whole)
    _keeping(keys, given)
    _experts(keys, given)
    if "--cp-comm-type" in given:
        _context(keys, words["--cp-comm-type"])
    if "--use-tp-pp-dp-mapping" in given:
        keys.take("order", ("tp", "cp", "ep", "pp", "dp"), "--use-tp-pp-dp-mapping")
    left = _pipeline(keys, given, copies, whole=whole)
    return keys.settings("megatron", "megatron-core", left)


_COUNTED: Final = frozenset({*COUNTS.values(), "--seq-length", "--nnodes", "--nproc_per_node"})


def _without_unknown(first: dict[str, Any]) -> dict[str, Any]:
    """Arguments without those whose value is a shell variable that nobody set."""
    return {
        name: value
        for name, value in first.items()
        if not (isinstance(value, str) and "$" in value)
    }


def _shard(keys: Keys, given: set[str], *, whole: bool) -> int | None:
    """State what is sharded; the copies of it, if it is not shared by all replicas."""
    strategy = keys.word(STRATEGIES, "--data-parallel-sharding-strategy")
    fsdp = next((name for name in _FSDP if name in given), None)
    if "--use-torch-fsdp2" in given:
        kept = "--torch-fsdp2-no-reshard-after-forward" in given
        keys.take("shard", Shard.ZERO2 if kept else Shard.FSDP, "--use-torch-fsdp2")
    elif fsdp:
        keys.take("shard", Shard.FSDP if strategy is None else strategy, fsdp)
    elif "--use-distributed-optimizer" in given:
        keys.take("shard", Shard.ZERO1, "--use-distributed-optimizer")
    elif whole:
        keys.take("shard", Shard.DDP, "--micro-batch-size")
    if keys.layout.get("shard", Shard.DDP) == Shard.DDP:
        return None
    copies = keys.whole("--num-distributed-optimizer-instances")
    return copies if copies != 1 else None


def _precision(keys: Keys, given: set[str]) -> None:
    """State number formats; without one, likely set elsewhere, they stay open."""
    plain = next((dtype for dtype in (Dtype.BF16, Dtype.FP16) if f"--{dtype}" in given), None)
    at = f"--{plain}"
    keys.take("precision", plain, at)
    if "--fp8-format" in given or "--fp8-hybrid" in given:
        mx = keys.value("--fp8-recipe") == "mxfp8"
        if keys.value("--fp8-recipe") == "blockwise":
            keys.software["fp8_scaling"] = "block"
        keys.take("precision", Dtype.MXFP8 if mx else Dtype.FP8, "--fp8-format")
    if "--fp4-format" in given:
        keys.take("precision", Dtype.NVFP4, "--fp4-format")
    if "--first-last-layers-bf16" in given:
        for end, field in (("start", "first_layers_bf16"), ("end", "last_layers_bf16")):
            at = f"--num-layers-at-{end}-in-bf16"
            found = keys.whole(at, least=0)
            keys.take(field, 1 if found is None else found, at)
    if plain is None:
        return
    reduced = Dtype.FP32
    if "--grad-reduce-in-bf16" in given:
        reduced = Dtype.BF16
    elif plain == Dtype.FP16 and "--accumulate-allreduce-grads-in-fp32" not in given:
        reduced = Dtype.FP16
    keys.take("gradient_dtype", reduced, at)
    elements = keys.whole("--ddp-bucket-size")
    if elements is not None:
        keys.take("bucket", f"{elements * int(reduced.size_bytes)} B", "--ddp-bucket-size")


def _recompute(keys: Keys, given: set[str], modules: Sequence[str], *, whole: bool) -> None:
    at = "--recompute-granularity"
    granularity = keys.word({"full": Recompute.FULL, "selective": Recompute.SELECTIVE}, at)
    if "--recompute-activations" in given:
        at, granularity = "--recompute-activations", Recompute.SELECTIVE
    if granularity is None and whole:
        at, granularity = "--micro-batch-size", Recompute.NONE
    keys.take("recompute", granularity, at)
    method = keys.word({"uniform": "uniform", "block": "block"}, "--recompute-method")
    layers = keys.whole("--recompute-num-layers")
    if granularity == Recompute.FULL and method == "block":
        keys.take("recompute_layers", layers or 1, "--recompute-num-layers")
    if granularity == Recompute.SELECTIVE and modules:
        known = tuple(word for word in modules if word in get_args(RecomputeModule))
        keys.take("recompute_modules", known or None, "--recompute-modules")
        for word in modules:
            if word not in known:
                keys.note(f"recomputing {word[:40]} is not modelled", "--recompute-modules")


def _keeping(keys: Keys, given: set[str]) -> None:
    """Formats of the optimizer's states, and what waits in the host's memory."""
    moments = keys.word({"fp32": Dtype.FP32, "bf16": Dtype.BF16, "fp16": Dtype.FP16,
                         "fp8": Dtype.FP8}, "--exp-avg-dtype")  # fmt: skip
    keys.take("moment_dtype", moments, "--exp-avg-dtype")
    optimizers = {"adam": Optimizer.ADAM, "sgd": Optimizer.SGD, "muon": Optimizer.MUON}
    if keys.value("--optimizer") in optimizers:
        keys.take("optimizer", optimizers[keys.value("--optimizer")], "--optimizer")
    if "--optimizer-cpu-offload" in given:
        keys.take("offload_optimizer", True, "--optimizer-cpu-offload")
    if "--cpu-offloading-num-layers" in given:
        layers = keys.whole("--cpu-offloading-num-layers", least=0)
        keys.take("offload_layers", layers, "--cpu-offloading-num-layers")


def _experts(keys: Keys, given: set[str]) -> None:
    has_experts = keys.layout.get("ep", 1) > 1 or "--num-experts" in given
    if has_experts and "etp" not in keys.layout and "tp" in keys.layout:
        keys.take("etp", keys.layout["tp"], COUNTS["tp"])  # what it does where nobody says
    kind = keys.value("--moe-token-dispatcher-type")
    if kind in DISPATCHERS or kind == "flex":
        backend = keys.value("--moe-flex-dispatcher-backend")
        flex = Dispatcher.HYBRIDEP if backend == "hybridep" else Dispatcher.DEEPEP
        dispatcher = flex if kind == "flex" else DISPATCHERS[kind]
        keys.take("dispatcher", dispatcher, "--moe-token-dispatcher-type")
    if "--moe-pad-expert-input-to-capacity" in given:
        keys.take("dropless", False, "--moe-pad-expert-input-to-capacity")


def _context(keys: Keys, stated: list[str]) -> None:
    kinds = [word for word in stated if word in (*CONTEXT, "a2a+p2p")]
    if len(set(kinds)) == 1 and kinds[0] in CONTEXT:
        keys.take("cp_kind", CONTEXT[kinds[0]], "--cp-comm-type")
    else:
        words = f"{' '.join(stated)[:40]} is not modelled: left open; known: {', '.join(CONTEXT)}"
        keys.note(f"--cp-comm-type {words}", "--cp-comm-type")


def _pipeline(keys: Keys, given: set[str], copies: int | None, *, whole: bool) -> DeferredSettings:
    balanced = next((name for name in _BALANCED if name in given), None)
    pp = keys.layout.get("pp", 1)
    if balanced or (whole and pp > 1):
        keys.take("balanced_stages", balanced is not None, balanced or COUNTS["pp"])
    for field, name in CUTS.items():
        keys.take(field, keys.whole(name), name)
    if "--no-overlap-p2p-communication" in given:
        keys.take("overlap_pp", False, "--no-overlap-p2p-communication")
    at = "--num-virtual-stages-per-pipeline-rank"
    virtual = keys.whole(at)
    chunk = keys.whole("--num-layers-per-virtual-pipeline-stage")
    layers = keys.whole("--num-layers")
    ends = sum(f"--account-for-{end}-in-pipeline-split" in given for end in ("embedding", "loss"))
    if virtual is None and chunk is not None and layers is not None:
        at = "--num-layers-per-virtual-pipeline-stage"
        virtual = max(1, (layers + ends) // (pp * chunk))
        if virtual * pp * chunk != layers + ends:
            message = (
                f"{layers} layers are not a multiple of pp {pp} x {chunk} layers a virtual stage"
            )
            keys.complain(message, at)
    dealt = keys.value(STAGES)
    if isinstance(dealt, str):
        at, virtual = STAGES, _virtual(keys, dealt, pp)
    if virtual is None and chunk is None and whole and pp > 1:
        at, virtual = COUNTS["pp"], 1
    if virtual is not None:
        keys.take("virtual_stages", virtual, at)
        schedule = Schedule.INTERLEAVED if virtual > 1 else Schedule.ONE_F_ONE_B
        keys.take("schedule", schedule, at)
    if keys.layout.get("recompute_layers") and virtual is not None:  # said of each virtual stage
        keys.layout["recompute_layers"] *= virtual
    waiting = chunk if virtual is None else None
    return DeferredSettings(copies=copies, chunk_layers=waiting, end_layers=ends)


def _virtual(keys: Keys, dealt: str, pp: int) -> int | None:
    """Virtual stages of a rank where stages are listed, as in "Et|(tt|)*30L"."""
    groups: list[tuple[str, str]] = re.findall(r"\(([^()]*)\)\*(\d{1,4})", dealt)
    repeated = sum(inner.count("|") * (int(times) - 1) for inner, times in groups)
    stages = 1 + dealt.count("|") + repeated
    if stages % pp:
        keys.complain(f"{stages} stages are not a multiple of pp {pp}", STAGES)
        return None
    return stages // pp
