"""The page about ranking shows the accepted figures, and the stalls are what the fit gives."""

import json

import pytest
from bench.accuracy.ranking import ACCEPTED, FIGURES, PAGE, page, worse
from bench.fit.stalls import FILE, fitted, read, rewritten

from syncwall.validate.table import RowUse, corpus_part, read_tables
from tests.validate.samples import CORPUS, needs_corpus

LINES = json.loads(ACCEPTED.read_text())


def test_the_page_shows_the_accepted_figures():
    text = PAGE.read_text()
    assert page(LINES, text) == text


def test_a_figure_that_falls_is_named():
    fallen = [line | dict.fromkeys(FIGURES, 0.0) for line in LINES]
    assert worse(LINES, LINES) == []
    assert any("first_median" in line for line in worse(LINES, fallen))


@pytest.mark.slow
@needs_corpus
def test_stalls_are_fitted_to_calibration_rows_and_the_catalogue_has_the_result():
    groups = read(read_tables(CORPUS))
    parts = {corpus_part(one.case.row) for some in groups.values() for one in some}
    assert parts == {RowUse.CALIBRATION}
    text = FILE.read_text()
    assert rewritten(text, {name: fitted(some) for name, some in groups.items()}) == text
