"""Files that are none, full disks, links and bases without end: a sentence, no traceback."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from syncwall.cli import main
from syncwall.lab.experiment import LabJob

RUN = ["--model", "llama-3.1-8b", "--cluster", "dgx-h100", "--gpus", "8"]


@pytest.mark.parametrize(
    "words",
    [
        ["predict", "FIFO"],
        ["predict", "--model", "./FIFO", *RUN[2:]],
        ["predict", "--cluster", "./FIFO", *RUN[:2]],
        ["predict", *RUN, "--from", "FIFO"],
        ["predict", *RUN, "--calibration", "FIFO"],
        ["predict", *RUN, "--known-run", "FIFO"],
        ["explain", "FIFO"],
        ["report", "FIFO", "--html", "x.html"],
        ["predict", "/dev/zero"],
    ],
)
def test_what_is_no_plain_file_is_refused_at_once(words, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    os.mkfifo("fifo.yaml")
    assert main([word.replace("FIFO", "fifo.yaml") for word in words]) == 2
    assert "is a pipe or a device" in capsys.readouterr().err


def test_a_link_to_itself_is_not_written_to(tmp_path, capsys):
    (tmp_path / "a.json").symlink_to("b.json")
    (tmp_path / "b.json").symlink_to("a.json")
    assert main(["show", "models", "--json", str(tmp_path / "a.json")]) == 2
    assert "a.json: is a link that leads to itself" in capsys.readouterr().err


def test_a_long_chain_of_bases_is_refused(tmp_path, capsys):
    for number in range(100):
        (tmp_path / f"c{number}.yaml").write_text(f"base: ./c{number + 1}.yaml\n")
    assert main(["predict", "--model", str(tmp_path / "c0.yaml"), *RUN[2:]]) == 2
    assert "16 files are based on each other" in capsys.readouterr().err


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="needs /dev/full")
@pytest.mark.parametrize(("to", "code"), [(">/dev/full", 2), (">&-", 0)], ids=["full", "closed"])
def test_output_that_cannot_be_written(to, code):
    done = subprocess.run(
        ["sh", "-c", f'"$0" -m syncwall show switches {to}', sys.executable],
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == code
    assert done.stderr.count("\n") == (code == 2)


@pytest.mark.parametrize("environment", [{"A=B": "1"}, {"": "1"}, {"A\0": "1"}, {"A": "\0"}])
def test_variables_that_no_process_can_have_are_refused(environment):
    with pytest.raises(ValueError, match="environment"):
        LabJob(measure="step", environment=environment)
