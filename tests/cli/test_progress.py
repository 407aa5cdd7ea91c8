"""What long commands say while they work, where no terminal draws a bar."""

import io
import sys

import pytest

from syncwall.cli import main
from syncwall.cli.output import Lines, bar, status


class Clock:
    """Time that passes only when told."""

    def __init__(self) -> None:
        self.now = 100.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def clock():
    return Clock()


def test_the_first_line_comes_after_two_seconds_the_next_every_five(clock, capsys):
    said = Lines("layouts", clock)
    for tenths in range(200):  # twenty seconds of work, told ten times a second
        clock.now = 100.0 + tenths / 10.0
        said(tenths / 200.0)
    assert capsys.readouterr().err.splitlines() == [
        "layouts: 10%, about 18 s left",
        "layouts: 35%, about 13 s left",
        "layouts: 60%, about 8 s left",
        "layouts: 85%, about 3 s left",
    ]


def test_what_is_quick_says_nothing(clock, capsys):
    said = Lines("layouts", clock)
    for share in (0.0, 0.5, 1.0):
        clock.now += 0.6
        said(share)
    assert capsys.readouterr() == ("", "")


def test_long_times_are_minutes_and_nothing_done_has_no_end(clock, capsys):
    said = Lines("reading", clock)
    clock.now += 3.0
    said(0.0)
    clock.now += 7.0
    said(0.02)
    assert capsys.readouterr().err == "reading: 0%\nreading: 2%, about 8 min left\n"


def test_a_bar_in_a_pipe_is_lines_on_standard_error(clock, capsys, monkeypatch):
    monkeypatch.setattr("time.monotonic", clock)
    monkeypatch.setattr(Lines.__init__, "__defaults__", (clock,))
    with bar("runs") as progress, bar("other ranks", hidden=True) as unseen:
        clock.now += 4.0
        progress(0.5)
        unseen(0.5)
    with status("lab") as say:
        say("2x2: ddp")
    output = capsys.readouterr()
    assert output.err == "runs: 50%, about 4 s left\nlab: 2x2: ddp\n"
    assert output.out == ""


def test_on_a_terminal_it_is_drawn(monkeypatch):
    class Terminal(io.StringIO):
        def isatty(self) -> bool:
            return True

    screen = Terminal()
    monkeypatch.setattr(sys, "stderr", screen)
    monkeypatch.setenv("TERM", "xterm")
    with bar("layouts") as progress:
        progress(0.5)
    with status("lab") as say:
        say("2x2")
    assert "layouts" in screen.getvalue()
    assert "left" not in screen.getvalue()


def test_json_is_alone_on_standard_output(clock, capsys, monkeypatch):
    monkeypatch.setattr("syncwall.cli.output._FIRST_LINE_S", 0.0)
    flags = ["--model", "llama-3.1-8b", "--cluster", "dgx-h100", "--gpus", "16", "--tokens", "10B"]
    assert main(["predict", *flags, "--json"]) == 0
    output = capsys.readouterr()
    assert output.out.startswith('{\n  "schema_version": 1')
    assert output.err.startswith("simulating jobs: ")
