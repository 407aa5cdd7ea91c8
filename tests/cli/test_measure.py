import contextlib
import io
import subprocess
import sys

import pytest

from syncwall.cli import main
from tests.cli.flags import commands, flags_of
from tests.measure.ranks import started

MEASURED = [command for command in commands() if command.startswith("measure ")]


def test_help_lists_the_parts(capsys):
    assert main(["measure", "--help"]) == 0
    assert "links" in capsys.readouterr().out


def test_an_unknown_part_suggests_the_nearest(capsys):
    assert main(["measure", "linsk"]) == 2
    assert 'did you mean "links"?' in capsys.readouterr().err


@pytest.mark.parametrize("part", ["collectives", "links"])
def test_the_help_of_a_part_imports_no_torch(part):
    code = (
        "import sys; from syncwall.cli import main\n"
        f"try: main(['measure', '{part}', '--help'])\n"
        "except SystemExit: pass\n"
        "print('torch' in sys.modules)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.splitlines()[-1] == "False"


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["collectives", "--kinds", "all-reduse"], 'did you mean "all-reduce"?'),
        (["collectives", "--trials", "0"], "--trials: 0 is not a number of trials"),
        (["links", "--repeats", "0"], "--repeats: 0 is not a number of repeats"),
        (["links", "--expect", "25Gbps"], "--expect: "),
        (["links", "--size", "many"], "--size: "),
    ],
)
def test_a_wrong_flag_is_an_input_error(arguments, words, capsys, monkeypatch):
    monkeypatch.delenv("RANK", raising=False)
    assert main(["measure", *arguments]) == 2
    assert words in capsys.readouterr().err


@pytest.mark.slow
@pytest.mark.parametrize("part", ["collectives", "links"])
def test_one_rank_alone_is_told_how_to_start_more(part, capsys, monkeypatch):
    pytest.importorskip("torch", reason="torch is not installed")
    monkeypatch.delenv("RANK", raising=False)
    assert main(["measure", part]) == 2
    assert f"torchrun --nproc-per-node 2 -m syncwall measure {part}" in capsys.readouterr().err


@pytest.mark.slow
def test_only_rank_0_tells_of_wrong_input():
    pytest.importorskip("torch", reason="torch is not installed")
    words = ("--backend", "gloo", "--min-size", "8MiB", "--max-size", "1MiB")
    ranks = started(("a", "b"), "-m", "syncwall", "measure", "collectives", *words)
    assert [rank.end(60) for rank in ranks] == [2, 2]
    assert ranks[0].err.startswith("--min-size 8MiB is more than --max-size")
    assert ranks[1].err == ""


@pytest.mark.slow
def test_a_folder_that_is_not_there_is_said_before_anything_is_measured(tmp_path):
    pytest.importorskip("torch", reason="torch is not installed")
    words = ("--backend", "gloo", "--json", str(tmp_path / "no" / "out.json"))
    ranks = started(("a", "b"), "-m", "syncwall", "measure", "links", *words)
    assert [rank.end(60) for rank in ranks] == [2, 2]
    assert ranks[0].err == f"--json: there is no folder {tmp_path / 'no'}\n"
    assert (ranks[0].out, ranks[1].err) == ("", "")


@pytest.mark.slow
@pytest.mark.parametrize("command", MEASURED)
def test_torchrun_does_not_take_a_flag_for_its_own(command):
    """It refuses any word that begins an option of its own, even after the module's name."""
    pytest.importorskip("torch", reason="torch is not installed")
    from torch.distributed.run import get_args_parser

    for flag in (text.split()[0] for text in flags_of(command) if text.startswith("--")):
        with contextlib.redirect_stderr(io.StringIO()) as said, contextlib.suppress(SystemExit):
            get_args_parser().parse_args(["-m", "syncwall", *command.split(), flag])
        assert said.getvalue() == "", flag
