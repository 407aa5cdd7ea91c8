"""Logs that people posted say what was expected before they were read."""

import numpy as np
import pytest

import syncwall as sw
from syncwall.read.training_log import FIGURES, read_training_log
from tests.explain.training_logs.samples import excerpts, text_of

CASES = excerpts()


@pytest.fixture(params=CASES, ids=[f"{n}-{one['thread']}" for n, one in enumerate(CASES)])
def case(request, tmp_path):
    path = tmp_path / "train.log"
    path.write_text(text_of(request.param), newline="")
    return path, request.param["expect"]


def test_figures_are_those_that_are_printed(case):
    path, expected = case
    log = read_training_log(path)
    assert log.framework == expected["framework"]
    assert len(log.steps) == expected.get("lines", len(log.steps))
    assert (np.diff(log.steps) > 0).all()
    assert set(log.figures) <= set(FIGURES)


def test_level_and_verdict_are_as_expected(case):
    path, expected = case
    found = sw.explain(path)
    (figures,) = found.logs
    for name in expected.keys() - {"framework", "lines", "state", "finds", "loss"}:
        assert getattr(figures, name) == pytest.approx(float(expected[name]), rel=0.01), name
    if "loss" in expected:
        assert figures.last_loss == pytest.approx(expected["loss"])
    assert found.state.value == expected["state"], [one.what for one in found.findings]
    said = "; ".join(one.what for one in found.findings)
    for words in expected.get("finds", ()):
        assert words in said
