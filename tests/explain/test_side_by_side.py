"""Two ledgers in the causes that they share."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from syncwall.cause import Cause
from syncwall.explain.side_by_side import side_by_side
from syncwall.timeline.ledger import Ledger

ledgers = st.dictionaries(st.sampled_from(Cause), st.floats(0.0, 100.0), min_size=1).map(Ledger)


def test_a_slower_network_is_named():
    predicted = Ledger({Cause.GEMM: 1.0, Cause.OUTPUT_LAYER: 0.1, Cause.EXPOSED_DP: 0.1})
    measured = Ledger({Cause.GEMM: 1.12, Cause.EXPOSED_ALL_REDUCE: 0.6})
    found = side_by_side(predicted, measured)
    assert found.gap_s == pytest.approx(0.52)
    assert found.named is not None
    assert found.named.cause == "exposed communication"
    assert found.gaps[0].gap_s == pytest.approx(0.5)


def test_two_causes_of_equal_weight_are_not_named():
    found = side_by_side(Ledger({Cause.GEMM: 1.0}), Ledger({Cause.GEMM: 1.5, Cause.IDLE_HOST: 0.5}))
    assert found.named is None


@given(ledgers, ledgers)
def test_each_side_adds_up_to_its_step(first, second):
    found = side_by_side(first, second)
    assert found.first_s == pytest.approx(first.total)
    assert found.second_s == pytest.approx(second.total)
    lines = {"GEMM", "attention", "optimizer", "other computation", "exposed communication", "idle"}
    assert {gap.cause for gap in found.gaps} <= lines
