"""The recorded findings: what the repository claims of them is what the data says."""

from pathlib import Path

import pytest

from syncwall.cli import main
from syncwall.lab.comparison import LabComparison, predicted_steps
from syncwall.lab.experiment import read_experiment
from syncwall.lab.experiment_run import LabRecord
from syncwall.measure.result import Result

ROOT = Path(__file__).parents[1]
RECORDED = sorted((ROOT / "examples" / "findings").glob("*.json"))
NAMES = [path.stem for path in RECORDED]


def comparison(path: Path) -> LabComparison:
    return predicted_steps([LabRecord.model_validate(one) for one in Result.read(path).data["records"]])


@pytest.mark.parametrize("path", RECORDED, ids=NAMES)
def test_every_topology_of_the_experiment_was_recorded(path):
    experiment = read_experiment(path.with_suffix(".yaml"))
    result = Result.read(path)
    assert result.complete
    labels = {LabRecord.model_validate(one).topology.label for one in result.data["records"]}
    assert labels == {topology.label for topology in experiment.topologies()}
    assert len(comparison(path).rows) == len(labels) * len(experiment.jobs)


def test_steps_are_predicted_within_the_goals():
    rows = tuple(row for path in RECORDED for row in comparison(path).rows)
    found = LabComparison(rows)
    said = f"{len(rows)} steps, mean error {found.mean_error:.1%}, worst {found.worst.error:+.1%}"
    assert said in (ROOT / "docs" / "findings" / "index.md").read_text()
    assert len(rows) >= 40
    assert found.mean_error <= 0.10
    assert abs(found.worst.error) <= 0.25


@pytest.mark.parametrize("path", RECORDED, ids=NAMES)
def test_places_come_out_in_the_right_order(path):
    assert all(order.is_right for order in comparison(path).orders())


@pytest.mark.parametrize("path", RECORDED, ids=NAMES)
def test_the_article_is_made_of_the_data(path, tmp_path):
    """`syncwall report FILE --markdown docs/findings/NAME.md --notes ...` gives the page."""
    article = tmp_path / f"{path.stem}.md"
    notes = path.with_suffix(".notes.md")
    assert main(["report", str(path), "--markdown", str(article), "--notes", str(notes)]) == 0
    for made in tmp_path.iterdir():
        assert made.read_text() == (ROOT / "docs" / "findings" / made.name).read_text()
