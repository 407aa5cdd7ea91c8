"""The accuracy gate, and that the printed tables are the accepted figures."""

import copy
import json
import subprocess
import sys
from typing import Any

import pytest
from bench.accuracy.figures import found_for, missed, reached, read_goals
from bench.accuracy.gate import accepted, changes, faults, table
from bench.accuracy.pages import BLOCKS, MARKED, PAGES, remembered, rewritten, stale
from bench.fit.files import rows_of

from syncwall.validate.table import RowUse, corpus_part
from tests.validate.samples import CORPUS, needs_corpus

BAND = (0.75, 0.85)


def entry(name: str, mape: float, n: int = 10, kind: str = "source") -> dict[str, Any]:
    return {"kind": kind, "name": name, "n": n, "n_all": n + 2, "mape": mape}


def figures(*sets: dict[str, Any], collectives: float | None = 0.06) -> dict[str, Any]:
    line = {"name": "8 GPUs", "rows": 84, "error": collectives}
    return {"sets": list(sets), "collectives": [line] if collectives else []}


BEFORE = figures(entry("a", 0.080), entry("b", 0.120), entry("pair", 0.05, n=2))


def said(now: dict[str, Any], coverage: float | None = 0.80) -> list[str]:
    return faults(changes(BEFORE, now), coverage, BAND)


def changed(**mapes: float) -> dict[str, Any]:
    now = copy.deepcopy(BEFORE)
    for one in now["sets"]:
        one["mape"] = mapes.get(one["name"], one["mape"])
    return now


def test_the_same_figures_pass():
    assert said(BEFORE) == []
    assert table(changes(BEFORE, BEFORE)) == "no set changed"


def test_worse_by_less_than_half_a_point_passes():
    assert said(changed(a=0.084)) == []
    assert said(changed(a=0.085)) == []


def test_worse_by_more_than_half_a_point_fails_and_names_the_set():
    (line,) = said(changed(a=0.086))
    assert line == "a: mean error 8.0% -> 8.6%, more than 0.5 points worse"
    assert "WORSE" in table(changes(BEFORE, changed(a=0.086)))


def test_a_better_set_does_not_make_up_for_a_worse_one():
    assert len(said(changed(a=0.086, b=0.02))) == 1


def test_improvements_pass_and_are_shown():
    now = changed(b=0.100)
    assert said(now) == []
    assert "better" in table(changes(BEFORE, now))


def test_sets_of_two_runs_are_not_compared():
    assert said(changed(pair=0.5)) == []


def test_lost_rows_fail_even_in_small_sets():
    for name in ("a", "pair"):
        now = copy.deepcopy(BEFORE)
        for one in now["sets"]:
            one["n"] -= one["name"] == name
        assert [line.split(":")[0] for line in said(now)] == [name]


def test_rows_that_cannot_be_described_any_more_are_lost():
    now = copy.deepcopy(BEFORE)
    now["sets"][0]["n_all"] -= 1
    assert said(now) == ["a: 10 runs (12 with doubtful ones) -> 10 (11)"]


def test_a_set_that_vanishes_is_lost_and_a_new_one_is_welcome():
    assert len(said(figures(*BEFORE["sets"][1:]))) == 1
    now = figures(*BEFORE["sets"], entry("c", 0.4))
    assert said(now) == []
    assert "new" in table(changes(BEFORE, now))


def test_collectives_are_gated_where_their_tables_are():
    assert len(said(figures(*BEFORE["sets"], collectives=0.066))) == 1
    assert said(figures(*BEFORE["sets"], collectives=None)) == []


@pytest.mark.parametrize("coverage", [0.749, 0.851, None])
def test_intervals_that_cover_too_few_or_too_many_fail(coverage):
    (line,) = said(BEFORE, coverage)
    assert "75 to 85%" in line


@pytest.mark.parametrize("coverage", [0.75, 0.8, 0.85])
def test_intervals_inside_the_band_pass(coverage):
    assert said(BEFORE, coverage) == []


def test_pages_show_the_accepted_figures():
    """If this fails: python -m bench accuracy --tables."""
    assert stale(accepted()) == []


def test_every_block_is_on_a_page_and_known():
    shown = {name for page in PAGES for _, name, _ in MARKED.findall(page.read_text())}
    assert shown == set(BLOCKS)


def test_a_block_is_replaced_and_nothing_else():
    text = "before\n\n<!-- accuracy: summary -->\nold\n<!-- end -->\n\nafter\n"
    once = rewritten(text, accepted())
    assert once.startswith("before\n\n<!-- accuracy: summary -->\n\nOver the ")
    assert once.endswith("\n\n<!-- end -->\n\nafter\n")
    assert rewritten(once, accepted()) == once


def test_every_goal_has_its_figure():
    found = accepted()
    for goal in read_goals().goals:
        one = found_for(goal, found)
        assert one is not None, goal.title
        assert one.n > 0
    for goal in missed(found):
        one = found_for(goal, found)
        assert one is not None
        assert not reached(goal, one)


@needs_corpus
def test_judges_are_not_predicted_and_none_of_their_rows_is_listed():
    rows = rows_of([CORPUS, CORPUS.parent / "runs_second"])
    judges = {one.source for one in rows if corpus_part(one) is RowUse.JUDGE}
    shown = json.dumps(accepted())
    assert judges
    assert not any(source in shown for source in judges)


def test_scores_of_judges_are_means_and_the_first_one_stays():
    first, *_ = remembered()
    assert (first["commit"], first["mape"], first["coverage80_sources"]) == ("de6b492", 0.171, 0.65)
    assert all("id" not in one and one["sources"] >= 4 for one in remembered())


@pytest.mark.slow
def test_the_gate_of_a_clone_shuts_when_a_constant_is_spoiled():
    program = """
from bench.accuracy.gate import accuracy
from syncwall.work import layer
layer.ACTIVATION_BYTES *= 1.5
raise SystemExit(accuracy(check=True))
"""
    command = [sys.executable, "-c", program]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 1
    assert "points worse" in done.stdout
