"""Runs of models that are no plain decoders: errors of the first look, nothing was fitted."""

from pathlib import Path

import pytest

from syncwall.validate.evaluation import ValidatedRun, outcomes
from syncwall.validate.mapping import cases_of
from syncwall.validate.score import score
from syncwall.validate.table import read_tables

SHARED = Path(__file__).parents[3] / "shared" / "data" / "runs"
FAMILIES = {"nvidia-bert-2021": 16, "jax-toolbox-t5x": 8, "jax-toolbox-vit": 8}


def predicted(*sources: str) -> list[ValidatedRun]:
    return list(outcomes(cases_of(one for one in read_tables() if one.source in sources)))


@pytest.mark.parametrize(
    ("source", "mean"),
    [("nvidia-bert-2021", 0.07), ("jax-toolbox-t5x", 0.114), ("jax-toolbox-vit", 0.377)],
)
def test_errors_are_as_the_page_says(source, mean):
    found = predicted(source)
    assert len(found) == FAMILIES[source]
    assert score(found).mape == pytest.approx(mean, abs=0.005)


def test_the_interval_covers_four_fifths():
    hybrids: list[ValidatedRun] = []
    if SHARED.is_dir():
        rows = (one for one in read_tables(SHARED) if one.text("family").startswith("hybrid"))
        hybrids = list(outcomes(cases_of(rows)))
    assert score([*predicted(*FAMILIES), *hybrids]).coverage80 >= 0.8
