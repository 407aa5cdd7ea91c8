"""The CPU time of laws: cases end when it is spent, but never those of a law that failed."""

import time

import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.errors import UnsatisfiedAssumption

from tests.conftest import QUICK_CPU_S, Budget, Spent


def test_no_case_is_tried_once_the_time_is_spent():
    tried: list[int] = []
    budget = Budget(1e-9)
    law = budget.of(tried.append)
    law(0)
    with pytest.raises(Spent):
        law(1)
    assert (tried, budget.tried, budget.is_spent) == ([0], 1, True)


@given(st.data())
def test_a_law_that_is_ended_passes(data):
    """Here, by its own budget: its cases take longer than all of them may."""
    while data.draw(st.integers(0, 9)):
        until = time.process_time() + QUICK_CPU_S / 20
        while time.process_time() < until:
            pass


def test_a_case_that_failed_is_tried_again():
    def fails(case: int) -> None:
        assert case < 0

    budget = Budget(1e-9)
    law = budget.of(fails)
    for _ in range(3):
        with pytest.raises(AssertionError):
            law(1)
    assert not budget.is_spent


def test_a_case_that_is_refused_is_no_failure():
    def refuses() -> None:
        raise UnsatisfiedAssumption

    budget = Budget(1e-9)
    law = budget.of(refuses)
    with pytest.raises(UnsatisfiedAssumption):
        law()
    with pytest.raises(Spent):
        law()
