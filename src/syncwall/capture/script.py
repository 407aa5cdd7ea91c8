"""Records one rank of an unmodified script that torchrun would start, in a process of its own.

Holds `Script`, `Limits`, `record_rank` and `RecordedRank`. The process has no network and ends
with this one; nothing that the script started is left running.
"""

import dataclasses
import json
import os
import re
import secrets
import signal
import subprocess
import sys
import tempfile
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final, Protocol

from syncwall.capture.child import ENDED, FAULT, JOB, PROGRAM, Job
from syncwall.capture.confinement import MARK, OFFLINE, end_all
from syncwall.capture.step import torch_or_advice
from syncwall.capture.users_code import users_line
from syncwall.documents import opened
from syncwall.measure.result import free_memory_bytes
from syncwall.problems import InputError, Problem
from syncwall.read.program import read_program
from syncwall.work.program import Program

_LEAST_BYTES: Final = 4 << 30
_GRACE_S: Final = 10.0
"""From the signal that time is up to the end from outside."""
_FAULT_LINE: Final = re.compile(r'^ {2}File "(.+)", line (\d+)', re.MULTILINE)


@dataclass(frozen=True)
class Script:
    """What `torchrun` gets: a file, or with `is_module` the name of a module, and its arguments."""

    name: str
    arguments: tuple[str, ...] = ()
    is_module: bool = False


@dataclass(frozen=True)
class Limits:
    """How far a script may go."""

    cpu_s: float = 600.0
    wall_s: float = 2400.0
    """On the clock; machines are shared."""
    memory_bytes: int = field(default_factory=lambda: max(free_memory_bytes(), _LEAST_BYTES))


class Started(Protocol):
    """A process."""

    pid: int

    def wait(self, timeout: float) -> int:
        """Its exit code; `subprocess.TimeoutExpired` if it still runs."""


Start = Callable[[Job, dict[str, str]], Started]
"""Starts a job in an environment, as the leader of a process group."""


def spawned(job: Job, environment: dict[str, str]) -> Started:
    """A new Python, whose output goes to our standard error."""
    Path(job.folder, JOB).write_text(json.dumps(dataclasses.asdict(job)), encoding="utf-8")
    return subprocess.Popen(  # noqa: S603 - our own module
        [sys.executable, "-P", "-m", "syncwall.capture.child", job.folder],
        stdin=subprocess.DEVNULL, stdout=_stderr(), stderr=_stderr(), env=environment,
        start_new_session=True,
    )  # fmt: skip


@dataclass(frozen=True)
class RecordedRank:
    """One rank of a script."""

    program: Program
    pipeline: tuple[int, ...]
    """Ranks that it shares a pipeline with, itself among them, in the order of stages."""
    received: dict[str, str]
    """What each of its stages expects from the one before, in words, by the number of that one."""
    sent: dict[str, str]
    """What each of its stages sends to the next."""


def record_rank(  # noqa: PLR0913, PLR0917 - a job has this many sides
    script: Script, world_size: int, rank: int, ranks_per_node: int, limits: Limits,
    handed_on: Path, start: Start = spawned,
) -> RecordedRank:  # fmt: skip
    """One optimizer step of `script` on one rank of a job of `world_size`.

    Pipeline stages find in the file `handed_on` what earlier ones send, and leave there what they
    send themselves.
    """
    torch_or_advice()
    if not script.is_module:
        opened(Path(script.name)).close()
    with tempfile.TemporaryDirectory(prefix="syncwall-") as folder:
        job = Job(
            folder, script.name, script.is_module, script.arguments, world_size, rank,
            ranks_per_node, str(handed_on),
            limits.cpu_s, limits.wall_s, limits.memory_bytes,
        )  # fmt: skip
        ended = _run(job, start)
        program = read_program(Path(folder, PROGRAM))
    return RecordedRank(program, tuple(ended["pipeline"]), ended["received"], ended["sent"])


def _run(job: Job, start: Start) -> dict[str, Any]:
    """Run a job to its end, and say how it ended; InputError if it leaves no program."""
    mark = secrets.token_hex(8)
    process = start(job, {**os.environ, **OFFLINE, MARK: mark})
    code: int | None = None
    try:
        code = process.wait(timeout=job.wall_s + _GRACE_S)
    except subprocess.TimeoutExpired:
        pass
    finally:
        end_all(process.pid, mark)
        if code is None:
            process.wait(timeout=_GRACE_S)
    ended = Path(job.folder, ENDED)
    if not ended.exists():
        raise InputError([_died(job, code)])
    said: dict[str, Any] = json.loads(ended.read_text(encoding="utf-8"))
    if said["problems"]:
        raise InputError(Problem(*one) for one in said["problems"])
    return said


def _died(job: Job, code: int | None) -> Problem:
    """Why there is no word of how a job ended, at the line where it was."""
    if code is None:
        how = f"has not ended after {job.wall_s:g} s: give more with --timeout"
    elif code < 0:
        how = f"was ended by {signal.Signals(-code).name}"
    else:
        how = f"ended itself with code {code} (os._exit) before a step was recorded"
    fault = Path(job.folder, FAULT)
    text = fault.read_text(encoding="utf-8", errors="replace") if fault.exists() else ""
    frames = [(file, int(line), 1) for file, line in _FAULT_LINE.findall(text)]
    line = users_line(reversed(frames))
    return line.problem(how) if line else Problem(job.script, 0, 0, how)


def _stderr() -> int:
    try:
        return sys.stderr.fileno()
    except (OSError, ValueError):  # somebody has put something else in its place
        return 2
