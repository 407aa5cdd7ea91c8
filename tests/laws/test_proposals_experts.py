"""Proposals for models with experts are the best of all single changes."""

import pytest
from hypothesis import given

from tests.laws.questions import SPARSE, law, questions
from tests.laws.test_proposals import compared


@pytest.mark.slow
@law(70)
@given(questions(SPARSE))
def test_proposals_are_the_best_single_changes(run):
    compared(run)
