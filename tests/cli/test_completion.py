"""Completion, asked of real shells where there are some."""

import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from syncwall.cli import main
from syncwall.cli.commands import DOES as VERBS


@pytest.fixture(scope="module")
def scripts(tmp_path_factory):
    """The script of each shell, in a file."""
    folder = tmp_path_factory.mktemp("completion")
    for shell in ("bash", "zsh", "fish"):
        done = subprocess.run(
            [sys.executable, "-m", "syncwall", "completion", shell],
            capture_output=True,
            text=True,
            check=True,
        )
        (folder / shell).write_text(done.stdout)
    return folder


def completed(scripts: Path, *words: str) -> list[str]:
    """What bash offers for the last of `words`."""
    code = (
        'source "$1"; shift; complete -p syncwall | grep -q -- "-F _syncwall syncwall" && '
        'COMP_WORDS=(syncwall "$@") && COMP_CWORD=$# && { _syncwall; echo "${COMPREPLY[@]}"; }'
    )
    done = subprocess.run(
        ["bash", "-uc", code, "-", str(scripts / "bash"), *words],
        capture_output=True,
        text=True,
        check=True,
    )
    assert done.stderr == ""
    return done.stdout.split()


@pytest.mark.parametrize(
    ("words", "offered"),
    [
        (["pre"], ["predict"]),
        (["plan", "la"], ["layouts"]),
        (["measure", ""], ["collectives", "links", "matmul", "step", "calibration", "node"]),
        (["predict", "--shar"], ["--shard", "--shard-degree"]),
        (["predict", "--shard", "z"], ["zero1", "zero2", "zero3"]),
        (["plan", "wall", "--layout.shard", "f"], ["fsdp"]),
        (["measure", "step", "--shard", ""], ["ddp", "fsdp", "none"]),
        (["predict", "--model", "llama-3.1-4"], ["llama-3.1-405b"]),
        (["predict", "--cluster", "dgx-h"], ["dgx-h100", "dgx-h200"]),
        (["predict", "--software.framework", "torcht"], ["torchtitan"]),
        (["predict", "--framework", "torcht"], ["torchtitan"]),
        (["show", "switch", "spectrum-4-sn54"], ["spectrum-4-sn5400"]),
        (["show", "dev"], ["devices", "device"]),
        (["completion", ""], ["bash", "zsh", "fish"]),
        (["schema", "pre"], ["predict"]),
        (["predict", "--explain-assumptions", "--tim"], ["--timeline"]),
        (["predict", "--json", "--tim"], ["--timeline"]),
        (["predict", "--help"], ["--help", "--help-all"]),
        (["predict", ""], []),  # files: bash offers them where we do not
        (["predict", "--nodes", "-"], []),
        (["predict", "--from", ""], []),
        (["nonsense", ""], []),
    ],
)
def test_bash_completes(words, offered, scripts):
    assert completed(scripts, *words) == offered


def test_bash_offers_every_verb(scripts):
    assert completed(scripts, "") == list(VERBS)


@pytest.mark.parametrize("shell", ["bash", "dash"])
def test_the_part_that_bash_and_zsh_share_is_plain_posix_shell(shell, scripts):
    """No zsh may be installed here; what it runs is then tried with another shell."""
    if shutil.which(shell) is None:
        pytest.skip(f"{shell} is not installed")
    shared = (scripts / "zsh").read_text().partition("_syncwall() {")[0]
    assert (scripts / "bash").read_text().startswith(shared.removeprefix("#compdef syncwall\n"))
    asked = '\n_syncwall_words "" ""; _syncwall_words d measure step --shard\n'
    done = subprocess.run([shell, "-uc", shared + asked], capture_output=True, text=True, check=True)
    assert done.stdout == " ".join(VERBS) + "\nddp fsdp none\n"


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_a_shell_can_read_its_script(shell, scripts):
    if shutil.which(shell) is None:
        pytest.skip(f"{shell} is not installed")
    done = subprocess.run([shell, "-n", str(scripts / shell)], capture_output=True, text=True, check=True)
    assert done.stderr == ""


def test_fish_offers_it(scripts):
    if shutil.which("fish") is None:
        pytest.skip("fish is not installed")
    code = f"source {scripts / 'fish'}; complete -C 'syncwall predict --shard z'"
    done = subprocess.run(["fish", "-c", code], capture_output=True, text=True, check=True)
    assert [line.split("\t")[0] for line in done.stdout.splitlines()] == ["zero1", "zero2", "zero3"]


def test_texts_are_quoted_for_fish(scripts):
    lines = (scripts / "fish").read_text().splitlines()
    sp = next(line for line in lines if " -l sp " in line)
    assert "-x -a 'true false' -d 'Megatron\\'s sequence parallelism:" in sp
    for line in lines:
        assert line.replace("\\'", "").count("'") % 2 == 0


def test_another_shell_is_refused(capsys):
    assert main(["completion", "tcsh"]) == 2
    assert '"tcsh" is not known: write bash, zsh or fish' in capsys.readouterr().err
