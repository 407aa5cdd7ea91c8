"""The same programs cost the same, whatever version of PyTorch records them.

`bash .ci/run versions` runs this on all versions; what is compared with was recorded with 2.13.
`python -m tests.capture.test_versions` prints what the installed one records.
"""

import runpy
from collections import defaultdict
from collections.abc import Callable
from typing import Final

import pytest

torch = pytest.importorskip("torch", reason="torch is not installed")

from torch import nn  # noqa: E402
from torch.distributed.device_mesh import init_device_mesh  # noqa: E402
from torch.distributed.fsdp import MixedPrecisionPolicy, fully_shard  # noqa: E402
from torch.nn.parallel import DistributedDataParallel  # noqa: E402

from syncwall.capture.versions import installed  # noqa: E402
from syncwall.work.operations import Collective  # noqa: E402
from syncwall.work.program import RankProgram  # noqa: E402
from tests.capture.programs import (  # noqa: E402
    EXAMPLE,
    VOCABULARY,
    language_loss,
    llama,
    recorded,
    train,
)
from tests.capture.step_programs import Language, dense  # noqa: E402

WIDTH: Final = 64
split_over = runpy.run_path(str(EXAMPLE))["split_over"]


def gpt(layers: int = 2) -> nn.Module:
    return Language(VOCABULARY, WIDTH, [dense(WIDTH) for _ in range(layers)]).cuda()


def data_parallel() -> None:
    train(DistributedDataParallel(gpt(), device_ids=[0]), language_loss, passes=2)


def fully_sharded(split: bool = False) -> None:
    mesh = init_device_mesh("cuda", (4, 2), mesh_dim_names=("dp_shard", "tp"))
    model = llama()
    if split:
        split_over(model, mesh["tp"])
    policy = MixedPrecisionPolicy(param_dtype=torch.bfloat16, reduce_dtype=torch.float32)
    for part in (*model.layers, model):
        fully_shard(part, mesh=mesh["dp_shard"], mp_policy=policy)
    train(model, language_loss)


PROGRAMS: Final[dict[str, Callable[[], None]]] = {
    "GPT, DDP": data_parallel,
    "Llama, FSDP2": fully_sharded,
    "Llama, FSDP2 and tensor parallel": lambda: fully_sharded(split=True),
}
COSTS: Final[dict[str, dict[str, float]]] = {
    "GPT, DDP": {
        "calls": 314,
        "held bytes": 4268200,
        "FLOP": 104448000,
        "kernel bytes": 36083792,
        "all-reduce bytes": 1325056,
    },
    "Llama, FSDP2": {
        "calls": 156,
        "held bytes": 1211356,
        "FLOP": 42786816,
        "kernel bytes": 9885384,
        "all-gather bytes": 427136,
        "reduce-scatter bytes": 558336,
    },
    "Llama, FSDP2 and tensor parallel": {
        "calls": 212,
        "held bytes": 824668,
        "FLOP": 21393408,
        "kernel bytes": 6455462,
        "all-gather bytes": 361600,
        "reduce-scatter bytes": 361728,
        "all-reduce bytes": 640,
    },
}
FROM_2_15: Final = {
    "Llama, FSDP2 and tensor parallel": {
        "calls": 217,
        "held bytes": 824668,
        "FLOP": 21393408,
        "kernel bytes": 6475144,
        "all-gather bytes": 361600,
        "reduce-scatter bytes": 361728,
        "all-reduce bytes": 1280,
    },
}
"""Gradients of norms that tensor parallelism shares are summed in fp32."""


def costs(rank: RankProgram) -> dict[str, float]:
    """FLOPs, bytes of kernels, of each kind of collective and of memory, and the number of calls."""
    found = defaultdict[str, float](float, calls=len(rank.calls))
    found["held bytes"] = sum(one.bytes for one in rank.held)
    for call in rank:
        if isinstance(call.what, Collective):
            found[f"{call.what.kind} bytes"] += float(call.what.bytes)
        else:
            found["FLOP"] += float(getattr(call.what, "flops", 0.0))
            found["kernel bytes"] += float(getattr(call.what, "hbm_bytes", 0.0))
    return dict(found)


@pytest.mark.filterwarnings("ignore:FSDP2-wrapped module")
@pytest.mark.parametrize("name", PROGRAMS)
def test_a_program_costs_the_same_with_every_version(name):
    assert costs(recorded(PROGRAMS[name])) == (COSTS | FROM_2_15 if installed() >= (2, 15) else COSTS)[name]


if __name__ == "__main__":
    for key, program in PROGRAMS.items():
        print(f"{key!r}: {costs(recorded(program))},")
