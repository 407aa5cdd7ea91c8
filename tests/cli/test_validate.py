import json
import re
import subprocess
import sys
from pathlib import Path

import pytest

from syncwall.cli import main
from tests.validate.samples import table


@pytest.fixture
def runs(tmp_path: Path) -> Path:
    path = tmp_path / "runs.csv"
    path.write_text(table({"id": "a"}, {"id": "b", "gpus": "32"}, {"id": "c"}, {"id": "d", "tp": ""}))
    return path


def test_one_page_with_sets_worst_rows_and_reasons(runs: Path, capsys):
    assert main(["validate", str(runs)]) == 0
    output = capsys.readouterr()
    for words in [
        "By source",
        "ours",
        "Furthest off",
        "runs.csv:3",
        "Cannot be predicted: 1 row",
        "the source gives no tp",
        "3 of 4 rows predicted",
        "80% intervals",
    ]:
        assert words in output.out
    assert "━" not in output.err  # no progress bar where nobody watches


def test_the_list_of_worst_rows_has_the_length_asked_for(runs: Path, capsys):
    assert main(["validate", str(runs), "--worst", "0"]) == 0
    assert "Furthest off" not in capsys.readouterr().out
    assert main(["validate", str(runs), "--worst", "2"]) == 0
    block = capsys.readouterr().out.split("Furthest off")[1].split("\n\n")[0]
    assert len(re.findall(r"runs\.csv:\d", block)) == 2


def test_json_has_rows_skipped_doubtful_sets_and_summary(runs: Path, capsys):
    assert main(["validate", str(runs), "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert set(found) >= {"rows", "skipped", "doubtful", "sets", "summary"}
    assert found["rows"] == 4
    assert set(found["skipped"][0]) == {"id", "source", "reason", "file", "line"}
    assert {"mape", "median_ape", "coverage80_sources", "coverage80_rows"} <= set(found["summary"])


def test_baselines_stand_side_by_side(runs: Path, capsys):
    others = runs.with_name("others.csv")
    others.write_text("id,calculon_step_s\na,4\nb,3\nc,2\n")
    assert main(["validate", str(runs), "--against", str(others)]) == 0
    text = capsys.readouterr().out
    assert "Side by side" in text
    assert "on the same 3 rows of 1 source" in text


def test_the_page_is_written(runs: Path, capsys):
    page = runs.with_name("page.html")
    assert main(["validate", str(runs), "--html", str(page)]) == 0
    assert page.read_text().startswith("<!doctype html>")


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["no-such-directory"], "no-such-directory: does not exist"),
        (["RUNS", "--against", "no.csv"], "no.csv: cannot be read: No such file"),
        (["RUNS", "--html", "no/such/page.html"], "--html: there is no folder no/such"),
        (["RUNS", "--worst", "-1"], "--worst: -1 is out of range: write 0 to"),
        (["RUNS", "--catalogue", "nowhere"], "nowhere: is not a catalogue"),
    ],
)
def test_wrong_input_exits_with_2(arguments, message, runs: Path, capsys):
    words = [str(runs) if word == "RUNS" else word for word in arguments]
    assert main(["validate", *words]) == 2
    assert message in capsys.readouterr().err


def test_a_broken_cell_is_named_with_file_and_line(runs: Path):
    runs.write_text(table({"gpus": "sixteen"}))
    done = subprocess.run(
        [sys.executable, "-m", "syncwall", "validate", str(runs)],
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 2
    assert done.stderr.endswith(
        'runs.csv:2:1  "sixteen" in column gpus is not a whole number from 1 to 10,000,000\n'
    )
