"""Larger runs of a source whose runs on one node are known."""

from dataclasses import replace

import numpy as np
import pytest
from bench.accuracy.site import one_node

from syncwall.validate.evaluation import outcomes
from syncwall.validate.mapping import cases_of
from syncwall.validate.table import RunRow
from tests.validate.samples import row


def slower(rows: list[RunRow], factor: float) -> list[RunRow]:
    """The same runs, measured at `factor` times their prediction."""
    times = [str(one.step_s * factor) for one in outcomes(cases_of(rows))]
    return [replace(one, cells={**one.cells, "step_time_s": s}) for one, s in zip(rows, times, strict=True)]


def runs(source: str) -> list[RunRow]:
    sizes = [8] * 4 + [64] * 3
    return [
        row(id=f"{source}-{number}", source=source, gpus=str(gpus), gbs=str(gpus * 4), dp="", tp="2")
        for number, gpus in enumerate(sizes)
    ]


def test_a_bias_that_one_node_has_too_is_halved():
    (found,) = one_node(slower(runs("internevo"), 1.25))
    assert (len(found.known), len(found.before)) == (4, 3)
    assert found.before == pytest.approx(np.full(3, -np.log(1.25)))
    assert found.is_halved


def test_a_bias_that_one_node_has_not_stays():
    rows = runs("internevo")
    (found,) = one_node([*slower(rows[:4], 1.0), *slower(rows[4:], 1.25)])
    assert not found.is_halved
    assert found.after == pytest.approx(found.before, abs=0.01)


def test_judges_and_sources_of_one_size_are_left_out():
    assert list(one_node(slower(runs("nobody-knows-this-source"), 1.25))) == []
    assert list(one_node(slower(runs("internevo")[4:], 1.25))) == []
