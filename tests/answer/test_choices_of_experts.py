"""What is left open is chosen as whoever tunes such runs would: laws over random runs."""

from collections.abc import Iterable
from typing import Any

import pytest
from hypothesis import HealthCheck, assume, given, settings
from hypothesis import strategies as st
from pydantic import ValidationError

import syncwall as sw
from syncwall.answer.priced import likely_fits
from syncwall.answer.settled import SAFETY, complete_layouts
from syncwall.cost.framework_costs import framework_or_default
from syncwall.describe import Cluster, Layout, Run, Software
from syncwall.describe.base import OPEN, Provenance, SourcedNumber
from syncwall.describe.layout import Recompute, Shard
from syncwall.units import Dimension

SLACK = (1.0 + SAFETY) * 1.05 * 1.01 * 1.02
"""A surer fit may cost 5 %, the usual sharding 5 %, fewer stages 1 %, smaller micro batches 2 %."""
law = settings(max_examples=500, suppress_health_check=[HealthCheck.filter_too_much, HealthCheck.too_slow])
powers = {"tp": (0, 3), "pp": (0, 2)}


@st.composite
def described(draw: Any) -> Run:
    """A run that leaves sharding, micro batch, virtual stages and recomputation open."""
    layout = {name: 2 ** draw(st.integers(*ends)) for name, ends in powers.items()}
    if draw(st.booleans()):
        layout["global_batch"] = 2 ** draw(st.integers(5, 10))
    try:
        return Run(
            model=draw(st.sampled_from(["llama-3.1-8b", "llama-3.1-70b", "mixtral-8x7b", "gpt2-xl"])),
            cluster=draw(st.sampled_from(["dgx-h100", "dgx-h200", "gb200-nvl72"])),
            gpus=2 ** draw(st.integers(3, 9)),
            layout=layout,
            software=Software(framework=draw(st.sampled_from(["megatron-core", "torchtitan", "pytorch"]))),
        )
    except ValidationError:
        assume(False)
        raise


def chosen(run: Run) -> sw.Prediction:
    found = sw.predict(run)
    assume(found.has_headroom)
    return found


def larger(cluster: Cluster) -> Cluster:
    """The machine with half as much memory again."""
    memory = cluster.device.memory
    size = SourcedNumber(1.5 * float(memory.size_bytes), Dimension.BYTES, Provenance())
    device = cluster.device.model_copy(update={"memory": memory.model_copy(update={"size_bytes": size})})
    node = cluster.node.model_copy(update={"device": device})
    return cluster.model_copy(update={"node": node})


@pytest.mark.slow
@law
@given(described(), st.sampled_from(["fp8", "mxfp8"]))
def test_no_choice_makes_a_narrower_precision_slower(run, precision):
    """Small models may be: the casts of their small tensors take longer than what they save."""
    alike = chosen(chosen(run).run.changed(precision=precision))
    assert chosen(run.changed(precision=precision)).step_s <= alike.step_s * SLACK


def test_narrower_formats_are_each_faster():
    steps = []
    for precision in ("bf16", "fp8", "nvfp4"):
        layout = Layout(precision=precision, global_batch=128)
        run = Run(model="llama-3.1-8b", cluster="gb200-nvl72", gpus=64, layout=layout)
        steps.append(sw.predict(run).step_s)
    assert steps == sorted(steps, reverse=True)


def one_of(values: Iterable[Any], place: int) -> Any:
    several = sorted(values)
    return several[place % len(several)]


@pytest.mark.slow
@law
@given(described())
def test_more_memory_is_not_slower(run):
    now = chosen(run)
    roomy = chosen(run.model_copy(update={"cluster": larger(run.cluster)}))
    assert roomy.step_s <= now.step_s * SLACK


@pytest.mark.slow
@law
@given(described(), st.sampled_from(["shard", "recompute", "micro_batch"]), st.integers(0, 11))
def test_leaving_more_open_is_not_slower(run, name, place):
    family = framework_or_default(run.software.framework)
    several: dict[str, Any] = {
        "shard": family.shards,
        "recompute": family.recomputes,
        "micro_batch": (1, 2, 4),
    }
    try:
        stated = run.changed(**{name: one_of(several[name], place)})
    except ValidationError:
        assume(False)
        raise
    assert sw.predict(run).step_s <= chosen(stated).step_s * SLACK


@pytest.mark.slow
@law
@given(described(), st.integers(0, 11), st.integers(0, 11))
def test_a_sure_fit_is_taken_where_it_costs_little(run, first, second):
    now = chosen(run)
    family = framework_or_default(run.software.framework)
    assume(not likely_fits(now.memory_bytes, now.cluster.device))
    stated = {"shard": one_of(family.shards, first), "recompute": one_of(family.recomputes, second)}
    try:
        other = sw.predict(run.changed(**stated))
    except ValidationError:
        return
    if likely_fits(other.memory_bytes, other.cluster.device):
        assert other.step_s > now.step_s * (1.0 + SAFETY)


@pytest.mark.parametrize("name", ["vit-h-14", "llama-3.1-8b"])
def test_a_batch_that_nobody_states_keeps_gpus_busy_and_is_said(name):
    found = sw.predict(Run(model=name, cluster="dgx-h100", nodes=1, software=Software(framework="pytorch")))
    assert found.run.tokens_per_step >= 8 * 8192
    assert found.mfu > 0.25
    assert "global_batch" in {one.field for one in found.chosen}
    stated = found.run.changed(global_batch=found.run.layout.global_batch)
    assert "global_batch" not in {one.field for one in sw.predict(stated).chosen}


