"""The Accuracy page: its points and errors are those of `syncwall validate`."""

import json
import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from bench.accuracy.pages import headline

from syncwall import catalogue
from syncwall.validate.accuracy_report import validate
from syncwall.validate.table import corpus_part
from syncwall.web.answers.accuracy import accuracy, as_run
from syncwall.web.answers.prediction import predicted
from syncwall.web.assets import shipped_accuracy
from syncwall.web.questions import AskedRun

SLOW = pytest.mark.weekly
ROOT = Path(__file__).parents[2]


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


@SLOW
def test_every_outcome_is_a_point(answer, report):
    place = answer["columns"].index
    assert len(answer["runs"]) == len(report.outcomes)
    for line, one in zip(answer["runs"], report.outcomes, strict=True):
        assert line[place("id")] == one.case.row.id
        assert line[place("measured_s")] == pytest.approx(one.case.measured_s, rel=1e-4)
        assert line[place("predicted_s")] == pytest.approx(one.step_s, rel=1e-4)
        both = line[place("low_s")], line[place("high_s")]
        assert both == pytest.approx(one.interval_s, rel=1e-4)
        assert answer["parts"][line[place("part")]] == corpus_part(one.case.row)
        assert answer["words"]["source"][line[place("source")]] == one.case.row.source


@SLOW
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
            assert np.abs(ratios - 1).mean() == pytest.approx(one.score.mape, abs=1e-5)
            assert np.median(np.abs(ratios - 1)) == pytest.approx(one.score.median_ape, abs=1e-4)


@SLOW
def test_doubts_have_reasons(answer, report):
    doubt = answer["columns"].index("doubt")
    found = [answer["words"]["doubt"][line[doubt]] for line in answer["runs"] if line[doubt] >= 0]
    assert sorted(found) == sorted(one.reason for one in report.doubtful)


@SLOW
def test_every_source_has_a_title_and_a_place(answer):
    for key, source in answer["sources"].items():
        assert source["title"] == catalogue.sources()[key]["title"]
        assert source["where"]


@SLOW
def test_rows_that_are_left_out_are_counted(answer, report):
    assert answer["skipped"] == len(report.skipped)
    assert sum(count for _, count in answer["why_skipped"]) == answer["skipped"]
    assert len(answer["runs"]) + answer["skipped"] == answer["rows"]
    assert answer["held_out"]["mape"] == report.summary.mape


@SLOW
def test_progress_grows(shares, answer):
    assert answer
    assert shares == sorted(shares)
    assert 0 <= shares[0] <= shares[-1] <= 1


@pytest.fixture(scope="module")
def sent():
    """What the page gets."""
    return json.loads(shipped_accuracy().body)


@SLOW
def test_what_is_shipped_is_what_is_computed(sent, answer):
    """If not: `python -m bench docs accuracy`."""
    found = json.loads(json.dumps(answer))
    figures: dict[str, Any] = {"runs": [], "held_out": {}, "published": {}, "unseen": {}}
    assert {**sent, **figures} == {**found, **figures}
    assert sent["held_out"] == pytest.approx(found["held_out"], rel=1e-3)
    for line, now in zip(sent["runs"], found["runs"], strict=True):
        assert (line[0], line[5:]) == (now[0], now[5:])
        assert line[1:5] == pytest.approx(now[1:5], rel=1e-3)


def test_the_page_says_the_figures_of_the_documentation(sent):
    summary = json.loads((ROOT / "docs" / "accuracy.json").read_text())["summary"]
    assert sent["published"] == {key: one for key, one in summary.items() if key != "against"}
    assert sent["unseen"] == headline()
    built_in = json.loads((ROOT / "docs" / "accuracy_built_in.json").read_text())["summary"]
    assert sent["held_out"]["sources"] == built_in["sources"]
    assert sent["held_out"]["mape"] == pytest.approx(built_in["mape"], abs=1e-4)


def test_the_answer_is_small_and_there_at_once(client):
    said = client.get("/api/accuracy", headers={"accept-encoding": "gzip"})
    assert said.headers["content-encoding"] == "gzip"
    assert int(said.headers["content-length"]) < 80_000
    tag = {"if-none-match": said.headers["etag"]}
    assert client.get("/api/accuracy", headers=tag).status_code == 304


@pytest.mark.parametrize("every", [0, 401, 802, 1203])
def test_a_run_opened_in_predict_gives_the_number_of_the_page(sent, every):
    line = next(
        one for one in sent["runs"][every:] if not as_run(one[0])["open"]
    )  # without what had to be guessed
    found = predicted(AskedRun.model_validate(as_run(line[0])["run"]))
    assert found["step_s"] == pytest.approx(line[2], rel=1e-3)


def test_runs_like_one_come_nearest_first(client, run):
    said = client.post("/api/accuracy/alike", json=run).json()
    distances = [one["distance"] for one in said["runs"]]
    assert distances == sorted(distances)
    assert distances[0] < 1
    near = client.post("/api/predict", json=run).json()["nearest_validated_run"]
    assert said["runs"][0]["id"] == near["id"]


def test_a_run_that_is_not_published_is_refused(client):
    said = client.get("/api/accuracy/run", params={"name": "none"})
    assert said.status_code == 422


def test_errors_of_some_runs_are_counted_as_the_report_counts_them(client):
    """Their places by measured time, and the mean over held-out sources of all of them."""
    whole = json.loads(shipped_accuracy().body)
    found = client.post("/api/accuracy/shown", json={}).json()
    times = [line[1] for line in whole["runs"]]
    sure = {place for place, line in enumerate(whole["runs"]) if line[-1] < 0}
    assert set(found["places"]) == sure
    assert [times[n] for n in found["places"]] == sorted(times[n] for n in sure)
    held = re.search(r'data-tile="held-out" data-value="([\d.]+)"', found["html"]["tiles"])
    assert held is not None
    assert float(held[1]) == pytest.approx(whole["held_out"]["mape"], abs=1e-4)


def test_a_wish_that_nothing_meets_is_answered(client):
    found = client.post("/api/accuracy/shown", json={"words": "no such model"}).json()
    assert found["places"] == []
    assert 'data-tile="mean"' in found["html"]["tiles"]
    assert client.post("/api/accuracy/shown", json={"chosen": ["x"]}).status_code == 422
