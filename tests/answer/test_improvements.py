"""What to change: each proposal is what the model says of the changed run, nothing else."""

import pytest

import syncwall as sw
from syncwall.answer.improvements import improvements
from syncwall.answer.site import Site
from tests.answer.known_steps import known


def run(**layout):
    return sw.Run(
        model="llama-3.1-70b",
        cluster=sw.cluster("dgx-h100", nodes=32),
        layout=sw.Layout(**{"tp": 8, "shard": "fsdp", "global_batch": 256, **layout}),
    )


@pytest.mark.parametrize(
    "layout",
    [{}, {"pp": 4, "micro_batch": 1}, {"shard": "ddp", "pp": 2}, {"micro_batch": 8}],
    ids=["fsdp", "pipeline", "ddp", "large micro batch"],
)
def test_a_proposal_brings_what_its_own_prediction_says(layout):
    now = sw.predict(run(**layout))
    found = improvements(now, 5)
    assert found
    for one in found:
        then = sw.predict(one.run)
        assert one.gained_s == pytest.approx(now.step_s - then.step_s, rel=1e-9, abs=1e-12)
        assert one.memory_bytes == pytest.approx(then.memory_bytes - now.memory_bytes, abs=1.0)
        assert then.fits


def test_recomputation_that_follows_from_a_change_is_named_with_its_modules():
    """More stages leave room for what was recomputed: the memory that it takes has a reason."""
    layout = sw.Layout(tp=8, pp=16, global_batch=2048)
    asked = sw.Run(model="llama-3.1-405b", cluster=sw.cluster("dgx-h100", nodes=2048), layout=layout)
    now = sw.predict(asked)
    for one in improvements(now, 8):
        before, after = now.run.layout, one.run.layout
        fields = ("recompute", "recompute_modules", "recompute_layers")
        differs = any(getattr(before, name) != getattr(after, name) for name in fields)
        assert ("recompute" in one.also) == (differs and "recompute" not in one.fields), one


def test_known_runs_of_the_site_count_for_proposals_too():
    site = Site((known(1.2),))
    now = sw.predict(run(), site=site)
    best = improvements(now)[0]
    then = sw.predict(best.run, site=site)
    assert best.gained_s == pytest.approx(now.step_s - then.step_s)


def test_the_fields_are_the_change():
    now = sw.predict(run())
    for one in improvements(now, 5):
        assert sw.predict(run().changed(**one.fields)).run == one.run


def test_a_run_that_nothing_makes_fit_may_grow_or_use_its_hosts():
    asked = sw.Run(model="llama-3.1-70b", cluster="dgx-h100", nodes=1)
    now = sw.predict(asked)
    grown, moved = improvements(now)
    assert grown.change == "nodes 4"
    assert moved.fields == {"offload_optimizer": True, "offload_gradients": True}
    then = sw.predict(asked.changed(**moved.fields))
    assert then.fits
    assert not sw.predict(asked.changed(offload_optimizer=True)).has_headroom
    assert moved.gained_s == pytest.approx(now.step_s - then.step_s)


def test_weights_too_go_to_the_host_of_a_small_card():
    asked = sw.Run(model="qwen3-32b", cluster="workstation-pcie-4x4090", nodes=1)
    (moved,) = improvements(sw.predict(asked))
    assert moved.change == "offload_optimizer, offload_gradients, offload_weights"
    assert sw.predict(asked.changed(**moved.fields)).fits


def test_one_card_alone_streams_its_weights():
    asked = sw.Run(model="llama-3.1-8b", cluster=sw.cluster("workstation-pcie-4x4090", 1, 1))
    (moved,) = improvements(sw.predict(asked))
    then = sw.predict(asked.changed(**moved.fields))
    assert then.fits
    assert then.run == moved.run
    assert then.run.layout.offload_weights


def test_proposals_are_sorted_and_worth_it():
    now = sw.predict(run())
    gains = [one.gained_s for one in improvements(now, 10)]
    assert gains == sorted(gains, reverse=True)
    assert min(gains) > 0.005 * now.step_s


def advice(model, cluster, gpus=None, seq=None, framework=None, **layout):
    """Names of the fields that the first ten proposals change, with their new values."""
    asked = {"model": model, "cluster": cluster, "layout": layout, "software": {"framework": framework}}
    run = sw.Run.model_validate({**asked, "gpus": gpus, "seq": seq})
    return [(one.fields, one) for one in improvements(sw.predict(run), 10)]


@pytest.mark.parametrize(
    ("asked", "never"),
    [
        ({"model": "llama-3.1-8b", "cluster": "3x4090", "framework": "pytorch", "lora": 16}, "pp"),
        ({"model": "llama-3.1-8b", "cluster": "4x4090", "lora": 16}, "pp"),
        ({"model": "vit-h-14", "cluster": "4x4090", "global_batch": 256}, "pp"),
        ({"model": "llama-3.1-70b", "cluster": "dgx-h100", "gpus": 128, "framework": "pytorch"}, "pp"),
        ({"model": "llama-3.1-405b", "cluster": "dgx-h100", "gpus": 1024, "tp": 8, "pp": 16}, "cp"),
    ],
    ids=["adapters", "one node", "encoder", "plain PyTorch", "8k tokens"],
)
def test_nobody_is_advised_what_such_runs_do_not_do(asked, never):
    assert all(fields.get(never, 1) <= asked.get(never, 1) for fields, _ in advice(**asked))


def test_long_sequences_may_be_split():
    asked = {
        "model": "llama-3.1-8b",
        "cluster": "dgx-h100",
        "gpus": 64,
        "recompute": "full",
        "micro_batch": 1,
    }
    fields = advice(**asked, seq=131072, global_batch=16, tp=4, cp=1, sp=False)
    assert any(one.get("cp", 1) > 1 for one, _ in fields)


def test_each_proposal_says_how_likely_it_helps():
    found = [one for _, one in advice("llama-3.1-70b", "dgx-h100", gpus=256, tp=8, global_batch=512)]
    assert all(0.5 < one.probability < 1 for one in found)
    assert [one.gained_s for one in found] == sorted((one.gained_s for one in found), reverse=True)
