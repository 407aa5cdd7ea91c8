"""`syncwall watch` before a command: signals reach it once, and it decides what they mean."""

import os
import signal
import subprocess
import sys
import time
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

if not hasattr(os, "pidfd_open"):
    pytest.skip("processes are watched on Linux", allow_module_level=True)

COUNTS = """
import os, signal, sys, time
seen = []
for number in (signal.SIGHUP, signal.SIGINT, signal.SIGQUIT, signal.SIGUSR1, signal.SIGUSR2,
               signal.SIGTERM, signal.SIGCONT, signal.SIGTSTP, signal.SIGXCPU):
    signal.signal(number, lambda number, _: print(signal.Signals(number).name, flush=True))
print(os.getpid(), flush=True)
for line in sys.stdin:
    if line.strip() == "end":
        raise SystemExit(7)
    print("here", flush=True)
"""
HANDED_ON = ["SIGHUP", "SIGINT", "SIGQUIT", "SIGUSR1", "SIGUSR2", "SIGTERM", "SIGXCPU"]


def started(words, **options) -> Any:
    """`syncwall watch` in a group of its own, from a parent that ignores no signal."""
    return subprocess.Popen(
        [sys.executable, "-m", "syncwall", "watch", "--", *words],
        text=True,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        process_group=0,
        preexec_fn=_heed_all,  # noqa: PLW1509 - there are no threads
        **options,
    )


def _heed_all():
    for name in HANDED_ON:
        signal.signal(signal.Signals[name], signal.SIG_DFL)


@pytest.fixture
def watched():
    made = started([sys.executable, "-c", COUNTS])
    made.child = int(made.stdout.readline())
    yield made
    made.kill()
    made.communicate()
    with suppress(ProcessLookupError):
        os.kill(made.child, signal.SIGKILL)


def asked(made, text="?") -> None:
    made.stdin.write(f"{text}\n")
    made.stdin.flush()


@pytest.mark.slow
def test_each_signal_reaches_the_command_once_and_it_decides(watched):
    for name in HANDED_ON:
        watched.send_signal(signal.Signals[name])
        assert watched.stdout.readline().strip() == name
        os.killpg(watched.pid, signal.Signals[name])  # as a terminal and process trackers do
        assert watched.stdout.readline().strip() == name
        time.sleep(0.3)  # in which it would be forwarded
        asked(watched)
        assert watched.stdout.readline().strip() == "here", "it came a second time"
    asked(watched, "end")
    assert watched.wait(30) == 7


@pytest.mark.slow
def test_it_stops_and_goes_on_with_its_command(watched):
    watched.send_signal(signal.SIGTSTP)
    assert watched.stdout.readline().strip() == "SIGTSTP"
    end = time.monotonic() + 10
    while "\nState:\tT" not in Path(f"/proc/{watched.pid}/status").read_text():
        assert time.monotonic() < end
        time.sleep(0.02)
    watched.send_signal(signal.SIGCONT)
    assert watched.stdout.readline().strip() == "SIGCONT"
    asked(watched, "end")
    assert watched.wait(30) == 7


@pytest.mark.slow
@pytest.mark.parametrize("name", HANDED_ON)
def test_a_command_that_dies_of_a_signal_says_so(name):
    with started(["sleep", "60"]) as made:
        end = time.monotonic() + 30
        while not (sleeping := _sleeping(made.pid)):
            assert time.monotonic() < end
            time.sleep(0.02)
        made.send_signal(signal.Signals[name])
        assert made.wait(30) == 128 + signal.Signals[name]
        for one in sleeping:
            assert not Path(f"/proc/{one}").exists()


def _sleeping(parent: int) -> list[int]:
    return [pid for pid, words in children(parent) if words[0] == "sleep"]


def children(parent: int) -> list[tuple[int, list[str]]]:
    """Processes that a process has started, with their words."""
    found = []
    for folder in Path("/proc").glob("[0-9]*"):
        with suppress(OSError):
            of = int((folder / "stat").read_text().rpartition(") ")[2].split()[1])
            if of == parent:
                found.append((int(folder.name), (folder / "cmdline").read_text().split("\0")))
    return found


@pytest.mark.slow
def test_an_agent_that_is_killed_is_told_at_once(watched):
    (agent,) = [pid for pid, words in children(watched.pid) if "syncwall.watch.agent" in words]
    os.kill(agent, signal.SIGKILL)
    assert "the agent has ended: training goes on unwatched" in watched.stderr.readline()
    asked(watched, "end")
    assert watched.wait(30) == 7