def test_a_batch_that_nobody_states_is_one_that_people_train_with():
    layout = Layout(tp=8, pp=16)
    run = Run(model="llama-3.1-405b", cluster="dgx-h100", nodes=2048, layout=layout)
    assert run.layout.global_batch == 2048  # as published, not a sequence for each of 16,384 GPUs
    unpublished = run.model.model_copy(update={"train_batch_tokens": None})
    assert Run(model=unpublished, cluster="dgx-h100", nodes=2048, layout=layout).tokens_per_step == 2**24


def test_samples_that_nobody_states_can_be_shared_by_micro_batches():
    run = Run(model="vit-b-16", cluster="dgx-h100", gpus=1)  # 197 tokens an image: 41.6 of 8,192
    assert run.layout.global_batch == 64


def test_virtual_stages_that_are_chosen_can_be_run():
    """Llama 3's 126 layers are 16 stages of 8 with the embedding and the output layer, not of 7."""
    layout = Layout(tp=8, pp=16, global_batch=2048)
    run = Run(model="llama-3.1-405b", cluster="dgx-h100", nodes=2048, layout=layout)
    assert {one.virtual_stages for one in complete_layouts(run)} == {1, 2, 4, 8}


def test_recomputation_is_chosen_between_nothing_and_everything():
    layout = Layout(tp=8, pp=16, global_batch=2048)
    run = Run(model="llama-3.1-405b", cluster="dgx-h100", nodes=2048, layout=layout)
    found = sw.predict(run)
    everything = sw.predict(run.changed(recompute="full"))
    assert found.run.layout.recompute == Recompute.SELECTIVE
    assert found.step_s < 0.97 * everything.step_s


@pytest.mark.parametrize("recompute", ["none", "full"])
def test_dualpipe_overlaps_the_exchange_of_experts(recompute):
    layout = Layout(pp=16, ep=64, global_batch=15360, schedule="dualpipe", recompute=recompute)
    software = Software(framework="megatron-core")
    run = Run(model="deepseek-v3", cluster="dgx-h100", nodes=256, layout=layout, software=software)
    assert sw.predict(run).run.layout.overlap_ep


def test_adapters_are_checkpointed_before_they_fit_by_a_hair():
    layout = Layout(lora={"rank": 16, "weights": "nf4"}, frozen_weights=True)
    run = Run(
        model="llama-3.1-8b",
        cluster="workstation-pcie-4x3090",
        gpus=1,
        seq=2048,
        layout=layout,
        software=Software(framework="pytorch"),
    )
    assert likely_fits(sw.predict(run).memory_bytes, run.cluster.device)


def megatron_of(date: str) -> Run:
    layout = Layout(tp=8, pp=4, global_batch=1792)
    software = Software(framework="megatron-lm", date=date)
    return Run(model="gpt3-175b", cluster="dgx-a100", nodes=128, seq=2048, layout=layout, software=software)


def test_nothing_is_chosen_that_came_later():
    """The distributed optimizer and selective recomputation came to Megatron-LM in 2022."""
    early, late = (complete_layouts(megatron_of(date)) for date in ("2021-06", "2022-12"))
    assert {one.shard for one in early} == {Shard.DDP}
    assert {one.recompute for one in early} == {Recompute.NONE, Recompute.FULL}
    assert {one.shard for one in late} == {Shard.DDP, Shard.ZERO1}
    assert Recompute.SELECTIVE in {one.recompute for one in late}


def zero1_of(nodes: int, framework: str) -> Layout:
    layout = Layout(global_batch=8 * 8 * nodes, shard="zero1", micro_batch=2)
    software = Software(framework=framework)
    run = Run(model="llama-2-7b", cluster="dgx-a100", nodes=nodes, seq=2048, layout=layout, software=software)
    open_shard = run.layout.model_copy(update={"shard": OPEN, "shard_degree": OPEN})
    return sw.predict(run.model_copy(update={"layout": open_shard})).run.layout


def test_the_optimizer_is_shared_inside_a_node_where_that_is_much_faster():
    """InternEvo's broadcasts pass every rank; its configurations share it inside a node."""
    many, few = zero1_of(128, "internevo"), zero1_of(2, "internevo")
    assert (many.shard, many.shard_degree) == (Shard.ZERO1, 8)
    assert few.shard_degree == few.dp
    assert zero1_of(128, "nanotron").shard_degree == 1024  # it cannot do otherwise


def test_ranks_that_share_a_layer_are_given_more_tokens():
    layout = Layout(tp=8, global_batch=256)
    software = Software(framework="nanotron")
    run = Run(model="llama-3.1-8b", cluster="dgx-h100", nodes=32, seq=4096, layout=layout, software=software)
    assert max(one.micro_batch for one in complete_layouts(run)) == 8
    alone = run.model_copy(update={"layout": Layout(global_batch=2048).placed(256)})
    assert max(one.micro_batch for one in complete_layouts(alone)) == 4


def test_torchtitan_cuts_the_layers_of_a_rank_in_two_where_nobody_says():
    layout = Layout(tp=8, pp=8, global_batch=64)
    software = Software(framework="torchtitan")
    run = Run(model="llama-3.1-405b", cluster="dgx-h100", nodes=64, layout=layout, software=software)
    assert {one.virtual_stages for one in complete_layouts(run)} == {1, 2}
