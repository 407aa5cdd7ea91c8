"""The command line: its flags, pinned, and what it says of a call that is wrong.

`python -m tests.cli.test_cli` writes `data/flags.txt` anew; its difference is what users will
notice.
"""

import json
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from syncwall.cli import main
from tests.cli.flags import commands, flags_of, short_forms

PINNED = Path(__file__).parents[1] / "data" / "flags.txt"
RUN = [command for command in commands() if "--gpus N" in flags_of(command)]
"""Verbs that take a run."""


def interface() -> Iterator[str]:
    """A line for every argument of every verb; its short form behind it, if it has one."""
    for command in sorted(commands()):
        short = short_forms(command)
        for flag in sorted(flags_of(command)):
            yield " ".join(filter(None, (f"{command}:", flag, short.get(flag.split()[0]))))


def test_verbs_and_flags_are_these():
    assert list(interface()) == PINNED.read_text().splitlines()


@pytest.mark.parametrize("command", RUN)
def test_keys_of_the_layout_and_the_software_have_a_short_form(command):
    names = [flag.split()[0] for flag in flags_of(command)]
    keys = [name for name in names if name.startswith(("--layout.", "--software."))]
    assert short_forms(command) == {key: f"--{key.partition('.')[2]}" for key in keys}
    assert keys


def test_help_and_version(capsys):
    assert main(["--help"]) == 0
    assert "syncwall show model llama-3.1-405b" in capsys.readouterr().out
    assert main(["--version"]) == 0
    assert capsys.readouterr().out.startswith("syncwall 0.")


def test_no_arguments_show_the_help(capsys):
    assert main([]) == 0
    assert "usage" in capsys.readouterr().out


def test_a_wrong_word_exits_with_2(capsys):
    assert main(["show", "gadgets"]) == 2
    assert "devices" in capsys.readouterr().err


@pytest.mark.parametrize("behind", [[], ["--tp", "8"]])
def test_a_flag_without_its_value_says_what_to_write(behind, capsys):
    assert main(["predict", "--nodes", *behind]) == 2
    assert capsys.readouterr().err == "--nodes has no value: write `--nodes N`\n"


@pytest.mark.parametrize("words", [["NAME"], ["--nodes", "4", "NAME"], ["file.yaml", "NAME"]])
@pytest.mark.parametrize(("kind", "name"), [("model", "llama-3.1-8b"), ("cluster", "dgx-h100")])
def test_a_name_that_stands_alone_says_which_flag_it_belongs_to(capsys, words, kind, name):
    assert main(["predict", *(name if word == "NAME" else word for word in words)]) == 2
    said = capsys.readouterr().err
    assert said == f'"{name}" is a {kind}, not a file: write --{kind} {name}\n'


def test_a_file_may_be_called_as_a_model_is(capsys, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "llama-3.1-8b").write_text("model: llama-3.1-8b\ncluster: dgx-h100\n")
    assert main(["predict", "llama-3.1-8b"]) == 0


def test_a_switch_that_stands_alone_is_true(capsys):
    run = ["predict", "--model", "llama-3.1-8b", "--cluster", "dgx-h100", "--nodes", "1"]
    answers = []
    for switch in (["--sp", "true"], ["--sp"], ["--layout.sp"]):
        assert main([*run, *switch, "--tp", "2", "--json"]) == 0
        answers.append(capsys.readouterr().out)
    assert answers[0] == answers[1] == answers[2]
    assert main([*run, "--tp", "2", "--sp"]) == 0


@pytest.mark.parametrize(
    ("wrong", "meant"),
    [
        ("--nodse", "--nodes"),
        ("--tpp", "--tp"),
        ("--layout.shrad", "--layout.shard"),
        ("--global-bacth=8", "--global-batch"),
        ("--jason", "--json"),
    ],
)
def test_an_unknown_flag_suggests_the_nearest(wrong, meant, capsys):
    assert main(["predict", wrong, "4"]) == 2
    said = wrong.partition("=")[0]
    assert capsys.readouterr().err == f'unknown flag "{said}"; did you mean "{meant}"?\n'


@pytest.mark.parametrize("verb", [["plan", "layouts"], ["report"], ["compare"]])
def test_verbs_without_recorded_programs_say_where_they_go(verb, capsys):
    assert main([*verb, "--work", "mine.work.json.gz"]) == 2
    assert "`compare` and `report` as files" in capsys.readouterr().err


def test_both_spellings_of_a_flag_are_known(capsys):
    assert main(["predict", "--global_batch", "8", "--layout.micro_batch=1"]) == 2
    assert capsys.readouterr().err.startswith("write --model NAME")


def test_an_unknown_verb_suggests_the_nearest(capsys):
    assert main(["shoe"]) == 2
    assert capsys.readouterr().err == 'unknown verb "shoe"; did you mean "show"?\n'


def test_an_input_error_exits_with_2_and_no_traceback():
    done = subprocess.run(
        [sys.executable, "-m", "syncwall", "show", "device", "h100-sxn"],
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 2
    assert done.stderr.startswith('unknown device "h100-sxn"; did you mean "h100-sxm"')
    assert "Traceback" not in done.stderr


def test_help_imports_no_numpy_and_no_descriptions():
    code = (
        "import sys; from syncwall.cli import main\n"
        "main(['--help'])\n"
        "heavy = ('numpy', 'torch', 'pydantic', 'rich', 'yaml', 'tyro')\n"
        "print([m for m in heavy if m in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.splitlines()[-1] == "[]"


def test_a_reader_that_stops_early_is_no_error():
    command = f"{sys.executable} -m syncwall show models | head -1"
    done = subprocess.run(
        ["bash", "-o", "pipefail", "-c", command], capture_output=True, text=True, check=False
    )
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.split()[:2] == ["name", "parameters"]


def test_json_is_json_even_where_text_is_not_ascii(capsys):
    assert main(["show", "clusters", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)


if __name__ == "__main__":
    PINNED.write_text("".join(f"{line}\n" for line in interface()))
