"""Weights on the host: laws of time and memory."""

from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from pydantic import ValidationError

import syncwall as sw
from syncwall.answer.many import timed_layouts
from syncwall.answer.prediction import Prediction
from syncwall.cause import Cause
from syncwall.describe import Run
from syncwall.describe.layout import Shard
from syncwall.work.block import Stream
from syncwall.work.memory import step_memory
from syncwall.work.operations import Offload

ON_THE_HOST: dict[str, Any] = {
    "offload_weights": True,
    "offload_gradients": True,
    "offload_optimizer": True,
}


def predicted(
    model: str = "llama-3.1-8b",
    cluster: str = "dgx-h100",
    gpus: int = 8,
    micro_batch: int = 1,
    microbatches: int = 2,
    **layout: Any,
) -> Prediction:
    stated = {"shard": "fsdp", "recompute": "full", "micro_batch": micro_batch, **layout}
    stated["global_batch"] = gpus * micro_batch * microbatches
    nodes = max(gpus // 8, 1)
    return sw.predict(
        Run.model_validate(
            {
                "model": model,
                "cluster": cluster,
                "nodes": nodes,
                "seq": 1024,
                "gpus_per_node": gpus // nodes,
                "layout": stated,
                "software": {"framework": "pytorch"},
            }
        )
    )


def at_the_end(found: Prediction) -> list[Offload]:
    """Copies and updates of the host after the last micro batch."""
    operations = found.work.stages[-1].finish[0].operations
    return [one.what for one in operations if isinstance(one.what, Offload)]


some_runs = st.fixed_dictionaries(
    {
        "model": st.sampled_from(["llama-3.1-8b", "qwen3-30b-a3b", "gpt2-xl"]),
        "cluster": st.sampled_from(["dgx-h100", "aws-p4d", "hgx-h200"]),
        "gpus": st.sampled_from([1, 2, 8, 16]),
        "micro_batch": st.sampled_from([1, 8]),
        "microbatches": st.sampled_from([1, 3]),
        "recompute": st.sampled_from(["none", "full"]),
        "master_weights": st.sampled_from(["none", "copy", "stored"]),
        "unit_layers": st.sampled_from([1, 3, 99]),
        "forward_prefetch": st.sampled_from([1, 2]),
        "reshard_after_forward": st.sampled_from([None, True, False]),
        "narrow_weights": st.booleans(),
        "overlap_parameters": st.booleans(),
        "offload_optimizer": st.booleans(),
    }
)


@settings(max_examples=40, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(some_runs)
def test_weights_on_the_host_never_cost_memory_nor_save_time(run):
    """But for the weights that an optimizer on the host need not send back at once: their copies
    may run beside the computation then, so that it alone may get shorter.
    """
    here, there = predicted(**run), predicted(**run, offload_weights=True)
    assert there.memory_bytes <= here.memory_bytes * (1 + 1e-12)
    rest = [one.step_s - float(one.ledger[Cause.HOST_OPTIMIZER]) for one in (here, there)]
    assert rest[1] >= rest[0] * (1 - 1e-9)
    if not run["offload_optimizer"]:
        assert there.step_s >= here.step_s * (1 - 1e-9)
    assert sum(map(float, there.ledger.values())) == pytest.approx(there.step_s)


@pytest.mark.parametrize("gpus", [1, 8])
def test_every_pass_copies_a_rank_s_share(gpus):
    found = predicted(gpus=gpus, microbatches=3, master_weights="copy", **ON_THE_HOST)
    stage = found.work.stages[-1]
    copied = {"weights from the host": 0.0, "gradients to the host": 0.0}
    for block, times in stage.in_a_step(found.work.microbatches):
        for one in block.operations:
            if isinstance(one.what, Offload) and one.name in copied:
                copied[one.name] += float(one.what.bytes * times)
    weights = found.run.model.parameters / gpus
    assert copied["weights from the host"] == pytest.approx(2 * 6 * weights, rel=0.02)
    assert copied["gradients to the host"] == pytest.approx(4 * 3 * weights, rel=0.02)
    assert [one.bytes for one in at_the_end(found)] == [0]  # gradients are there, weights stay


def test_an_optimizer_on_the_device_sends_its_weights_to_the_host():
    found = predicted(offload_weights=True, master_weights="copy")
    own = 2 * found.run.model.parameters / 8
    assert [float(one.bytes) for one in at_the_end(found)] == pytest.approx([own], rel=0.01)
    assert float(found.ledger[Cause.EXPOSED_OFFLOAD]) > 0


def test_copies_hide_behind_a_long_computation_only():
    """One card copies 32 GB over PCIe 5 for each of two passes: 1.2 s."""
    there: dict[str, Any] = {
        "gpus": 1,
        "microbatches": 1,
        "offload_weights": True,
        "offload_optimizer": True,
    }
    short, long = predicted(**there), predicted(**there, micro_batch=16)
    on_link = [one for one in short.work.stages[-1].forward[1] if one.stream is Stream.GATHER]
    assert [one.name for one in on_link] == ["weights from the host"]
    waited = [float(one.ledger[Cause.EXPOSED_OFFLOAD]) for one in (short, long)]
    assert 0.9 < waited[0] < 1.2
    assert waited[1] < 0.15


def test_what_stays_on_the_device_is_not_copied_again():
    kept = predicted(offload_weights=True, reshard_after_forward=False)
    names = [one.name for block in kept.work.stages[-1].backward for one in block.operations]
    assert "weights from the host" not in names


@pytest.mark.parametrize(
    ("wrong", "field"),
    [
        ({"offload_weights": True, "shard": "zero1"}, "offload_weights"),
        ({"offload_weights": True, "pp": 2}, "offload_weights"),
        ({"offload_gradients": True}, "offload_gradients"),
        ({"offload_gradients": True, "offload_optimizer": True, "shard": "zero1"}, "offload_gradients"),
    ],
)
def test_layouts_that_nobody_offers(wrong, field):
    with pytest.raises(ValidationError, match=field):
        predicted(**wrong)


@pytest.mark.parametrize("gpus", [1, 8])
def test_an_open_sharding_follows_from_what_is_on_the_host(gpus):
    assert predicted(gpus=gpus, offload_weights=True, shard=None).run.layout.shard == Shard.FSDP
    there: dict[str, Any] = {"offload_gradients": True, "offload_optimizer": True}
    found = predicted(gpus=gpus, shard=None, **there)
    assert gpus == 1 or found.run.layout.shard >= Shard.ZERO2


@pytest.mark.parametrize("gradients", [False, True])
def test_many_layouts_at_once_are_what_each_is_alone(gradients):
    there = {"offload_optimizer": True, "offload_gradients": gradients, "offload_weights": True}
    run = predicted(**there).run
    pricing = sw.predict(run).pricing
    layouts = [
        predicted(overlap_gradients=overlap, tp=tp, **there).run.layout
        for overlap in (False, True)
        for tp in (1, 2)
    ]
    found = timed_layouts(pricing, run.model, run.cluster, layouts, run.seq)
    for layout, one in zip(layouts, found, strict=True):
        alone = pricing.step(run.model, layout, run.seq, run.cluster)
        assert one.step_s == pytest.approx(float(alone.step_s), rel=1e-9)
        assert one.memory_bytes == pytest.approx(step_memory(run.model, layout, run.seq).total)
