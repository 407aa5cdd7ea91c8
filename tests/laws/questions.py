"""Random questions: runs of which anything may be left open."""

from typing import Any

from hypothesis import HealthCheck, Phase, assume, settings
from hypothesis import strategies as st
from pydantic import ValidationError

import syncwall as sw
from syncwall.cost.framework_costs import framework_or_default
from syncwall.describe import Layout, Run, Software
from syncwall.describe.choice import Dtype
from syncwall.describe.layout import ContextKind, Dispatcher, Recompute, Schedule, Shard

DENSE = ["llama-3.1-8b", "gpt3-13b", "llama-3.1-70b", "gemma-2-9b", "gpt2-xl"]
SPARSE = ["mixtral-8x7b", "deepseek-v2-lite", "qwen3-30b-a3b", "deepseek-v3"]
CLUSTERS = ["dgx-h100", "dgx-a100", "aws-p4d", "gb200-nvl72", "dgx-b200", "mi300x-8", "isambard-ai"]
FRAMEWORKS = ["megatron-core", "torchtitan", "nanotron", "deepspeed", "pytorch"]
POWERS = st.sampled_from([1, 2, 4, 8])
FILTERS = [HealthCheck.filter_too_much, HealthCheck.too_slow, HealthCheck.data_too_large]


def law(examples: int) -> settings:
    """So many questions, the same ones every time; a failing one is printed as it was drawn."""
    return settings(
        max_examples=examples,
        deadline=None,
        suppress_health_check=FILTERS,
        derandomize=True,
        phases=[Phase.generate],
    )


@st.composite
def questions(draw: Any, models: list[str] | None = None, *, all_open: bool = False) -> Run:
    """A run that could exist: dense, sparse or with frozen weights, on one of several machines.

    Every field that may be open is stated or not; with `all_open` none is.
    """
    model = sw.model(draw(st.sampled_from(models or DENSE + SPARSE)))
    cluster = sw.cluster(draw(st.sampled_from(CLUSTERS)))
    nodes = draw(st.sampled_from([1, 2, 4, 8, 32]))
    tp, pp, cp = draw(POWERS), draw(POWERS), draw(st.sampled_from([1, 1, 2]))
    gpus = nodes * cluster.node.gpus
    assume(gpus % (tp * pp * cp) == 0)
    layout: dict[str, Any] = {
        "tp": tp,
        "pp": pp,
        "cp": cp,
        "ep": draw(POWERS) if model.moe else 1,
        "sp": tp > 1 and draw(st.booleans()),
        "global_batch": gpus // (tp * pp * cp) * draw(st.sampled_from([1, 2, 8, 16])),
        "cp_kind": draw(st.sampled_from([ContextKind.RING, ContextKind.ALL_GATHER])),
        "frozen_weights": draw(st.sampled_from([False, False, True])),
    }
    if model.moe:
        layout |= {
            "dispatcher": draw(st.sampled_from(Dispatcher)),
            "overlap_ep": draw(st.booleans()),
        }
    if not all_open:
        layout |= {name: draw(values) for name, values in OPTIONAL.items() if draw(st.booleans())}
        layout |= _schedule(draw, pp)
        if layout.get("precision") == "fp8" and Dtype.FP8 not in cluster.device.peak_flop_per_s:
            layout["precision"] = "bf16"
    framework = draw(st.sampled_from([None, *FRAMEWORKS]))
    software = {"framework": framework} if framework else {}
    meant = framework_or_default(framework).meanings.get("recompute", {})
    if "recompute" in layout:  # as a file that names the framework would mean it
        layout["recompute"] = meant.get(layout["recompute"].text, layout["recompute"])
    seq = draw(st.sampled_from([1024, 4096, 8192]))
    try:
        return Run(
            model=model,
            cluster=cluster,
            nodes=nodes,
            seq=seq,
            layout=Layout.model_validate(layout),
            software=Software(**software),
        )
    except ValidationError:
        assume(False)
        raise


OPTIONAL: dict[str, st.SearchStrategy[Any]] = {
    "micro_batch": st.sampled_from([1, 2, 4]),
    "shard": st.sampled_from(list(Shard)),
    "recompute": st.sampled_from(list(Recompute)),
    "precision": st.sampled_from(["bf16", "fp8"]),
    "overlap_gradients": st.booleans(),
    "overlap_parameters": st.booleans(),
    "overlap_tp": st.booleans(),
    "overlap_pp": st.booleans(),
    "balanced_stages": st.booleans(),
    "fused_loss": st.booleans(),
}


def _schedule(draw: Any, pp: int) -> dict[str, Any]:
    """Nothing, a schedule, or virtual stages; together they would have to agree."""
    said = draw(st.sampled_from(["nothing", "schedule", "virtual stages"]))
    if said == "schedule":
        return {"schedule": draw(st.sampled_from([Schedule.ONE_F_ONE_B, Schedule.GPIPE]))}
    return {"virtual_stages": 2} if said == "virtual stages" and pp > 1 else {}
