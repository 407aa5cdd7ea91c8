"""Records an unmodified script that torchrun would start, each rank in a process of its own.

Holds `Script`, `Limits`, `record_rank` and `RecordedRank`: the process has no network and ends with
this one; nothing that the script started is left running. `record_script` and `merged`: one rank of
each pipeline stage, recorded one after the other, as one program. A stage learns from the
recordings before it what it receives. In interleaved schedules a rank also receives from stages
that come later: their tensors are taken to be like those of the last stage that is known, and if
they turn out not to be, the rank is recorded again.
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
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Final, Protocol

from syncwall.capture.child import ENDED, FAULT, JOB, PROGRAM, ScriptJob
from syncwall.capture.step_function import torch_or_advice
from syncwall.capture.user_program import MARK, OFFLINE, end_all, users_line
from syncwall.documents import opened
from syncwall.measure.result import free_memory_bytes
from syncwall.problems import InputError, Problem
from syncwall.read.recorded_program import read_program
from syncwall.work.program import Note, NoteKind, Program

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
    shows_traceback: bool = False
    """All of what it raises is printed on standard error."""


@dataclass(frozen=True)
class ScriptLimits:
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


Start = Callable[[ScriptJob, dict[str, str]], Started]
"""Starts a job in an environment, as the leader of a process group."""


def spawned(job: ScriptJob, environment: dict[str, str]) -> Started:
    """A new Python, whose output goes to our standard error."""
    Path(job.folder, JOB).write_text(json.dumps(dataclasses.asdict(job)), encoding="utf-8")
    return subprocess.Popen(  # noqa: S603 - our own module
        [sys.executable, "-P", "-m", "syncwall.capture.child", job.folder],
        stdin=subprocess.DEVNULL,
        stdout=_stderr(),
        stderr=_stderr(),
        env=environment,
        start_new_session=True,
    )


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
    script: Script,
    world_size: int,
    rank: int,
    ranks_per_node: int,
    limits: ScriptLimits,
    handed_on: Path,
    start: Start = spawned,
) -> RecordedRank:
    """One optimizer step of `script` on one rank of a job of `world_size`.

    Pipeline stages find in the file `handed_on` what earlier ones send, and leave there what they
    send themselves.
    """
    torch_or_advice()
    if not script.is_module:
        opened(Path(script.name)).close()
    with tempfile.TemporaryDirectory(prefix="syncwall-") as folder:
        job = ScriptJob(
            folder,
            script.name,
            script.is_module,
            script.shows_traceback,
            script.arguments,
            world_size,
            rank,
            ranks_per_node,
            str(handed_on),
            limits.cpu_s,
            limits.wall_s,
            limits.memory_bytes,
        )
        ended = _run(job, start)
        program = read_program(Path(folder, PROGRAM))
    return RecordedRank(program, tuple(ended["pipeline"]), ended["received"], ended["sent"])


def _run(job: ScriptJob, start: Start) -> dict[str, Any]:
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


def _died(job: ScriptJob, code: int | None) -> Problem:
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


_Say = Callable[[str], None]


def record_script(  # noqa: PLR0913 - a job has this many sides
    script: Script,
    *,
    world_size: int,
    ranks: Sequence[int] = (0,),
    whole_pipeline: bool = True,
    ranks_per_node: int = 8,
    limits: ScriptLimits | None = None,
    start: Start = spawned,
    say: _Say = lambda _: None,
) -> Program:
    """One optimizer step of `script` on `ranks` of a job of `world_size`, one after the other.

    With `whole_pipeline` one rank of each other stage of their pipeline is recorded, too.
    InputError has the file and the line of what keeps the script from being recorded.
    """
    with tempfile.TemporaryDirectory(prefix="syncwall-") as folder:

        def record(rank: int) -> RecordedRank:
            say(f"recording {script.name} as rank {rank} of {world_size:,}")
            return record_rank(
                script,
                world_size,
                rank,
                ranks_per_node,
                limits or ScriptLimits(),
                Path(folder, "handed_on.pickle"),
                start,
            )

        found = {rank: record(rank) for rank in ranks}
        if whole_pipeline:
            pipeline = found[ranks[0]].pipeline
            found |= {rank: record(rank) for rank in pipeline if rank not in found}
        _settle(found, record)
    program = merged_program([one.program for one in found.values()], pipeline_of(found.values()))
    if not any(getattr(call.what, "flops", 0.0) for one in program.ranks for call in one):
        raise InputError.of(
            "the recorded step multiplies nothing (0 FLOP): its batch may be empty, as its size came from "
            "values that a recording does not have",
            file=script.name,
        )
    return program


def pipeline_of(found: Iterable[RecordedRank]) -> int:
    """Ranks of a pipeline; 0 if the program has none, or they do not agree."""
    sizes = {len(one.pipeline) for one in found}
    return sizes.pop() if len(sizes) == 1 else 0


def _settle(found: dict[int, RecordedRank], record: Callable[[int], RecordedRank]) -> None:
    """Record those again that expected other tensors than were sent to them."""
    rounds = max(len(one.pipeline) for one in found.values())
    while mistaken := _mistaken(found):
        if not rounds:
            raise InputError.of("the stages of the pipeline do not agree on what they send")
        found |= {rank: record(rank) for rank in mistaken}
        rounds -= 1


def _mistaken(found: dict[int, RecordedRank]) -> list[int]:
    sent = {stage: what for one in found.values() for stage, what in one.sent.items()}
    return [
        rank
        for rank, one in found.items()
        if any(sent.get(stage, what) != what for stage, what in one.received.items())
    ]


def merged_program(programs: Sequence[Program], pipeline: int = 0) -> Program:
    """One program of several ranks that differ, each recorded by itself.

    As many ranks are like each of them as there are pipelines, of `pipeline` ranks each. If it is
    not a pipeline (0) in which they differ, their numbers are taken as equal, and that is noted.
    """
    first = programs[0]
    if len(programs) == 1 and pipeline <= 1:
        return first
    alike = first.world_size // (pipeline or len(programs))
    said = _unsaid(len(programs), pipeline)
    return replace(
        first,
        ranks=tuple(replace(one.ranks[0], alike=alike) for one in programs),
        parameters=sum(one.parameters for one in programs),
        notes=_together(note for one in programs for note in (*one.notes, *said)),
        compiled=any(one.compiled for one in programs),
        samples=max(one.samples for one in programs),
        tokens=max(one.tokens for one in programs),
    )


def _unsaid(recorded: int, pipeline: int) -> tuple[Note, ...]:
    if not pipeline:
        what = "which ranks are like which: taken as equally many"
    elif recorded < pipeline:
        what = f"{pipeline - recorded} of {pipeline} pipeline stages"
    else:
        return ()
    return (Note(NoteKind.NOT_RECORDED, what),)


def _together(notes: Iterable[Note]) -> tuple[Note, ...]:
    """Notes of several ranks, those that say the same as one."""
    found: dict[tuple[object, ...], Note] = {}
    for note in notes:
        key = note.kind, note.what, note.place
        other = found.get(key)
        found[key] = (
            note
            if other is None
            else replace(
                other,
                count=other.count + note.count,
                flops=other.flops + note.flops,
                bytes=other.bytes + note.bytes,
                useful_bytes=other.useful_bytes + note.useful_bytes,
            )
        )
    return tuple(found.values())
