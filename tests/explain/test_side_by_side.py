"""Two ledgers in the causes that they share."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from syncwall.explain.side_by_side import OTHER, SHARED, side_by_side
from syncwall.timeline.ledger import Ledger

CAUSES = ("GEMM", "head", "attention", "exposed DP", "exposed all-reduce", "idle: data", "host",
          "pipeline bubble", "recompute", "elementwise", "optimizer", "copy")  # fmt: skip
ledgers = st.dictionaries(st.sampled_from(CAUSES), st.floats(0.0, 100.0), min_size=1).map(Ledger)


def test_a_slower_network_is_named():
    predicted = Ledger({"GEMM": 1.0, "head": 0.1, "exposed DP": 0.1})
    measured = Ledger({"GEMM": 1.12, "exposed all-reduce": 0.6})
    found = side_by_side(predicted, measured)
    assert found.gap_s == pytest.approx(0.52)
    assert found.named is not None
    assert found.named.cause == "exposed communication"
    assert found.gaps[0].gap_s == pytest.approx(0.5)


def test_two_causes_of_equal_weight_are_not_named():
    found = side_by_side(Ledger({"GEMM": 1.0}), Ledger({"GEMM": 1.5, "idle: host": 0.5}))
    assert found.named is None


@given(ledgers, ledgers)
def test_each_side_adds_up_to_its_step(first, second):
    found = side_by_side(first, second)
    assert found.first_s == pytest.approx(first.total)
    assert found.second_s == pytest.approx(second.total)
    assert {gap.cause for gap in found.gaps} <= {name for name, _ in SHARED} | {OTHER}
