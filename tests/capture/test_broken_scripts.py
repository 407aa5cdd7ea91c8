"""Each of a hundred broken scripts gives a message, or a program, and leaves nothing running.

Every script runs in a fork of this process.
"""
# ruff: noqa: E402 - what follows needs torch

import contextlib
import re
import sys
import time
from dataclasses import replace
from pathlib import Path

import pytest

torch = pytest.importorskip("torch", reason="torch is not installed")
if sys.platform == "win32":
    pytest.skip("needs fork", allow_module_level=True)

from syncwall.capture.recorder import recording
from syncwall.capture.script import Script, ScriptLimits, record_script
from syncwall.problems import InputError
from tests.capture.broken_scripts import ENDED, GOOD, NO_STEP, RAISED
from tests.capture.forked import Forked

CASES = GOOD | RAISED | NO_STEP | ENDED
LIMITS = ScriptLimits(cpu_s=3.0, wall_s=20.0, memory_bytes=4 << 30)
IDLE = {name: replace(LIMITS, wall_s=4.0) for name in ("sleeps", "waits for itself")}
"""Scripts that only the clock ends need no time for busy machines."""


@pytest.fixture(scope="module", autouse=True)
def _warm():
    """What PyTorch loads at the first recording, all forks have."""
    with recording(16):
        model = torch.nn.Linear(8, 8)
        optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
        for _ in range(2):
            model(torch.randn(4, 8)).sum().backward()
            optimizer.step()


def left_running(group: int) -> list[str]:
    """Processes of a group that have not ended."""
    found = []
    for path in Path("/proc").glob("[0-9]*/stat"):
        with contextlib.suppress(OSError):
            state, _, number = path.read_text().rpartition(")")[2].split()[:3]
            if int(number) == group and state not in "ZX":
                found.append(path.parent.name)
    return found


def here(text: str) -> int | None:
    """The number of the marked line."""
    lines = text.splitlines()
    return next((n for n, line in enumerate(lines, 1) if line.endswith("# here")), None)


def test_there_are_a_hundred():
    assert len(CASES) >= 100


@pytest.mark.slow
@pytest.mark.parametrize("name", CASES)
def test_a_message_or_a_program_and_nothing_left(name, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    case = CASES[name]
    path = tmp_path / "train.py"
    path.write_text(case.begin + case.text)
    message = ""
    group: list[int] = []

    def start(job, environment):
        started = Forked(job, environment)
        group.append(started.pid)
        return started

    try:
        record_script(Script("train.py"), world_size=16, limits=IDLE.get(name, LIMITS), start=start)
    except InputError as error:
        message = str(error)
    assert bool(message) is (name not in GOOD), message
    assert case.said in message
    assert "Traceback" not in message
    assert "syncwall/" not in message
    line = here(case.begin + case.text)
    if line is not None and message:
        assert re.match(rf"train\.py:{line}:\d+  ", message), message
    deadline = time.monotonic() + 2.0  # the kernel takes its time to end what was killed
    while left_running(group[0]) and time.monotonic() < deadline:
        time.sleep(0.01)
    assert not left_running(group[0])
    assert "Traceback" not in Path("train.said").read_text(errors="replace")
