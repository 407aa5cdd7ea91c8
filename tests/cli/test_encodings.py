"""Terminals without UTF-8, without colour, and pipes: what is printed can be read everywhere."""

import contextlib
import json
import os
import pty
import subprocess
import sys
from pathlib import Path

import pytest

PREDICT = ["predict", "--model", "llama-3.1-8b", "--cluster", "dgx-h100", "--gpus", "16"]
HELP = ["predict", "--help-all"]
UNKNOWN = ["predict", "--nodse", "4"]
NO_VALUE = ["predict", "--nodes"]
NO_FLAG = ["show", "gadgets"]
PLAIN = {"LC_ALL": "C"}
WINDOWS = {"PYTHONIOENCODING": "cp1252"}
COLOURLESS = {"NO_COLOR": "1", "PYTHONIOENCODING": "utf-8"}


def printed(words: list[str], environment: dict[str, str]) -> tuple[int, bytes, bytes]:
    """Exit code and what went to standard output and to standard error, through pipes."""
    cleared = {key: os.environ[key] for key in ("PATH", "PYTHONPATH", "HOME") if key in os.environ}
    done = subprocess.run(
        [sys.executable, "-m", "syncwall", *words],
        env=cleared | environment,
        capture_output=True,
        check=False,
    )
    return done.returncode, done.stdout, done.stderr


@pytest.mark.parametrize(
    ("words", "code"),
    [(PREDICT, 0), (HELP, 0), (UNKNOWN, 2), (NO_VALUE, 2), (NO_FLAG, 2)],
    ids=["answer", "help", "unknown flag", "no value", "wrong word"],
)
@pytest.mark.parametrize(
    ("environment", "encoding"),
    [(PLAIN, "ascii"), (WINDOWS, "cp1252"), (COLOURLESS, "utf-8")],
    ids=["C", "cp1252", "no colour"],
)
def test_all_can_be_read_and_nothing_is_coloured(words, code, environment, encoding):
    found, out, err = printed(words, environment)
    text = out.decode(encoding) + err.decode(encoding)
    assert found == code
    assert "Traceback" not in text
    assert "?" not in text.replace('did you mean "--nodes"?', "")  # a letter that nobody has
    assert "\x1b" not in text
    assert len(text) > 20


def test_letters_that_are_missing_have_a_likeness():
    _, out, _ = printed(PREDICT, PLAIN)
    assert b"16 x NVIDIA H100" in out
    assert b"####" in out
    _, out, _ = printed(PREDICT, WINDOWS)
    assert "16 × NVIDIA H100" in out.decode("cp1252")
    assert b"####" in out


@pytest.mark.parametrize("environment", [PLAIN, WINDOWS, COLOURLESS], ids=["C", "cp1252", "utf-8"])
def test_json_is_the_same_everywhere(environment, tmp_path: Path):
    """As the standard has it, in UTF-8; elsewhere its letters are escaped."""
    path = tmp_path / "run.yaml"
    model = "{base: llama-3.1-8b, title: Llama “8B” × 1}"
    path.write_text(f"model: {model}\ncluster: dgx-h100\nnodes: 2\n", encoding="utf-8")
    _, out, err = printed(["predict", str(path), "--json"], environment)
    assert json.loads(out.decode("utf-8"))["run"]["model"]["title"] == "Llama “8B” × 1", err


@pytest.mark.parametrize("environment", [{}, {"NO_COLOR": "1"}], ids=["colour", "no colour"])
def test_a_terminal_is_coloured_unless_nobody_wants_it(environment):
    ours, theirs = pty.openpty()
    command = subprocess.Popen(
        [sys.executable, "-m", "syncwall", *PREDICT],
        stdout=theirs,
        env=os.environ | {"TERM": "xterm-256color", "COLUMNS": "100"} | environment,
    )
    os.close(theirs)
    shown = b""
    with contextlib.suppress(OSError):  # how Linux says that the other side is closed
        while part := os.read(ours, 4096):
            shown += part
    os.close(ours)
    assert command.wait() == 0
    assert (b"\x1b[36m" in shown) == (not environment)
