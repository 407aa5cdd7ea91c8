"""Random valid runs for property tests."""

from typing import Any

from hypothesis import assume
from hypothesis import strategies as st
from pydantic import ValidationError

import syncwall as sw
from syncwall.describe import Layout, Run, Software
from syncwall.describe.layout import ContextKind, Recompute, Schedule, Shard

MODELS = [
    "llama-3.1-8b",
    "gpt3-13b",
    "mixtral-8x7b",
    "deepseek-v2-lite",
    "gemma-2-9b",
    "qwen3-30b-a3b",
]
CLUSTERS = [
    "dgx-h100",
    "dgx-a100",
    "aws-p4d",
    "baskerville",
    "gb200-nvl72",
    "isambard-ai",
    "mi300x-8",
]
POWERS = st.sampled_from([1, 2, 4, 8])


@st.composite
def runs(draw: Any, clusters: list[str] | None = None) -> Run:
    """A run that could exist."""
    model = sw.model(draw(st.sampled_from(MODELS)))
    cluster = sw.cluster(draw(st.sampled_from(clusters or CLUSTERS)))
    nodes = draw(st.sampled_from([1, 2, 4, 8, 32]))
    tp, pp, cp = draw(POWERS), draw(POWERS), draw(st.sampled_from([1, 1, 2, 4]))
    ep = draw(POWERS) if model.moe else 1
    gpus = nodes * cluster.node.gpus
    assume(gpus % (tp * pp * cp) == 0)
    micro, accumulate = draw(st.sampled_from([1, 2, 4])), draw(st.sampled_from([1, 2, 8, 16]))
    interleaved = pp > 1 and draw(st.booleans())
    layout: dict[str, Any] = {
        "tp": tp,
        "pp": pp,
        "cp": cp,
        "ep": ep,
        "micro_batch": micro,
        "global_batch": gpus // (tp * pp * cp) * micro * accumulate,
        "sp": tp > 1 and draw(st.booleans()),
        "shard": draw(st.sampled_from(list(Shard))),
        "schedule": Schedule.INTERLEAVED
        if interleaved
        else draw(st.sampled_from([Schedule.GPIPE, Schedule.ONE_F_ONE_B, Schedule.ZERO_BUBBLE])),
        "virtual_stages": 2 if interleaved else 1,
        "cp_kind": draw(st.sampled_from([ContextKind.RING, ContextKind.ALL_GATHER])),
        "recompute": draw(st.sampled_from(list(Recompute))),
        "overlap_gradients": draw(st.booleans()),
        "overlap_parameters": draw(st.booleans()),
        "overlap_tp": draw(st.booleans()),
    }
    software = Software(
        attention=draw(st.sampled_from(["flash-3", "flash-2", "unfused"])),
        kernels=draw(st.sampled_from(["fused", "eager"])),
    )
    seq = draw(st.sampled_from([1024, 4096, 8192]))
    try:
        return Run(
            model=model,
            cluster=cluster,
            nodes=nodes,
            seq=seq,
            software=software,
            layout=Layout.model_validate(layout),
        )
    except ValidationError:
        assume(False)
        raise
