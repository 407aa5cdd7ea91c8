import numpy as np
import pytest

import syncwall as sw
from syncwall.answer.priced import VerdictKind
from syncwall.work.operations import Collective

HIDDEN, KV, MLP = 4096, 1024, 14336
"""Of Llama 3.1 8B."""


def predicted(gpus: int, framework: str = "torchtitan", **layout: object) -> sw.Prediction:
    usual = {"shard": "fsdp", "micro_batch": 1, "global_batch": gpus, "recompute": "none"}
    run = {
        "model": "llama-3.1-8b",
        "cluster": "dgx-h100",
        "nodes": gpus // 8,
        "seq": 8192,
        "layout": usual | layout,
        "software": {"framework": framework},
    }
    return sw.predict(sw.Run.model_validate(run))


def gathered_bytes(found: sw.Prediction) -> float:
    """Bytes of the gather of one layer."""
    blocks = found.work.stages[-1].forward
    layer = next(block for block in blocks if block.name == "dense layer")
    gather = layer.operations[0].what
    assert isinstance(gather, Collective)
    return float(gather.bytes)


def rows(ranks: int) -> float:
    """Elements of a layer's matrices, rows padded to a multiple of `ranks`; norms scaled alike."""
    matrices = [
        (HIDDEN, HIDDEN),
        (KV, HIDDEN),
        (KV, HIDDEN),
        (HIDDEN, HIDDEN),
        (MLP, HIDDEN),
        (MLP, HIDDEN),
        (HIDDEN, MLP),
    ]
    return float(sum(np.ceil(first / ranks) * ranks * second for first, second in matrices))


@pytest.mark.parametrize("gpus", [8, 1024, 2048, 16384])
def test_rows_of_each_parameter_are_padded_to_the_ranks_of_fsdp2(gpus):
    plain = gathered_bytes(predicted(gpus, "megatron-core", fsdp_copies=False))
    found = gathered_bytes(predicted(gpus))
    assert found / plain == pytest.approx(rows(gpus) / rows(1))


def test_replicas_of_shards_pad_to_the_ranks_of_a_shard():
    assert gathered_bytes(predicted(16384, shard_degree=256)) == gathered_bytes(predicted(8))


def test_steps_of_rings_over_many_ranks_are_called_communication():
    """NCCL's rings take 16,383 steps a gather: no run on so many ranks is bound by computation."""
    assert predicted(16384).verdict.kind is VerdictKind.COMMUNICATION
    assert predicted(16384, shard_degree=64).verdict.kind is not VerdictKind.COMMUNICATION
