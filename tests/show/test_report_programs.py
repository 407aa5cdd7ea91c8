"""The article of a recorded program: what it says is what `predict --work` says."""

import shutil
from pathlib import Path

import pytest

import syncwall as sw
from syncwall.cli import main
from syncwall.describe import lookup
from syncwall.show.numbers import duration
from tests.timeline.test_program import kernel

PROGRAM = Path(__file__).parents[2] / "examples" / "capture" / "hybrid.work.json.gz"


@pytest.fixture
def desk(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    shutil.copy(PROGRAM, "run.work.json.gz")
    return tmp_path


def test_a_program_is_reported_with_its_step_and_its_wall(desk, capsys):
    words = ["report", "run.work.json.gz", "--cluster", "dgx-h100", "--html", "a.html"]
    assert main(words) == 0
    page, out = Path("a.html").read_text(), capsys.readouterr().out
    found = sw.predict(sw.read_program(PROGRAM), cluster=lookup.cluster("dgx-h100"))
    for said in (duration(found.step_s), found.verdict.text, "How far it scales", "blocks.*.qkv"):
        assert said in page
        assert said in out
    assert "syncwall plan wall --work run.work.json.gz --cluster dgx-h100" in page
    assert 'src="http' not in page


def test_a_program_of_fixed_size_says_why(desk, capsys):
    rank = sw.read_program(PROGRAM).ranks[0]
    made = sw.Program(1, (type(rank)(0, 1, (kernel(0.1),)),), "one.py")
    sw.write_program(made, "one.work.json.gz")
    assert (
        main(["report", "one.work.json.gz", "run.work.json.gz", "--cluster", "dgx-h100", "--html", "a.html"])
        == 0
    )
    page = Path("a.html").read_text()
    assert "it has one rank" in page
    assert "2 results" in page
    assert "one.py" in capsys.readouterr().out


def test_a_machine_is_needed(desk, capsys):
    assert main(["report", "run.work.json.gz"]) == 2
    assert "--cluster NAME" in capsys.readouterr().err
