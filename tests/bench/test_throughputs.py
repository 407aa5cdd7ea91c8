"""Published throughputs of public programs, and how wide an interval they ask for."""

import pytest
from bench.accuracy.throughputs import FIGURES, Figure, Outcome, deviation_of, figures

from syncwall.answer.interval import Z80
from syncwall.describe import lookup
from syncwall.documents import read_document


def test_fifty_figures_of_twelve_programs_have_a_machine_and_a_step():
    programs = read_document(FIGURES).value
    found = [one for program in programs for one in figures(program)]
    assert (len(programs), len(found)) == (12, 50)
    assert all(lookup.cluster(one.settings["cluster"]) for one in found)
    assert all(1e-3 < one.measured_s < 100 for one in found)


def test_a_step_has_the_seconds_that_the_published_unit_says():
    shared = {"batch": 8, "gpus": 4, "length": 100}
    assert Figure("a", {**shared, "measured": 250, "unit": "ms"}).measured_s == 0.25
    assert Figure("a", {**shared, "measured": 64}).measured_s == 0.5
    assert Figure("a", {**shared, "measured": 6400, "unit": "tokens/s", "accumulate": 2}).measured_s == 1.0


def outcome(program: str, ratio: float) -> Outcome:
    return Outcome(Figure(program, {}), ratio, 0.7, 1.4)


def test_the_width_is_the_error_that_four_of_five_do_not_exceed():
    found = [*(outcome("a", 1.1) for _ in range(4)), outcome("b", 2.0)]
    assert deviation_of(found, programs_alike=False) == pytest.approx(0.0953 / Z80, rel=1e-3)
    assert deviation_of(found, programs_alike=True) == pytest.approx(0.6931 / Z80, rel=1e-3)
