"""The sync wall: curves, where they fall, why, and what moves them."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import syncwall as sw
from syncwall.answer.pricing import Pricing
from syncwall.describe import Layout, Run
from syncwall.plan.choices import Scaling
from syncwall.plan.network_scaling import PricedCase, Wires
from syncwall.plan.reference import start_of
from syncwall.plan.wall.curve import curve, picked, strong_rungs, weak_rungs
from syncwall.plan.wall.moves import Setup, WallChange, changes, island
from syncwall.plan.wall.sync_wall import losses, peak, sync_wall, wall_of, walls
from syncwall.problems import InputError
from syncwall.work.memory import fits
from syncwall.work.operations import Collective
from syncwall.work.transformer_step import transformer_step
from tests.describe.stated import stated

MODEL = sw.model("llama-3.1-8b")
CLUSTER = sw.cluster("dgx-h100", nodes=1)
LAYOUTS = {
    "ddp": Layout(recompute="full"),
    "fsdp": Layout(shard="fsdp"),
    "hsdp": Layout(shard="fsdp", shard_degree=8),
    "tp": Layout(tp=4, sp=True, shard="zero1"),
    "pipeline": Layout(pp=4, tp=2, shard="zero1", schedule="interleaved", virtual_stages=2),
}


def setup(name="fsdp", batch=512, each=4, most=2**15, **fields):
    layout = LAYOUTS[name].model_copy(update=fields).resolved(8)
    return Setup(PricedCase(MODEL, CLUSTER, 4096, Pricing.on(CLUSTER)), layout, batch, each, most)


@pytest.mark.parametrize("scaling", list(Scaling))
@pytest.mark.parametrize("name", ["fsdp", "hsdp", "tp", "pipeline"])
def test_a_curve_is_what_predict_says_at_every_count(name, scaling):
    """Arrays over counts and single predictions agree."""
    one = setup(name, micro_batch=1)
    found = curve(one.case, one.rungs(scaling))
    for index in range(0, len(found.gpus), 7):
        layout = picked(found.layout, index)
        stated = {field: getattr(layout, field) for field in Layout.model_fields}
        run = Run(
            model=MODEL,
            cluster=CLUSTER.with_gpus(int(found.gpus[index])),
            seq=4096,
            layout=Layout.model_validate(stated),
        )
        assert sw.predict(run).step_s == pytest.approx(found.step_s[index], rel=1e-9)


def test_a_domain_of_many_nodes_is_filled_first():
    """On NVL72 the domain grows with the nodes until it is full."""
    cluster = sw.cluster("gb200-nvl72", nodes=1)
    layout = Layout(shard="fsdp").resolved(4)
    case = PricedCase(MODEL, cluster, 4096, Pricing.on(cluster))
    rungs = weak_rungs(layout, cluster, 1, 4096)
    assert rungs is not None
    found = curve(case, rungs)
    for gpus in (8, 72, 2048):
        index = int(np.flatnonzero(found.gpus == gpus)[0])
        run = Run(
            model=MODEL,
            cluster=sw.cluster("gb200-nvl72", gpus // 4),
            seq=4096,
            layout=Layout(shard="fsdp", micro_batch=1, recompute="none"),
        )
        assert sw.predict(run).step_s == pytest.approx(found.step_s[index], rel=1e-9)


def test_whole_nodes_may_come_after_the_last_count():
    """Groups of 7**8 that share one copy fill no whole number of nodes up to a million GPUs."""
    layout = LAYOUTS["hsdp"].model_copy(update={"shard_degree": 7**8}).resolved(8 * 7**8)
    rungs = weak_rungs(layout, CLUSTER, 1, 2**20)
    assert rungs is not None
    assert np.asarray(rungs.dp).tolist() == [1]
    assert weak_rungs(LAYOUTS["pipeline"].resolved(8), CLUSTER, 1, 4) is None


def test_strong_scaling_keeps_the_batch_and_ends_with_it():
    one = setup("fsdp", batch=192)
    found = one.curve(Scaling.STRONG)
    assert set(found.layout.global_batch) == {192}
    assert all(192 % dp == 0 for dp in found.layout.dp)
    top = peak(found, Scaling.STRONG, one.most)
    assert (top.gpus, top.ended_by) == (192, "batch")


def test_a_batch_larger_than_the_range_does_not_end_the_curve():
    one = setup("fsdp", batch=2**20, most=1024)
    assert peak(one.curve(Scaling.STRONG), Scaling.STRONG, one.most).ended_by == "range"


def test_weak_scaling_keeps_the_batch_of_a_replica():
    found = setup("fsdp", each=4).curve(Scaling.WEAK)
    assert set(found.layout.global_batch // found.layout.dp) == {4}
    steps = np.diff(np.log2(found.gpus[found.gpus >= 256]))
    assert steps.max() < 0.1  # fine enough near a threshold
    whole_nodes = found.gpus[found.gpus > 8]
    assert not (whole_nodes % 8).any()


def test_interleaving_gives_the_micro_batch_up_before_itself():
    layout = LAYOUTS["pipeline"].model_copy(update={"micro_batch": 4}).resolved(8)
    found = strong_rungs(layout, CLUSTER, 64, 4096)
    assert found is not None
    fields = (found.dp, found.micro_batch, found.virtual_stages)
    rows = zip(*(np.asarray(field).tolist() for field in fields), strict=True)
    by_replicas = {dp: (micro, virtual) for dp, micro, virtual in rows}
    assert by_replicas[1] == (4, 2)
    assert by_replicas[8] == (2, 2)  # 8 sequences in 4 micro batches, one for each stage
    assert by_replicas[32] == (2, 1)  # 2 sequences cannot fill 4 stages


def test_the_base_is_the_smallest_count_that_fits():
    one = setup("fsdp")
    everything = curve(one.case, one.rungs(Scaling.STRONG))
    enough = np.asarray(fits(everything.memory_bytes, CLUSTER.device))
    assert not enough.all()
    side = sync_wall(one).sides[Scaling.STRONG]
    assert side.base.gpus == everything.gpus[enough].min()
    assert side.curve.efficiency(side.base)[0] == pytest.approx(1.0)


def test_a_run_that_fits_nowhere_says_so():
    model = sw.model("llama-3.1-405b")
    case = PricedCase(model, CLUSTER, 4096, Pricing.on(CLUSTER))
    with pytest.raises(InputError, match="does not fit on any number of GPUs"):
        sync_wall(Setup(case, Layout().resolved(8), 512, 1, 4096))


@settings(max_examples=12, deadline=None)
@given(
    name=st.sampled_from(sorted(LAYOUTS)),
    scaling=st.sampled_from(list(Scaling)),
    power=st.integers(5, 11),
    each=st.sampled_from([1, 2, 8]),
)
def test_a_lower_level_is_never_lost_sooner(name, scaling, power, each):
    found = curve(setup(name).case, setup(name, 2**power, each * 4, 2**16).rungs(scaling))
    held = [wall.holds_to_gpus or 0 for wall in walls(found, found.base)]
    assert held == sorted(held)


@settings(max_examples=12, deadline=None)
@given(
    name=st.sampled_from(sorted(LAYOUTS)),
    scaling=st.sampled_from(list(Scaling)),
    factor=st.floats(1.0, 64.0),
    lever=st.sampled_from(["nic", "latency"]),
)
def test_a_better_network_never_moves_the_wall_nearer(name, scaling, factor, lever):
    one = setup(name)
    layouts = one.rungs(scaling)
    now = curve(one.case, layouts)
    wires = Wires(nic=factor) if lever == "nic" else Wires(latency=1.0 / factor)
    better = curve(one.case, layouts, wires)
    assert (better.step_s <= now.step_s * (1 + 1e-9)).all()
    before = [wall.holds_to_gpus or 0 for wall in walls(now, now.base)]
    after = [wall.holds_to_gpus or 0 for wall in walls(better, now.base)]
    assert all(b <= a for b, a in zip(before, after, strict=True))


@settings(max_examples=8, deadline=None)
@given(name=st.sampled_from(sorted(LAYOUTS)), index=st.integers(1, 200))
def test_causes_add_up_to_what_was_lost(name, index):
    found = setup(name).curve(Scaling.WEAK) or curve(setup(name).case, setup(name).rungs("weak"))
    index = min(index, len(found.gpus) - 1)
    lost = 1.0 / found.efficiency(found.base)[index] - 1.0
    named = losses(found, index)
    if lost > 1e-9:
        assert sum(cause.share for cause in named) == pytest.approx(1.0)
        before, after = found.gpu_s_per_token(0), found.gpu_s_per_token(index)
        more = {cause: after[cause] - before[cause] for cause in after}
        added = {cause: seconds for cause, seconds in more.items() if seconds > 0}
        assert sum(more.values()) == pytest.approx(lost * sum(before.values()))
        shares = {one.cause: one.share for one in named}
        assert shares == pytest.approx({c: s / sum(added.values()) for c, s in added.items()})


def test_a_cause_that_does_not_explain_most_is_not_named():
    side = sync_wall(setup("fsdp")).sides[Scaling.WEAK]
    assert (side.main_cause is None) == (side.losses[0].share < 0.5)


def test_every_change_is_computed_against_the_same_base():
    answer = sync_wall(setup("tp", most=2**14), lambda side: LAYOUTS["hsdp"].resolved(8))
    assert [moved.change for moved in answer.moved] == list(WallChange)
    for moved in answer.moved:
        assert set(moved.walls) == set(answer.sides)
    twice = next(moved for moved in answer.moved if moved.change is WallChange.BATCH)
    assert twice.peaks[Scaling.STRONG].gpus == 2 * answer.sides[Scaling.STRONG].peak.gpus


def test_diloco_keeps_the_work_inside_an_island():
    """Copies meet seldom; what shares one copy still meets at every step."""
    one = setup("fsdp")
    apart = next(s for change, s in changes(one, lambda _: None) if change is WallChange.DILOCO)
    layout = apart[Scaling.WEAK].layout
    assert layout.shard_degree is not None
    assert island(layout) == layout.shard_degree > 1
    stage = transformer_step(MODEL, layout.model_copy(update={"global_batch": 64}), 4096).stages[-1]
    shares = {
        operation.what.group.axis: operation.what.share
        for block in stage.last_backward
        for operation in block
        if isinstance(operation.what, Collective) and operation.name == "gradients"
    }
    assert shares["shard"] == 1
    assert shares["replica"] == pytest.approx(1 / 500)


@pytest.mark.slow
def test_the_best_layout_of_a_count_is_never_slower_than_a_stated_one():
    flags = {
        "model": "llama-3.1-8b",
        "cluster": "dgx-h100",
        "nodes": "1",
        "layout.shard": "fsdp",
        "layout.recompute": "none",
        "layout.micro_batch": "1",
        "layout.global_batch": "64",
        "seq": "4096",
    }
    start = start_of(stated(None, flags))
    kept, best = wall_of(start, 32), wall_of(start, 32, best_layout=True)
    for scaling in Scaling:
        one, other = kept.sides[scaling].curve, best.sides[scaling].curve
        common = sorted(set(one.gpus.tolist()) & set(other.gpus.tolist()))
        assert len(common) >= 3
        for gpus in common:
            slow = one.tokens_per_s[one.gpus == gpus][0]
            assert other.tokens_per_s[other.gpus == gpus][0] >= slow * (1 - 1e-9)


def efficiency(model, cluster, layout, batch, seq, counts, **software):
    case = PricedCase(model, cluster, seq, Pricing.on(cluster, sw.Software(**software)))
    rungs = strong_rungs(layout, cluster, batch, max(counts))
    assert rungs is not None
    found = curve(case, rungs)
    speed = {int(g): float(found.tokens_per_s[i] / g) for i, g in enumerate(found.gpus)}
    return speed[counts[1]] / speed[counts[0]]


def test_llama_3_from_8192_to_16384_gpus():
    """Llama 3 405B, 16 M tokens a step: 430 and 400 TFLOP/s a GPU (arXiv 2407.21783, Table 4)."""
    cluster = sw.cluster("dgx-h100", nodes=1024)
    layout = Layout(
        tp=8, pp=16, shard="fsdp", schedule="interleaved", virtual_stages=7, recompute="none"
    ).resolved(8192)
    model = sw.model("llama-3.1-405b")
    found = efficiency(model, cluster, layout, 2048, 8192, (8192, 16384))
    assert found == pytest.approx(400 / 430, abs=0.03)


def test_megascale_from_3072_to_12288_gpus():
    """175B, batch 6144: 531.9k and 1984.0k tokens/s (MegaScale, arXiv 2402.15627, Table 2)."""
    cluster = sw.cluster("dgx-a100", nodes=384)
    layout = Layout(
        tp=8,
        sp=True,
        pp=8,
        shard="zero1",
        schedule="interleaved",
        virtual_stages=6,
        recompute="selective",
    ).resolved(3072)
    model = sw.model("gpt3-175b")
    found = efficiency(
        model, cluster, layout, 6144, 2048, (3072, 12288), framework="megatron-lm", date="2023-06"
    )
    assert found == pytest.approx(1984.0 / 531.9 / 4, abs=0.05)
