from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import ValidationError

from syncwall.answer import predict
from syncwall.describe import Layout, Run, Schedule, Shard
from syncwall.describe.base import is_open
from syncwall.describe.choice import Dtype
from syncwall.describe.layout import PLAIN, Recompute
from tests.describe.samples import cluster, model

FILLED_IN = ("dp", "shard_degree", "global_batch")


def test_what_is_open_is_filled_in():
    layout = Layout(tp=8, pp=4, shard="fsdp").resolved(256)
    assert (layout.dp, layout.shard_degree, layout.global_batch) == (8, 8, 8)
    assert (layout.gpus, layout.microbatches, layout.replicas_of_shards) == (256, 1, 1)


def test_context_ranks_share_the_sharded_state_too():
    layout = Layout(cp=4, shard=Shard.FSDP, shard_degree=8).resolved(64)
    assert (layout.dp, layout.replicas_of_shards) == (16, 8)


def test_experts_take_their_ranks_from_the_other_axes():
    assert Layout(tp=2, ep=8).resolved(64).expert_dp == 8


def test_an_open_layout_says_what_to_do():
    with pytest.raises(ValueError, match=r"dp is open: use `layout.resolved"):
        _ = Layout().gpus


def test_many_layouts_are_one_layout_of_arrays():
    layouts = Layout.arrays(tp=np.array([1, 2, 4]), pp=2, global_batch=64).resolved(16)
    assert layouts.dp is not None
    np.testing.assert_array_equal(layouts.dp, [8, 4, 2])
    for index, tp in enumerate([1, 2, 4]):
        one = Layout(tp=tp, pp=2, global_batch=64).resolved(16)
        assert (one.gpus, one.microbatches) == (layouts.gpus[index], layouts.microbatches[index])


def test_arrays_know_their_names():
    with pytest.raises(TypeError, match="a layout has no tensor_parallel"):
        Layout.arrays(tensor_parallel=8)


@pytest.mark.parametrize(
    "changes",
    [{"tp": 0}, {"schedule": "2f2b"}, {"bucket": 25.0}, {"precision": "fp7"}, {"order": ["xp"]}],
)
def test_values_that_make_no_sense_are_refused(changes):
    with pytest.raises(ValidationError):
        Layout.model_validate(changes, context={"in_file": True})


def test_what_nobody_stated_is_open():
    layout = Layout()
    assert all(is_open(layout, name) for name in (*PLAIN, *FILLED_IN))
    assert not any(is_open(layout, name) for name in ("tp", "pp", "bucket_bytes", "ep_exposed_share"))
    assert layout.bucket_bytes == 25 * 2**20


@pytest.mark.parametrize("name", [*PLAIN, *FILLED_IN])
def test_open_may_be_said_and_is_the_same_as_silence(name):
    assert Layout.model_validate({name: None}) == Layout()


@pytest.mark.parametrize("name", ["tp", "pp", "order", "bucket", "ep_exposed_share"])
def test_nothing_else_may_be_open(name):
    with pytest.raises(ValidationError):
        Layout.model_validate({name: None})


def test_placing_fills_in_what_follows_from_the_gpus_and_no_more():
    layout = Layout(tp=2, micro_batch=4).placed(16)
    assert (layout.dp, layout.global_batch) == (8, 32)
    assert is_open(layout, "shard_degree")
    assert all(is_open(layout, name) for name in PLAIN if name != "micro_batch")
    assert layout.placed(16) == layout
    assert Layout(tp=2, shard="zero1").placed(16).shard_degree == layout.plain().shard_degree == 8


def test_plain_values_are_those_that_the_stated_ones_allow():
    assert Layout().plain() == Layout(**PLAIN)
    assert Layout(virtual_stages=3).plain().schedule is Schedule.INTERLEAVED
    assert Layout(schedule="interleaved").plain().virtual_stages == 2
    assert Layout(schedule="gpipe").plain().virtual_stages == 1
    assert Layout(dp=8, shard_degree=4).plain().shard is Shard.ZERO1
    assert Layout(dp=8, shard_degree=8).plain().shard is Shard.DDP
    assert Layout(gradient_dtype="bf16").plain().gradient_dtype is Dtype.BF16


def test_plain_leaves_the_ranks_open():
    assert all(is_open(Layout().plain(), name) for name in FILLED_IN)


STATED: dict[str, list[Any]] = {
    "shard": [Shard.DDP, Shard.ZERO1, Shard.FSDP],
    "micro_batch": [1, 2],
    "recompute": [Recompute.NONE, Recompute.FULL],
    "precision": [Dtype.BF16, Dtype.FP32],
    "gradient_dtype": [Dtype.BF16, Dtype.FP32],
    "overlap_gradients": [True, False],
    "overlap_tp": [True, False],
    "async_tp": [True, False],
    "kept_gathered_inputs": [0.0, 1.0],
    "kept_gradient_dtype": [Dtype.BF16, Dtype.FP32],
    "moment_dtype": [Dtype.BF16, Dtype.FP32],
    "separate_gradients": [True, False],
    "fused_loss": [True, False],
    "global_batch": [16],
    "dp": [4],
}
layouts = st.fixed_dictionaries(
    {"tp": st.just(2)},
    optional={name: st.one_of(st.none(), st.sampled_from(v)) for name, v in STATED.items()},
)


@given(layouts)
def test_resolving_is_placing_and_plain_values(fields):
    layout = Layout(**fields)
    found = layout.resolved(8)
    assert found == layout.placed(8).plain() == found.resolved(8)
    assert not any(is_open(found, name) for name in (*PLAIN, *FILLED_IN))
    for name, value in fields.items():
        assert value is None or getattr(found, name) == value


@given(layouts, layouts)
def test_layouts_are_equal_only_if_the_same_is_open(one, other):
    same = {k: v for k, v in one.items() if v is not None} == {
        k: v for k, v in other.items() if v is not None
    }
    assert (Layout(**one) == Layout(**other)) is same
    assert not same or hash(Layout(**one)) == hash(Layout(**other))


@pytest.mark.parametrize("name", PLAIN)
def test_a_plain_value_is_not_the_same_as_none(name):
    assert Layout(**{name: PLAIN[name]}) != Layout()


@pytest.mark.parametrize("name", [name for name in PLAIN if name in STATED])
def test_equal_layouts_settle_alike(name):
    """However they came about: stated, copied, or with a value taken back."""
    stated = {"tp": 2, "global_batch": 32}
    made = [
        Layout(**stated),
        Layout(**stated, **{name: None}),
        Layout(**stated, **{name: STATED[name][-1]}).model_copy(update={name: None}),
        Layout.model_validate(Layout(**stated).model_dump(exclude_none=True)),
    ]
    assert len(set(made)) == 1
    runs = [Run(model=model(), cluster=cluster(), layout=layout) for layout in made]
    assert len({predict(run).run.layout for run in runs}) == 1
