import numpy as np
import pytest
from pydantic import ValidationError

from syncwall.describe import Layout, Schedule, Shard


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


def test_the_defaults_that_people_argue_about_are_visible():
    layout = Layout()
    assert layout.gradient_dtype == "fp32"
    assert layout.bucket_bytes == 25 * 2**20
    assert layout.schedule is Schedule.ONE_F_ONE_B
