"""Layouts that cannot be told apart stand in one group."""

import itertools

import pytest

import syncwall as sw
from syncwall.answer.difference import Ratio, step_deviation
from syncwall.plan.answers import ties
from syncwall.plan.search import search


@pytest.fixture(scope="module")
def found():
    cluster = sw.cluster("dgx-h100", nodes=1)
    best = search(sw.model("llama-3.1-8b"), cluster, global_batch=16, pinned={"cp": 1}).best(12)
    return [one.prediction for one in best]


def test_groups_are_numbered_in_the_order_of_the_rank(found):
    numbers = ties(found)
    assert numbers[0] == 1
    assert all(b - a in (0, 1) for a, b in itertools.pairwise(numbers))
    assert ties([]) == []


def test_who_shares_a_group_differs_by_less_than_the_doubt(found):
    first = dict(reversed(list(zip(ties(found), found, strict=True))))
    for number, one in zip(ties(found), found, strict=True):
        leader = first[number]
        apart = Ratio(leader.step_s, one.step_s, step_deviation(leader, one)).is_told_apart
        assert not apart


def test_without_doubt_every_difference_counts(found, monkeypatch):
    monkeypatch.setattr("syncwall.plan.answers.step_deviation", lambda one, other: 0.0)
    assert len(set(ties(found))) == len({one.step_s for one in found})
