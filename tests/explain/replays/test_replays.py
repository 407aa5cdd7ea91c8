"""Threads with a known answer: what their list has to be, and that the page says what is said today."""

from collections import Counter
from pathlib import Path

import pytest
from bench.docs.replays import PAGE, SCORES, judged, kept, replays_text

from syncwall.explain.verdict import VerdictState

TESTS = Path(__file__).parents[2]


def test_the_list_is_of_many_threads_that_no_rule_was_made_with():
    found = [*kept("threads"), *kept("fresh")]
    addresses = [one["thread"] for one in found]
    assert len(kept("threads")) >= 40
    assert len(kept("fresh")) >= 15
    assert len(set(addresses)) == len(found)
    assert all(one.startswith("https://github.com/") for one in addresses)
    assert all(one["answer"] and one["text"].strip() for one in found)
    folders = ("pasted", "training_logs")
    others = "".join(
        path.read_text() for name in folders for path in (TESTS / "explain" / name).glob("*.yaml")
    )
    assert [one for one in addresses if f"{one}\n" in others] == []


def test_the_first_try_of_each_is_kept():
    first = kept("first_try")
    assert [one["thread"] for one in first] == [one["thread"] for one in [*kept("threads"), *kept("fresh")]]
    scores = Counter(one["first"] for one in first[: len(kept("threads"))])
    assert [scores[name] for name in SCORES] == [23, 17, 15]
    scores = Counter(one["first"] for one in first[len(kept("threads")) :])
    assert [scores[name] for name in SCORES] == [8, 9, 3]
    assert all(one["said"] for one in first)


def test_the_page_says_what_is_said_today():
    assert PAGE.read_text() == replays_text(), "run: python -m bench docs replays"


@pytest.mark.parametrize(
    ("state", "cause", "is_sentence", "judgement"),
    [
        (VerdictState.WRONG, "disk full", False, "hit"),
        (VerdictState.SUSPECT, "disk full", False, "hit"),
        (VerdictState.WRONG, "the disk full of logs", False, "miss"),
        (VerdictState.WRONG, "a disk full of logs", True, "hit"),
        (VerdictState.WRONG, "killed", False, "half"),
        (VerdictState.WRONG, "evicted", False, "miss"),
        (VerdictState.NOT_JUDGED, "", False, "miss"),
        (VerdictState.HEALTHY, "", True, "miss"),
    ],
)
def test_the_judgement_is_by_the_causes_that_the_list_states(state, cause, is_sentence, judgement):
    thread = {"causes": ["disk full"], "near": ["killed"]}
    assert judged(thread, state, cause, is_sentence=is_sentence) == judgement


def test_where_nothing_was_wrong_only_healthy_is_a_hit():
    thread = {"state": "healthy", "causes": [], "near": []}
    said = [judged(thread, state, "", is_sentence=False) for state in VerdictState]
    assert dict(zip(VerdictState, said, strict=True)) == {
        VerdictState.WRONG: "miss",
        VerdictState.SUSPECT: "miss",
        VerdictState.NOT_JUDGED: "half",
        VerdictState.HEALTHY: "hit",
    }
