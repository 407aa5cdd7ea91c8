"""Tensor-parallel communication that is cut up and runs beside its multiplications."""

from typing import Any

import pytest

import syncwall as sw
from syncwall.answer.prediction import Prediction
from syncwall.describe import Layout, Run
from syncwall.work.layer import Shape, attention_parts, mlp_parts
from syncwall.work.operations import Collective, Gemm
from syncwall.work.parts import backward_block, forward_block
from tests.describe.samples import model


def predicted(tp: int = 8, *, overlap_tp: bool = True, **layout: Any) -> Prediction:
    stated = {
        "tp": tp,
        "sp": True,
        "pp": 8,
        "virtual_stages": 1,
        "global_batch": 128,
        "micro_batch": 1,
        "recompute": "none",
        "overlap_tp": overlap_tp,
    } | layout
    return sw.predict(
        Run(
            model=sw.model("llama-3.1-405b"),
            cluster=sw.cluster("dgx-h100"),
            nodes=64,
            layout=Layout.model_validate(stated),
        )
    )


def test_inside_a_domain_less_than_half_stays():
    left, whole = (predicted(overlap_tp=on).ledger["exposed TP"] for on in (True, False))
    assert 0.35 < left / whole < 0.5


def test_over_two_domains_it_is_not_free():
    """Wires between nodes take longer than the multiplications beside them."""
    near, far = predicted(8), predicted(16)
    assert far.ledger["exposed TP"] > 2 * near.ledger["exposed TP"]
    assert far.ledger["exposed TP"] > 0.1 * far.step_s


def test_less_left_is_never_slower_and_ends_at_what_the_multiplications_hide():
    times = [predicted(16, tp_exposed_share=left).step_s for left in (0.01, 0.1, 0.25, 0.6, 1.0)]
    assert times == sorted(times)
    assert times[0] == pytest.approx(times[1], rel=0.05)


def test_gathers_look_ahead_and_scatters_behind():
    layout = Layout(tp=4, sp=True, overlap_tp=True, precision="fp8").resolved(4)
    shape = Shape(model(), layout, 1024)
    parts = [*attention_parts(shape), *mlp_parts(shape)]
    for block in (forward_block("layer", parts, 1), backward_block("layer", parts, 1)):
        waits = [w for op in block.operations for w in op.after if w.beside is not None]
        waits += [w for w in block.awaited if w.beside is not None]
        found = {block.operations[w.index].name: w for w in waits}
        assert {"attention gather", "MLP gather", "attention scatter", "MLP scatter"} <= set(found)
        for wait in found.values():
            assert wait.beside
            assert all(isinstance(block.operations[i].what, Gemm) for i in wait.beside)
            what = block.operations[wait.index].what
            behind = isinstance(what, Collective) and what.kind != "all-gather"
            assert all((i < wait.index) == behind for i in wait.beside)


def test_what_no_multiplication_is_next_to_is_waited_for():
    """The scatter of embeddings."""
    one = predicted(pp=1, dp=64)
    embedding = one.work.stages[-1].forward[0]
    assert {w.beside for w in embedding.awaited} == {()}
