"""The search evaluates what `predict` would say of each layout, and misses none."""

from functools import partial
from itertools import product

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pydantic import ValidationError

import syncwall as sw
from syncwall.answer.improvements import divisors
from syncwall.answer.pricing import Pricing
from syncwall.answer.settled import SAFETY
from syncwall.cost.framework_costs import framework_or_default
from syncwall.describe.layout import Dispatcher, Recompute, Schedule, Shard
from syncwall.describe.rules import not_offered
from syncwall.plan.recommendation import recommended
from syncwall.plan.search import CLOSE, KEPT, Candidate, Kind, _kept, search
from syncwall.plan.space import Space, grids
from syncwall.problems import InputError
from syncwall.work.memory import HEADROOM, step_memory

SEQ, BATCH = 4096, 32
MODEL = sw.model("llama-3.1-8b")
CLUSTER = sw.cluster("dgx-h100", nodes=2)
REDUCED = {
    "cp": 1,
    "tp": (1, 4),
    "micro_batch": (1, 2),
    "recompute": (Recompute.NONE, Recompute.FULL),
    "recompute_layers": (None,),
    "shard": (Shard.ZERO1, Shard.FSDP),
    "overlap_pp": True,
    "balanced_stages": False,
}


def one_by_one():
    """Every layout of the reduced space by plain loops, each predicted alone."""
    both = (False, True)
    whole = product(
        (1, 4),
        (1, 2, 4, 8),
        range(1, 18),
        (1, 2),
        (Recompute.NONE, Recompute.FULL),
        (Shard.ZERO1, Shard.FSDP),
        (8, 32, 128, 0),
        both,
        both,
        both,
    )
    for tp, pp, virtual, micro, recompute, shard, near, sp, overlap_tp, overlap in whole:
        dp = CLUSTER.gpus // tp // pp
        degree = near // tp if near else dp
        even = any(layers % (pp * virtual) == 0 for layers in (MODEL.layers, MODEL.layers + 2))
        if dp < 2 or (near and not 1 < degree < dp) or overlap_tp > (tp > 1):
            continue
        if virtual > 1 and (pp == 1 or not even):
            continue
        schedule = Schedule.INTERLEAVED if virtual > 1 else Schedule.ONE_F_ONE_B
        try:
            layout = sw.Layout(
                tp=tp,
                pp=pp,
                virtual_stages=virtual,
                schedule=schedule,
                micro_batch=micro,
                sp=sp,
                recompute=recompute,
                shard=shard,
                shard_degree=degree,
                overlap_tp=overlap_tp,
                overlap_gradients=overlap,
                balanced_stages=False,
                global_batch=BATCH,
            )
            run = sw.Run(model=MODEL, cluster=CLUSTER, seq=SEQ, layout=layout)
        except ValidationError:
            continue
        found = sw.predict(run)
        if found.has_headroom and not not_offered(framework_or_default(None), None, found.run.layout):
            build = partial(getattr, found, "run")
            yield Candidate(build, run.gpus, found.step_s, found.memory_bytes, found.pricing)


@pytest.fixture(scope="module")
def exhaustive():
    return list(one_by_one())


@pytest.mark.slow
def test_the_best_is_that_of_an_exhaustive_search_one_by_one(exhaustive):
    both = dict.fromkeys(("overlap_tp", "overlap_gradients"), (False, True))
    pinned = {**REDUCED, **both, "pp": (1, 2, 4, 8)}
    found = search(MODEL, CLUSTER, seq=SEQ, global_batch=BATCH, pinned=pinned)
    assert found.fitting == len(exhaustive)
    fastest = found.fastest()
    assert fastest is not None
    assert fastest.step_s == pytest.approx(min(one.step_s for one in exhaustive), rel=1e-12)
    wanted, best = recommended(exhaustive, "fastest")[0], found.best(1)[0]
    assert (best.is_sure, best.unusual) == (wanted.is_sure, wanted.unusual)
    assert best.step_s <= wanted.step_s * (1.0 + 1e-12)


