"""Buckets of DDP, and units, prefetch and resharding of FSDP, chosen for the best layouts."""

import pytest

import syncwall as sw
from syncwall.ask.plan import LayoutsQuestion
from syncwall.describe.layout import Layout, Shard
from syncwall.describe.stated import StatedRun
from syncwall.plan.search import SearchResult
from syncwall.plan.tuning import tuned
from syncwall.work.memory import fits

ALONE = {"tp": 1, "pp": 1, "cp": 1, "micro_batch": 1}


@pytest.fixture(scope="module")
def found() -> SearchResult:
    """One sequence a GPU over a slow network: weights and gradients do not hide."""
    cluster = sw.cluster("aws-p4d").using(nodes=16)
    pinned = {**ALONE, "shard": Shard.FSDP}
    return sw.plan.layouts(sw.model("llama-3.1-8b"), cluster, global_batch=128, seq=2048, pinned=pinned)


def test_what_is_proposed_is_what_predict_says_of_it(found):
    for one in found.best(5):
        again = sw.predict(one.run, one.pricing)
        assert one.step_s == pytest.approx(again.step_s, rel=1e-9)
        assert one.memory_bytes == pytest.approx(again.memory.total, rel=1e-9)
        assert fits(one.memory_bytes, one.run.cluster.device)


def test_a_line_a_setting_says_what_it_buys_against_its_default(found):
    best = found.best(1)[0]
    assert [one.name for one in best.tuned] == ["unit_layers", "reshard_after_forward", "prefetch"]
    for one in best.tuned:
        usual = {name: Layout.model_fields[name].default for name in one.fields}
        with_it = sw.predict(best.run.on(best.run.cluster, best.layout.model_copy(update=one.fields)))
        without = sw.predict(best.run.on(best.run.cluster, best.layout.model_copy(update=usual)))
        assert one.gained_s == pytest.approx(without.step_s - with_it.step_s, abs=1e-9)
        more = with_it.memory.total - without.memory.total
        assert one.memory_bytes == pytest.approx(more, abs=1.0)
        assert one.taken == all(getattr(best.layout, n) == v for n, v in one.fields.items())


def test_tuning_is_worth_it_and_never_slower(found):
    plain = {one.layout.shard_degree: one for one in found.untuned(5)}
    quicker = [plain[one.layout.shard_degree].step_s - one.step_s for one in found.best(5)]
    assert min(quicker) >= 0
    assert any(one.taken for one in found.best(1)[0].tuned)


def test_what_the_user_wrote_stays(found):
    run, pricing = found.untuned(1)[0].run, found.pricing
    stated = {"unit_layers": 1, "reshard_after_forward": None}
    kept = tuned(run, pricing, stated)
    assert kept is not None
    assert [one.name for one in kept.settings] == ["prefetch"]
    assert kept.layout.unit_layers == 1


def test_ddp_has_buckets_and_zero1_has_nothing_to_tune():
    cluster = sw.cluster("dgx-h100").using(nodes=2)
    for shard, names in ((Shard.DDP, ["bucket"]), (Shard.ZERO1, [])):
        pinned = {**ALONE, "shard": shard}
        result = sw.plan.layouts(sw.model("gpt2-xl"), cluster, global_batch=64, pinned=pinned)
        assert [one.name for one in result.best(1)[0].tuned] == names


@pytest.mark.parametrize(("kernels", "on"), [("fused", True), ("eager", False)])
def test_async_tp_of_torchtitan_is_tried_where_it_compiles(kernels, on):
    keys = {"model": "llama-3.1-70b", "cluster": "dgx-h100", "gpus": 64, "layout.global_batch": "64"}
    keys |= {"layout.tp": "8", "layout.pp": "1", "layout.cp": "1", "layout.recompute": "full"}
    keys |= {"software.framework": "torchtitan", "software.kernels": kernels}
    plan = LayoutsQuestion(run=StatedRun(keys), settings="torchtitan").answer()
    assert plan.best[0].layout.overlap_tp == on
    assert f"enable_async_tensor_parallel = {str(on).lower()}" in str(plan.settings)
