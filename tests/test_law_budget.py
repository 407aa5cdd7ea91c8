"""The CPU time of laws: cases end when it is spent, but never those of a law that failed."""

import pytest
from hypothesis.errors import UnsatisfiedAssumption

from tests.conftest import Budget


def test_no_case_is_tried_once_the_time_is_spent():
    tried: list[int] = []
    budget = Budget(1e-9)
    law = budget.of(tried.append)
    for case in range(5):
        law(case)
    assert (tried, budget.tried, budget.left_out) == ([0], 1, 4)


def test_a_case_that_failed_is_tried_again():
    def fails(case: int) -> None:
        assert case < 0

    budget = Budget(1e-9)
    law = budget.of(fails)
    for _ in range(3):
        with pytest.raises(AssertionError):
            law(1)
    assert not budget.left_out


def test_a_case_that_is_refused_is_no_failure():
    def refuses() -> None:
        raise UnsatisfiedAssumption

    budget = Budget(1e-9)
    law = budget.of(refuses)
    with pytest.raises(UnsatisfiedAssumption):
        law()
    law()
    assert budget.left_out == 1