def test_every_layout_of_a_grid_is_what_predict_says_of_it():
    space = Space.of(MODEL, SEQ, BATCH, sw.Software(), {"cp": (1, 2)})
    random = np.random.default_rng(0)
    for grid in grids(space, CLUSTER):
        time = Pricing.on(CLUSTER).step(MODEL, grid.layouts, SEQ, CLUSTER)
        seconds = np.broadcast_to(time.step_s, grid.shape)
        memory = np.broadcast_to(step_memory(MODEL, grid.layouts, SEQ).total, grid.shape)
        places = np.argwhere(np.broadcast_to(grid.allowed, grid.shape))
        for place in random.choice(places, 12):
            layout = grid.layout(place)
            one = sw.predict(sw.Run(model=MODEL, cluster=CLUSTER, seq=SEQ, layout=layout))
            assert one.run.layout == layout
            assert seconds[tuple(place)] == pytest.approx(one.step_s, rel=1e-11)
            assert memory[tuple(place)] == pytest.approx(one.memory_bytes, rel=1e-11)


WHOLE = [
    (MODEL, CLUSTER, {"cp": 1, "tp": (1, 2), "micro_batch": (1, 2)}),
    (sw.model("llama-2-70b"), sw.cluster("dgx-a100", nodes=4), {"cp": 1, "tp": (4, 8), "micro_batch": 1}),
    (sw.model("mixtral-8x7b"), sw.cluster("dgx-h100", nodes=4), {"cp": 1, "tp": (1, 4), "etp": 1}),
]


@pytest.mark.parametrize(("model", "cluster", "pinned"), WHOLE)
def test_what_is_not_priced_is_not_among_the_best(model, cluster, pinned, monkeypatch):
    pruned = search(model, cluster, seq=SEQ, global_batch=BATCH, pinned=pinned)
    priced = []

    def price_all(some, bound_s, asked, found):
        priced.append(int(some.wanted.sum()))
        _kept(some, asked, found)

    monkeypatch.setattr("syncwall.plan.search._keep_rest", price_all)
    whole = search(model, cluster, seq=SEQ, global_batch=BATCH, pinned=pinned)
    assert sum(priced) > 1_000
    for kind in Kind:
        mine, its = (sorted(one.kinds[kind].values(), key=_expected)[:KEPT] for one in (pruned, whole))
        assert [one.layout for one in mine] == [one.layout for one in its]
    assert [one.layout for one in pruned.best(5)] == [one.layout for one in whole.best(5)]
    assert _points(pruned) == pytest.approx(_points(whole), rel=2 * CLOSE)


def _expected(one):
    return one.expected_s


def _points(found):
    """Time and memory of every point of the front."""
    return [value for one in found.front for value in (one.step_s, one.memory_bytes)]


def test_no_layout_is_counted_twice():
    space = Space.of(MODEL, SEQ, 16, sw.Software(), {"cp": (1, 2), "micro_batch": 1})
    seen = set()
    count = 0
    for grid in grids(space, CLUSTER):
        for place in np.argwhere(np.broadcast_to(grid.allowed, grid.shape)):
            count += 1
            if count % 7 == 0:
                seen.add(repr(grid.layout(place.tolist())))
    assert count > 1_000
    assert len(seen) == count // 7


def test_pinned_fields_stay():
    pinned = {"tp": 2, "pp": (1, 2), "shard": Shard.FSDP}
    found = search(MODEL, CLUSTER, seq=SEQ, global_batch=BATCH, pinned=pinned)
    layouts = [one.layout for one in found.best(50)]
    assert {layout.tp for layout in layouts} == {2}
    assert {layout.pp for layout in layouts} == {1, 2}
    assert {layout.shard for layout in layouts} == {Shard.FSDP}


def test_objectives_over_a_range_of_sizes():
    sizes = [sw.cluster("dgx-h100", nodes=n) for n in (1, 2, 4)]
    pinned = {"cp": 1, "pp": 1, "recompute": (Recompute.NONE, Recompute.FULL)}
    found = search(MODEL, sizes, seq=SEQ, global_batch=BATCH, pinned=pinned)
    fastest, cheapest, smallest = (
        found.best(1, objective)[0] for objective in ("fastest", "cheapest", "smallest")
    )
    every, near = found.families.values(), 1.0 + SAFETY
    assert fastest.step_s <= near * min(one.step_s for one in every)
    assert cheapest.gpu_s <= near * min(one.gpu_s for one in every)
    assert smallest.gpus == min(one.gpus for one in every)
    quick = found.best(1, "smallest", within_s=fastest.step_s * 1.01)[0]
    assert quick.step_s <= fastest.step_s * 1.01


