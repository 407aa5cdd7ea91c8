import json
import time
from pathlib import Path

import pytest

from syncwall.problems import InputError
from syncwall.records import plain
from syncwall.validate.accuracy_report import Report, validate
from syncwall.validate.score import read_baselines
from syncwall.validate.table import read_tables
from tests.validate.samples import CORPUS, needs_corpus, table

ROWS = [
    {"id": "a"},
    {"id": "b", "gpus": "32", "gbs": "128"},
    {"id": "c", "gpus": "64", "gbs": "256"},
    {"id": "doubtful", "grade": "C", "step_time_s": "400"},
    {"id": "open", "tp": ""},
]
OTHERS = "id,measured_step_s,guess_step_s,gone_step_s\na,1,4.2,\nb,1,8.4,\nopen,1,9,\n"


@pytest.fixture(scope="module")
def report(tmp_path_factory: pytest.TempPathFactory) -> Report:
    folder = tmp_path_factory.mktemp("tables")
    (folder / "runs.csv").write_text(table(*ROWS))
    (folder / "others.csv").write_text(OTHERS)
    return validate(folder / "runs.csv", folder / "others.csv")


def test_rows_are_counted_once(report):
    found = plain(report)
    assert found["rows"] == 5
    assert found["skipped"] == [
        {"id": "open", "source": "ours", "reason": "the source gives no tp", "file": "runs.csv", "line": 6}
    ]
    reason = "graded as coarse or doubtful"
    assert found["doubtful"] == [{"id": "doubtful", "source": "ours", "reason": reason}]


def test_rows_in_doubt_count_only_in_the_figures_with_all(report):
    mine = next(one for one in plain(report)["sets"] if one["kind"] == "source")
    assert (mine["name"], mine["n"], mine["n_all"], mine["held_out"]) == ("ours", 3, 4, True)
    errors = {one.case.row.id: abs(one.ratio - 1) for one in report.outcomes}
    assert mine["mape"] == pytest.approx(sum(errors[name] for name in "abc") / 3)
    assert mine["mape_all"] == pytest.approx(sum(errors.values()) / 4)


def test_a_baseline_is_compared_on_the_runs_of_both(report):
    mine = next(one for one in plain(report)["sets"] if one["kind"] == "source")
    errors = {one.case.row.id: abs(one.ratio - 1) for one in report.outcomes}
    assert list(mine["against"]) == ["guess"]
    other = mine["against"]["guess"]
    assert (other["n"], other["mape"]) == (2, pytest.approx((0.0 + 1.0) / 2))
    assert other["mape_ours"] == pytest.approx((errors["a"] + errors["b"]) / 2)
    assert report.summary.against == {}  # both predict fewer than three rows


def test_the_summary_is_a_mean_over_held_out_sources(report):
    mine = next(one for one in report.sets if one.runs.kind == "source")
    assert (report.summary.sources, report.summary.n) == (1, 3)
    assert mine.score is not None
    assert report.summary.mape == pytest.approx(mine.score.mape)
    assert report.summary.coverage80_rows == report.summary.coverage80_sources


def test_sets_have_every_figure_and_json_can_write_them(report):
    found = json.loads(json.dumps(plain(report), allow_nan=False))
    keys = {
        "name",
        "kind",
        "n",
        "mape",
        "median_ape",
        "ratio_median",
        "ratio_p10",
        "ratio_p90",
        "coverage80",
        "held_out",
        "mape_one_known_run",
        "mape_three_known_runs",
        "mape_five_known_runs",
        "mape_without_bias",
        "n_memory",
        "memory_mape",
        "memory_median_ape",
        "not_fitting",
        "tight",
        "n_all",
        "mape_all",
        "against",
    }
    assert all(set(one) == keys for one in found["sets"])
    assert {one["kind"] for one in found["sets"]} == {
        "source",
        "accelerator",
        "scale",
        "parallelism",
    }


def test_progress_goes_from_nothing_to_all(tmp_path: Path):
    (tmp_path / "runs.csv").write_text(table(*ROWS))
    shares: list[float] = []
    validate(tmp_path / "runs.csv", progress=shares.append)
    assert shares == sorted(shares)
    assert (shares[0], shares[-1]) == (0.0, 1.0)


def test_the_worst_runs_are_those_with_the_largest_factor(report):
    order = [one.case.row.id for one in report.worst(9)]
    assert set(order) == set("abc")
    assert len(report.worst(0)) == 0


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("name,x_step_s\na,1\n", "others.csv:1:1  has no column id"),
        ("id,measured_step_s\na,1\n", "has no predictions"),
        ("id,x_step_s\na,quick\n", 'others.csv:2:1  "quick" in column x_step_s is not a number of'),
        ("id,x_step_s\na,0\n", "is not a number of seconds"),
    ],
)
def test_a_broken_baseline_is_refused(text, message, tmp_path: Path):
    path = tmp_path / "others.csv"
    path.write_text(text)
    with pytest.raises(InputError) as refused:
        read_baselines(path)
    assert message in str(refused.value)


OTHER_FAMILIES = ("nvidia-bert-2021", "jax-toolbox-t5x", "jax-toolbox-vit")
"""Sources whose runs only the built-in tables have."""


@needs_corpus
@pytest.mark.weekly
def test_all_5086_rows_in_a_minute_and_the_built_in_tables_say_the_same():
    start = time.process_time()
    found = validate(CORPUS)
    assert time.process_time() - start < 60
    assert found.rows == 5086
    ratios = {one.case.row.id: one.ratio for one in found.outcomes}
    doubts = {one.outcome.case.row.id for one in found.doubtful}
    own = validate()
    assert len(own.outcomes) >= 800
    assert own.rows == len(read_tables())
    mine = {one.case.row.id: one for one in own.outcomes}
    new = {name for name, one in mine.items() if one.case.row.source in OTHER_FAMILIES}
    assert mine.keys() - ratios.keys() == new
    for name in mine.keys() - new:
        assert mine[name].ratio == pytest.approx(ratios[name], rel=1e-9), name
    assert {one.outcome.case.row.id for one in own.doubtful} - new == doubts & mine.keys()
