"""Signals while ranks measure: what was measured is kept."""

import os
import signal
import subprocess
import sys

import pytest

PROGRAM = """
import os, signal, time
from syncwall.measure.team import stoppable
with stoppable() as stop:
    {before}
    os.kill(os.getpid(), signal.{first})
    time.sleep(0.3)
    os.kill(os.getpid(), signal.{second})
    time.sleep(0.3)
    print(stop.asked, stop.code, flush=True)
    time.sleep({pause})
    os.kill(os.getpid(), signal.{second})
    time.sleep(0.3)
    print("still here", flush=True)
"""


def end(before: str, first: str, second: str, pause: float = 0.0) -> tuple[int, str]:
    program = PROGRAM.format(before=before, first=first, second=second, pause=pause)
    done = subprocess.run(
        [sys.executable, "-c", program], env=os.environ, capture_output=True, text=True, check=False
    )
    return done.returncode, done.stdout


@pytest.mark.parametrize(("first", "code"), [("SIGTERM", 143), ("SIGINT", 130)])
def test_a_signal_is_noted_once_there_is_something_to_keep(first, code):
    """A launcher repeats the Ctrl-C of a terminal at once; SIGTERM comes as often as it likes."""
    assert end("stop.joined = True", first, first) == (0, f"True {code}\nstill here\n")


def test_a_second_ctrl_c_ends_the_process():
    assert end("stop.joined = True", "SIGINT", "SIGINT", 1.0) == (130, "True 130\n")


def test_a_signal_before_all_have_joined_ends_the_process():
    assert end("pass", "SIGTERM", "SIGTERM") == (128 + signal.SIGTERM, "")


def test_no_signal_ends_the_process_while_it_writes():
    assert end("stop.writing = True", "SIGTERM", "SIGINT", 1.0) == (0, "False 130\nstill here\n")
