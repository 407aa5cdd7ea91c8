"""Repeated calls become blocks."""

import time
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from syncwall.work.operations import Collective, Elementwise, Group
from syncwall.work.program import Call, FoldedBlock, SourceLocation, folded
from tests.work.recorded import decoder


def named(words: str) -> list[Call]:
    return [Call(word, Elementwise(1.0)) for word in words]


def test_layers_between_two_ends_are_one_block():
    assert folded(named("xy" + "abcde" * 8 + "z")) == (
        FoldedBlock(0, 2),
        FoldedBlock(2, 5, 8),
        FoldedBlock(42, 1),
    )


def test_a_repetition_that_saves_little_stays_as_it_is():
    assert folded(named("aaaaaaaa")) == (FoldedBlock(0, 8),)


def test_micro_batches_fold_before_their_layers():
    assert folded(named(("e" + "ab" * 20 + "h") * 4)) == (FoldedBlock(0, 42, 4),)


@pytest.mark.parametrize(
    "change",
    [
        {"name": "b"},
        {"what": Elementwise(2.0)},
        {"stream": "tp"},
        {"after": (3,)},
        {"host_waits": True},
    ],
)
def test_calls_that_differ_do_not_repeat(change):
    calls = named("a" * 80)
    calls[40] = replace(calls[40], **change)
    assert [block.rounds for block in folded(calls)] == [40, 1, 39]


def test_places_tensors_and_equal_groups_may_differ():
    calls = [
        Call(
            "a",
            Collective("all-reduce", 8.0, Group("dp", 4)),
            place=SourceLocation(str(at)),
            reads=(at,),
        )
        for at in range(60)
    ]
    assert folded(calls) == (FoldedBlock(0, 1, 60),)


def test_a_step_of_3727_calls_is_a_handful_of_blocks_in_a_tenth_of_a_second():
    calls = decoder(layers=43).ranks[0].calls
    assert len(calls) > 3727
    before = time.process_time()
    blocks = folded(calls)
    assert time.process_time() - before < 0.1
    assert len(blocks) <= 7
    assert sum(block.length for block in blocks) < 250


@given(st.text("abc", max_size=300))
def test_blocks_are_all_calls_in_order(words):
    blocks = folded(named(words))
    unfolded = "".join(words[b.start : b.start + b.length] * b.rounds for b in blocks)
    assert unfolded == words
    assert [block.start for block in blocks] == [0, *(b.end for b in blocks[:-1])][: len(blocks)]
