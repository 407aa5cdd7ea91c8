"""Ranks that share a sequence: what they exchange, and when it is waited for."""

from typing import Any

import pytest

import syncwall as sw
from syncwall.answer.prediction import Prediction
from syncwall.describe import Layout, Run
from syncwall.work.layer import Shape, attention_parts
from syncwall.work.operations import Collective, CoreAttention
from syncwall.work.parts import backward_block, forward_block
from tests.describe.samples import model

SEQ = 65536


def shape(kind: str, cp: int = 4) -> Shape:
    return Shape(model(), Layout.model_validate({"cp": cp, "cp_kind": kind}).resolved(8), SEQ)


def core(kind: str, cp: int = 4) -> CoreAttention:
    (found,) = [p.forward for p in attention_parts(shape(kind, cp)) if isinstance(p.forward, CoreAttention)]
    return found


def predicted(seq: int, cp: int = 8, **layout: Any) -> Prediction:
    """Keys and values cross nodes: neighbouring ranks are tensor-parallel ones."""
    stated = {
        "tp": 8,
        "sp": True,
        "cp": cp,
        "global_batch": 1,
        "micro_batch": 1,
        "recompute": "none",
    } | layout
    return sw.predict(
        Run(
            model=sw.model("llama-3.1-70b"),
            cluster=sw.cluster("dgx-h100"),
            nodes=cp,
            seq=seq,
            layout=Layout.model_validate(stated),
        )
    )


@pytest.mark.parametrize("kind", ["ring", "all-gather", "ulysses"])
def test_every_kind_does_the_same_arithmetic(kind):
    whole = core("ring", 1)
    assert float(core(kind).flops) == pytest.approx(float(whole.flops) / 4, rel=1e-3)


def test_only_a_ring_computes_in_pieces():
    assert core("ring").pieces == 4
    assert core("all-gather").pieces == core("ulysses").pieces == 1


def test_ulysses_sees_the_whole_sequence_with_a_part_of_the_heads():
    found = core("ulysses")
    assert (found.q_len, found.kv_len) == (SEQ, SEQ)
    assert found.heads == core("ring").heads / 4


def test_keys_travel_beside_the_attention_of_a_ring_and_before_that_of_a_gather():
    def waits(kind: str, name: str) -> bool:
        """Whether attention waits for `name`."""
        parts = attention_parts(shape(kind))
        blocks = (forward_block("layer", parts, 1), backward_block("layer", parts, 1))
        return any(
            block.operations[wait.index].name == name and wait.when
            for block in blocks
            for operation in block.operations
            if operation.name == "attention"
            for wait in operation.after
        )

    assert waits("all-gather", "keys and values")
    assert not waits("ring", "keys and values")
    assert not waits("ring", "gradients of keys and values")


def test_a_ring_moves_keys_twice_and_their_gradients_once():
    parts = attention_parts(shape("ring"))
    moved = [
        operation.what
        for block in (forward_block("layer", parts, 1), backward_block("layer", parts, 1))
        for operation in block.operations
        if isinstance(operation.what, Collective) and operation.what.axis == "cp"
        if float(operation.what.bytes) > 0
    ]
    assert sorted(what.kind for what in moved) == ["all-gather", "all-gather", "reduce-scatter"]


def test_short_sequences_wait_for_the_ring_and_long_ones_hide_it():
    """Keys go as the length, attention as its square."""
    shares = [
        (found := predicted(seq=seq)).ledger["exposed CP"] / found.step_s for seq in (8192, 32768, 524288)
    ]
    assert shares == sorted(shares, reverse=True)
    assert shares[0] > 0.02
    assert shares[-1] == pytest.approx(0, abs=1e-6)


def test_a_gather_is_waited_for_at_any_length():
    assert predicted(seq=524288, cp_kind="all-gather").ledger["exposed CP"] > 0