def test_points_of_the_front_do_not_beat_each_other():
    found = search(MODEL, CLUSTER, seq=SEQ, global_batch=BATCH, pinned={"cp": 1})
    points = list(found.front)
    assert len(points) > 3
    for one in points:
        assert not any(other.beats(one) for other in points if other is not one)
    assert points[0].step_s == pytest.approx(found.untuned(1)[0].step_s, rel=1e-9)
    run = sw.Run(model=MODEL, cluster=CLUSTER, seq=SEQ, layout=points[-1].layout())
    assert sw.predict(run).memory_bytes == pytest.approx(points[-1].memory_bytes, rel=1e-9)


@pytest.mark.parametrize(("gpus", "batch"), [(720_720, 720_720), (1024, 735_134_400)])
def test_a_space_without_end_is_refused_before_it_is_counted(gpus, batch):
    cluster = sw.cluster("dgx-h100").with_gpus(gpus)
    with pytest.raises(InputError, match=f"a global batch of {batch:,} on {gpus:,} GPUs"):
        search(sw.model("deepseek-v3"), cluster, global_batch=batch)


def test_a_model_too_large_finds_nothing_but_says_what_comes_nearest():
    found = search(sw.model("llama-3.1-405b"), sw.cluster("dgx-h100"), seq=8192, global_batch=8)
    assert not found.best()
    assert found.smallest is not None
    assert found.smallest.memory_bytes > CLUSTER.device.memory.size_bytes


def test_some_memory_stays_free():
    found = search(MODEL, CLUSTER, seq=SEQ, global_batch=BATCH, pinned={"cp": 1})
    most = CLUSTER.device.memory.size_bytes * (1 - HEADROOM)
    assert all(one.memory_bytes <= most for one in found.families.values())


def test_experts_are_spread():
    cluster = sw.cluster("dgx-h100", nodes=8)
    pinned = {"cp": 1, "tp": (1, 2), "pp": (1, 2), "micro_batch": 1}
    found = search(sw.model("mixtral-8x7b"), cluster, seq=4096, global_batch=128, pinned=pinned)
    assert {one.layout.ep for one in found.families.values()} >= {1, 2, 4, 8}


def test_a_field_that_is_not_searched_takes_one_value():
    with pytest.raises(InputError, match="bucket_bytes is not searched"):
        Space.of(MODEL, SEQ, BATCH, sw.Software(), {"bucket_bytes": (1e6, 2e6)})


@given(st.integers(1, 10_000))
def test_divisors(number):
    assert divisors(number) == [n for n in range(1, number + 1) if number % n == 0]


@pytest.mark.slow
@settings(max_examples=15, deadline=None)
@given(factor=st.floats(1.0, 8.0), nodes=st.sampled_from([1, 2, 4]))
def test_faster_nics_never_slow_the_best_layout(factor, nodes):
    cluster = sw.cluster("dgx-h100", nodes=nodes)
    nics = cluster.node.nics
    assert nics is not None
    nics = nics.model_copy(update={"rate_bytes_per_s": nics.rate_bytes_per_s * factor})
    faster = cluster.model_copy(update={"node": cluster.node.model_copy(update={"nics": nics})})
    pinned = {"cp": 1, "tp": (1, 8), "pp": (1, 2), "recompute": Recompute.NONE}
    slow, fast = (
        search(MODEL, one, seq=SEQ, global_batch=BATCH, pinned=pinned).untuned(1)[0].step_s
        for one in (cluster, faster)
    )
    assert fast <= slow * (1 + 1e-9)


def test_tokens_are_exchanged_as_cleverly_as_the_framework_can():
    """Experts over several nodes: a token crosses the network once, beside other computation."""
    model, cluster = sw.model("qwen3-30b-a3b"), sw.cluster("dgx-h200", nodes=8)
    pinned = {"cp": 1, "tp": (1, 2), "ep": (16, 32), "etp": 1, "recompute_layers": None}
    best = search(model, cluster, global_batch=256, pinned=pinned).best(1)[0]
    assert (best.layout.dispatcher, best.layout.overlap_ep) == (Dispatcher.HYBRIDEP, True)
    assert sw.predict(best.run).step_s == pytest.approx(best.step_s, rel=1e-9)
    for name, plain in (("dispatcher", Dispatcher.ALL_TO_ALL), ("overlap_ep", False)):
        without = search(model, cluster, global_batch=256, pinned={**pinned, name: plain})
        assert all(getattr(one.layout, name) == plain for one in without.families.values())
        assert without.best(1)[0].step_s > best.step_s
