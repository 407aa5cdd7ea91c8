"""The end of a watched run on a screen and as data."""

from dataclasses import replace

import pytest

from syncwall.cause import Cause
from syncwall.records import plain
from syncwall.show.records.watch import WatchedRun
from syncwall.show.watch import watch_view
from syncwall.watch.baseline import Comparison, Outcome
from syncwall.watch.events import Expectation, Finding, FindingKind, Group
from syncwall.watch.summary import Summary
from tests.show.screens import screen

SECONDS = {Cause.FORWARD: 0.06, Cause.EXPOSED_DP: 0.03, Cause.IDLE_DATA: 0.01}
FOUND = Finding(FindingKind.STRAGGLER, 3, "node-7", 1e9, "its own time is 8 ms above the median", 0.008, 50)
SUMMARY = Summary(
    "node-7",
    4,
    8,
    200,
    0.1,
    SECONDS,
    81920.0,
    65.0,
    (FOUND,),
    Expectation(0.08, 0.07, 0.09, {Cause.GEMM: 0.06, Cause.EXPOSED_DP: 0.02}, "run.yaml"),
    2,
    ("this PyTorch has no such hook",),
)


def test_a_screen_has_the_verdict_the_ledger_the_comparison_and_the_findings():
    text = screen(watch_view(SUMMARY, ("torchrun", "train.py")), 100)
    for said in (
        "200 steps of 100 ms each, 81,920 tokens/s",
        "1 finding: straggler",
        "4 ranks of 8",
        "forward",
        "predicted",
        "+10 ms",
        "node-7",
        "its own time is 8 ms above",
        "2 marks",
        "This PyTorch has no such hook.",
    ):
        assert said in text, text


def test_an_earlier_run_stands_under_the_verdict():
    beside = Comparison(Outcome.SLOWER, "a step takes 2 ms instead of 1 ms: +100.0%", "before.json", 0.05)
    text = screen(watch_view(SUMMARY, compared=beside), 100)
    assert "Slower: a step takes 2 ms instead of 1 ms: +100.0% (before.json)." in text


def test_without_a_step_it_says_so():
    empty = replace(SUMMARY, ranks=0, steps=0, step_s=None, seconds={}, findings=(), expected=None)
    text = screen(watch_view(empty, code=3), 80)
    assert "No training was seen" in text
    assert "ended with code 3" in text


def test_the_record_sums_to_the_step():
    found = plain(WatchedRun(SUMMARY, ("a",), 0))
    assert sum(found["ledger_s"].values()) == pytest.approx(found["step_s"])
    assert found["groups_s"][Group.COMMUNICATION] == 0.03
    assert found["findings"][0]["rank"] == 3
