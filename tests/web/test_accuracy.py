"""The Accuracy page: its points and errors are those of `syncwall validate`."""

import numpy as np
import pytest

from syncwall import catalogue
from syncwall.validate.report import validate
from syncwall.validate.split import part_of
from syncwall.web.answers.accuracy import accuracy

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def shares():
    return []


@pytest.fixture(scope="module")
def report():
    return validate()


@pytest.fixture(scope="module")
def answer(shares, report):
    def again(*, progress):
        progress(0.5)
        return report

    with pytest.MonkeyPatch.context() as patch:  # half a minute less
        patch.setattr("syncwall.web.answers.accuracy.validate", again)
        return accuracy(progress=shares.append)


def test_every_outcome_is_a_point(answer, report):
    place = answer["columns"].index
    assert len(answer["runs"]) == len(report.outcomes)
    for line, one in zip(answer["runs"], report.outcomes, strict=True):
        assert line[place("id")] == one.case.row.id
        assert line[place("measured_s")] == one.case.measured_s
        assert line[place("predicted_s")] == one.step_s
        assert (line[place("low_s")], line[place("high_s")]) == one.interval_s
        assert answer["parts"][line[place("part")]] == part_of(one.case.row)
        assert answer["words"]["source"][line[place("source")]] == one.case.row.source


def test_the_errors_of_the_points_are_those_of_the_report(answer, report):
    """What the page counts from the points: see `score` in static/accuracy/runs.js."""
    place = answer["columns"].index
    source = answer["words"]["source"]
    for one in report.sets:
        if one.runs.kind != "source" or one.score is None:
            continue
        mine = [
            line
            for line in answer["runs"]
            if line[place("doubt")] < 0 and source[line[place("source")]] == one.runs.name
        ]
        ratios = np.array([line[place("predicted_s")] / line[place("measured_s")] for line in mine])
        if len(mine) == one.score.n:  # sources that are cut in two are sets of their own
            assert np.abs(ratios - 1).mean() == pytest.approx(one.score.mape)
            assert np.median(np.abs(ratios - 1)) == pytest.approx(one.score.median_ape)


def test_doubts_have_reasons(answer, report):
    doubt = answer["columns"].index("doubt")
    found = [answer["words"]["doubt"][line[doubt]] for line in answer["runs"] if line[doubt] >= 0]
    assert sorted(found) == sorted(one.reason for one in report.doubtful)


def test_every_source_has_a_title_and_a_place(answer):
    for key, source in answer["sources"].items():
        assert source["title"] == catalogue.sources()[key]["title"]
        assert source["where"]


def test_rows_that_are_left_out_are_counted(answer, report):
    assert answer["skipped"] == len(report.skipped)
    assert sum(count for _, count in answer["why_skipped"]) == answer["skipped"]
    assert len(answer["runs"]) + answer["skipped"] == answer["rows"]
    assert answer["held_out"]["mape"] == report.summary.mape


def test_progress_grows(shares, answer):
    assert answer
    assert shares == sorted(shares)
    assert 0 <= shares[0] <= shares[-1] <= 1
