"""The run that a plan starts from: what nobody stated is chosen, said, and believable."""

from pathlib import Path

import pytest

import syncwall as sw
from syncwall.plan.best_layout import kept
from syncwall.plan.choices import Scaling
from syncwall.plan.network.needed import needed
from syncwall.plan.network.targets import TargetLimits, closed_form
from syncwall.plan.network_scaling import PricedCase
from syncwall.plan.reference import start_of, usual_batch
from syncwall.plan.wall.sync_wall import wall_of
from syncwall.problems import InputError
from tests.describe.stated import stated

EXAMPLES = Path(__file__).parents[2] / "examples"
BASE = {"model": "llama-3.1-8b", "cluster": "dgx-h100"}
STATED = {
    **BASE,
    "nodes": "4",
    "seq": "4096",
    "layout.tp": "2",
    "layout.sp": "true",
    "layout.pp": "1",
    "layout.shard": "zero1",
    "layout.micro_batch": "1",
    "layout.global_batch": "256",
    "layout.recompute": "none",
}


def start(**flags):
    return start_of(stated(None, {**BASE, **{k.replace("__", "."): v for k, v in flags.items()}}))


@pytest.mark.parametrize(
    ("flags", "nodes", "searched"),
    [
        ({"layout__tp": "8", "layout__pp": "4"}, 64, False),
        ({}, 64, True),
        ({"nodes": "8"}, 8, True),
        ({"gpus": "64"}, 8, True),
        ({"nodes": "8", "layout__shard": "fsdp"}, 8, False),
    ],
)
def test_what_nobody_stated_is_chosen_and_said(flags, nodes, searched):
    """512 sequences of 8,192 tokens are 4 Mi; on 512 GPUs each has 8,192 of them."""
    found = start(**flags)
    assert found.layout_searched is searched
    assert found.run.nodes == nodes
    assert found.prediction.fits
    assert found.assumed["global_batch"] == "512 (assumed: 4 million tokens)"
    assert found.replica_batch == 512 // found.run.layout.dp
    assert ("gpus" in found.assumed) is not ({"nodes", "gpus"} & set(flags) != set())


def test_a_search_keeps_what_is_trained():
    found = start(nodes="1", layout__global_batch="64", layout__document="512")
    assert found.run.layout.document_tokens == 512
    moved = kept(found.run.layout.model_copy(update={"frozen_weights": True}))
    assert moved["document_tokens"] == 512
    assert moved["frozen_weights"]


def test_a_stated_batch_on_stated_nodes_is_that_of_weak_scaling():
    found = start(nodes="4", layout__shard="fsdp", layout__global_batch="256")
    assert found.replica_batch == 8
    assert "global_batch" not in found.assumed


def test_a_batch_that_nobody_stated_can_always_be_shared_out():
    """512 sequences are too few for 16,384 replicas: each has one."""
    found = start(gpus="16384", layout__shard="fsdp")
    assert found.run.layout.global_batch == 16_384
    assert found.assumed["global_batch"] == "16,384 (a multiple of 16,384, so that replicas get equal parts)"
    with pytest.raises(InputError, match="not a multiple of micro_batch 1 x dp 16384"):
        start(gpus="16384", layout__shard="fsdp", layout__global_batch="512")


def test_a_published_batch_is_taken_and_rounded():
    model = sw.model("llama-3.1-70b").model_copy(update={"train_batch_tokens": 16e6})
    assert usual_batch(model, 8192) == (1920, "as published for llama-3.1-70b")  # 1,953.1
    few = model.model_copy(update={"train_batch_tokens": 1e6})
    assert usual_batch(few, 8192)[0] == 128  # 122: a power of two
    assert usual_batch(sw.model("llama-3.1-70b"), 8192) == (512, "assumed: 4 million tokens")


def test_gpus_and_nodes_are_two_ways_to_say_the_same():
    """The batch that was stated stays with both."""
    layout = {"layout__tp": "4", "layout__shard": "fsdp", "layout__global_batch": "512"}
    by_gpus, by_nodes = start(gpus="256", **layout), start(nodes="32", **layout)
    assert by_gpus.run == by_nodes.run
    assert by_gpus.run.layout.global_batch == 512
    first, second = (needed(one, [256], TargetLimits())[0] for one in (by_gpus, by_nodes))
    assert first.nic_bytes_per_s == second.nic_bytes_per_s


def test_every_plan_starts_from_the_step_of_predict():
    """A run in which all is stated takes as long in plans as alone."""
    found = start_of(stated(None, STATED))
    alone = sw.predict(found.run).step_s
    assert not found.layout_searched
    assert found.prediction.step_s == alone
    (need,) = needed(found, [], TargetLimits())
    assert need.step_s == pytest.approx(alone, rel=1e-9)
    for side in wall_of(found, 64, searching=False).sides.values():
        at = side.curve.gpus.tolist().index(32)
        assert side.curve.step_s[at] == pytest.approx(alone, rel=1e-9)
    assert set(wall_of(found, 64, searching=False).sides) == set(Scaling)


def test_a_stack_of_layers_starts_from_samples():
    """2,048 of them, 32 a GPU, and the FLOPs that it states: not two for each parameter."""
    found = start(model=str(EXAMPLES / "models" / "resnet-50.yaml"))
    assert found.run.layout.global_batch == 2048
    assert found.run.gpus == 2048 / 32
    assert found.assumed["gpus"] == "64 (about 32 samples of a step each)"
    arithmetic = closed_form(PricedCase.of(found.run, found.prediction.pricing), found.run.layout)
    assert arithmetic is not None
    peak = found.run.cluster.device.sixteen_bit_flop_per_s
    assert arithmetic.compute_s == pytest.approx(3 * 8.178e9 * 32 / (peak / 2), rel=1e-3)
