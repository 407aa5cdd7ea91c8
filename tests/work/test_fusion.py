"""Which kernels a compiler joins, and what the joined ones move."""

from syncwall.work.operations import Collective, Elementwise, Gemm, Group
from syncwall.work.program import Call, RankProgram
from syncwall.work.program_variants import fused


def pointwise(reads, writes, **more):
    return Call("aten.mul", Elementwise(2.0, is_fused=True), reads=reads, writes=writes, **more)


def matmul(reads, writes, **more):
    return Call("aten.mm", Gemm(8, 8, 8), reads=reads, writes=writes, **more)


def joined(*calls, kept=(), tensors=12):
    rank = RankProgram(0, 1, calls, tuple(float(10**n) for n in range(tensors)), (), frozenset(kept))
    return fused(rank).calls


def test_a_chain_reads_its_input_and_writes_its_output():
    (one,) = joined(pointwise((0,), (1,)), pointwise((1,), (2,)), pointwise((2,), (3,)), kept={3}, tensors=4)
    assert (one.reads, one.writes) == ((0,), (3,))
    assert one.what == Elementwise(6.0)  # never more than the kernels one by one
    assert one.name == "fused 3 kernels"


def test_what_others_need_is_written():
    calls = joined(pointwise((0,), (1,)), pointwise((1,), (2,)), matmul((1,), (3,)), kept={2})
    assert calls[0].writes == (1, 2)


def test_a_multiplication_parts_what_is_before_from_what_is_after():
    calls = joined(pointwise((0,), (1,)), matmul((1,), (2,)), pointwise((2,), (3,)), kept={3})
    assert [call.name for call in calls] == ["aten.mul", "aten.mm", "aten.mul"]


def test_what_does_not_depend_on_a_multiplication_is_joined_over_it():
    calls = joined(pointwise((0,), (1,)), matmul((5,), (6,)), pointwise((1,), (2,)), matmul((2,), (3,)))
    assert [call.name for call in calls] == ["aten.mm", "fused 2 kernels", "aten.mm"]


def test_waits_follow_the_calls_that_they_are_for():
    gather = Call("gather", Collective("all-gather", 1.0, Group("shard", 2)), "nccl")
    calls = joined(pointwise((0,), (1,)), gather, pointwise((1,), (2,)), matmul((2,), (3,), after=(1, 2)))
    assert [call.name for call in calls] == ["gather", "fused 2 kernels", "aten.mm"]
    assert calls[2].after == (0, 1)


def test_a_host_that_waits_ends_what_can_be_joined():
    item = Call("aten.item", None, reads=(1,), host_waits=True)
    calls = joined(pointwise((0,), (1,)), item, pointwise((1,), (2,)), kept={2})
    assert len(calls) == 3


def test_copies_of_fsdp_stay_as_they_are():
    copy = Call("fsdp.split_with_sizes_copy", Elementwise(5.0, is_fused=True), reads=(0,), writes=(1,))
    assert joined(copy, pointwise((1,), (2,)))[0].what == copy.what
