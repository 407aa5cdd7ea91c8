"""A loop acts on a spike, every rank at the same step."""

import numpy as np
import pytest

from syncwall.problems import InputError
from syncwall.watch import on_decision
from syncwall.watch.policy import Action


def losses():
    values = 3.0 * np.exp(np.random.default_rng(2).normal(0, 0.02, 1000))
    values[600:640] *= 2
    return values


def played(policy):
    acted: list[tuple[int, object]] = []
    deciding = on_decision(lambda one: acted.append((step, one)), policy)
    for step, value in enumerate(losses()):
        if step % 100 == 0:
            deciding.checkpoint(step)
        deciding.loss(step, value)
    return acted


def test_all_ranks_roll_back_at_the_same_step():
    ranks = [played("palm") for _ in range(4)]
    assert all(one == ranks[0] for one in ranks)
    ((step, decision),) = ranks[0]
    assert decision.action is Action.ROLL_BACK
    assert (decision.checkpoint_step, decision.skip_batches) == (500, 200)
    assert step == decision.at_step - 1


def test_by_default_somebody_is_told_at_once():
    ((step, decision),) = played("alert")
    assert decision.action is Action.ALERT
    assert 600 <= step <= 602


def test_policies_have_names():
    with pytest.raises(InputError, match='no policy is called "palms"; did you mean "palm"'):
        on_decision(print, "palms")
