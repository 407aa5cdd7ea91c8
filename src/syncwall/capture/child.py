"""The process that runs a user's script as torchrun would, and records it.

Holds `Job` (what to run), `Ended` (what came of it, as JSON in the job's folder) and `run`, which
never returns: `python -m syncwall.capture.child FOLDER` reads the job from that folder.
"""

import dataclasses
import faulthandler
import json
import logging
import os
import pickle
import runpy
import signal
import sys
import traceback
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from types import FrameType
from typing import TYPE_CHECKING, Any, Final, NoReturn

from syncwall.capture.user_program import UserLine, confined, shown_file, users_line
from syncwall.problems import InputError, Problem

if TYPE_CHECKING:
    from syncwall.capture.recorder import Recording

JOB, ENDED, PROGRAM, FAULT = "job.json", "ended.json", "program.json.gz", "fault.txt"
"""Files of a job's folder."""
_MESSAGE_CHARS: Final = 1500
_NEED_DATA: Final = ("DataDependentOutputException", "DynamicOutputShapeException")
"""What PyTorch raises for operations of which it cannot know the result without data."""
_WITHOUT_OPTIMIZER: Final = (
    "a program without an optimizer of torch.optim is recorded from Python: syncwall.capturing, "
    "and .step() at the end of each step"
)


@dataclass(frozen=True)
class ScriptJob:
    """One run of a script on one rank."""

    folder: str
    script: str
    """Path of a file, or with `is_module` the name of a module."""
    is_module: bool
    shows_traceback: bool
    arguments: tuple[str, ...]
    world_size: int
    rank: int
    ranks_per_node: int
    handed_on: str
    """File with what the pipeline stages of earlier jobs send."""
    cpu_s: float
    wall_s: float
    memory_bytes: int


@dataclass(frozen=True)
class Ended:
    """How a job ended."""

    problems: tuple[tuple[str, int, int, str], ...] = ()
    """File, line, column and message of each; none if a program was written."""
    pipeline: tuple[int, ...] = ()
    """Ranks of the pipeline, in the order of stages."""
    received: dict[int, str] = field(default_factory=dict)
    """What stages expect from the ones before, in words, by the number of those."""
    sent: dict[int, str] = field(default_factory=dict)
    """What stages send to the next."""

    def write(self, folder: str) -> None:
        """Leave it in the job's folder."""
        Path(folder, ENDED).write_text(json.dumps(dataclasses.asdict(self)), encoding="utf-8")


def run(job: ScriptJob) -> NoReturn:
    """Run and record a job, write how it ended, and end this process without further ado.

    Threads that the script left running and what it wants done at exit do not matter any more.
    """
    try:
        faulthandler.enable(Path(job.folder, FAULT).open("w"))  # noqa: SIM115 - open to the end
        confined(job.cpu_s, job.memory_bytes)
        ended = _RunningScript(job).run()
    except InputError as error:
        ended = _failed(error.problems)
    _end(job, ended)


def _failed(problems: Sequence[Problem]) -> Ended:
    return Ended(tuple(dataclasses.astuple(one) for one in problems))


def _end(job: ScriptJob, ended: Ended) -> NoReturn:
    ended.write(job.folder)
    for stream in (sys.stdout, sys.stderr):
        with suppress(Exception):
            stream.flush()
    os._exit(0)


class _RunningScript:
    """A script while it runs."""

    def __init__(self, job: ScriptJob) -> None:
        self.job = job
        self.recording: Recording | None = None

    def run(self) -> Ended:
        """Record the script; InputError says why that was not possible."""
        from syncwall.capture.recorder import recording

        job = self.job
        signal.signal(signal.SIGXCPU, self._out_of_time)
        signal.signal(signal.SIGALRM, self._out_of_time)
        signal.setitimer(signal.ITIMER_REAL, job.wall_s)
        signal.signal(signal.SIGINT, signal.default_int_handler)
        logging.getLogger("torch._subclasses.fake_tensor").setLevel(logging.CRITICAL)
        try:
            with recording(
                job.world_size,
                rank=job.rank,
                ranks_per_node=job.ranks_per_node,
                handed_on=_handed_on(job),
            ) as self.recording:
                self.recording.stop_after = True
                self._script()
        except BaseException as error:  # whatever a script may raise
            if self.recording is None:
                raise
            if not self.recording.is_complete:  # else it is how the script took its end
                if job.shows_traceback:
                    traceback.print_exception(error)
                _refuse(error)
        self._write()
        return self._ended()

    def _script(self) -> None:
        job = self.job
        sys.argv = [job.script, *job.arguments]
        if job.is_module:
            sys.path.insert(0, str(Path.cwd()))
            runpy.run_module(job.script, run_name="__main__", alter_sys=True)
        else:
            sys.path.insert(0, str(Path(job.script).resolve().parent))
            runpy.run_path(job.script, run_name="__main__")

    def _write(self) -> None:
        from syncwall.capture.program_file import write_program

        assert self.recording is not None
        try:
            program = self.recording.program()
        except InputError as error:
            said = f"ended too early: {error}; {_WITHOUT_OPTIMIZER}"
            raise InputError.of(said, file=self.job.script) from None
        words = ["-m", self.job.script] if self.job.is_module else [self.job.script]
        command = " ".join([*words, *self.job.arguments])
        write_program(dataclasses.replace(program, command=command), Path(self.job.folder, PROGRAM))

    def _ended(self) -> Ended:
        """What other stages of a pipeline have to know."""
        assert self.recording is not None
        state = self.recording.state
        Path(self.job.handed_on).write_bytes(pickle.dumps(state.handed_on))
        return Ended(
            (),
            self.recording.pipeline_ranks,
            {stage: repr(what) for stage, what in state.received.items()},
            {stage: repr(state.handed_on[stage]) for stage in state.sent},
        )

    def _out_of_time(self, number: int, frame: FrameType | None) -> None:
        line = _of_frame(frame)
        is_cpu = number == signal.SIGXCPU
        passed = f"{self.job.cpu_s:g} s of CPU time" if is_cpu else f"{self.job.wall_s:g} s"
        message = f"still runs here after {passed}: give more with --timeout"
        _end(self.job, _failed([_problem(line, message)]))


def _refuse(error: BaseException) -> None:
    """InputError with what a script raised, at the innermost line of the user's."""
    if isinstance(error, InputError):
        raise error
    if isinstance(error, SystemExit) and error.code in (None, 0):
        return
    said = _said(error)[:_MESSAGE_CHARS]
    first = _first(error)
    if first is not error:
        said += f"; while this was handled: {_problem(_line(first), _said(first)[:_MESSAGE_CHARS])}"
    raise InputError([_problem(_line(error), said)]) from None


def _first(error: BaseException) -> BaseException:
    """What went wrong first, if `error` was raised from it or while something was tidied up."""
    while before := error.__cause__ or (None if error.__suppress_context__ else error.__context__):
        error = before
    return error


def _line(error: BaseException) -> UserLine | None:
    if isinstance(error, SyntaxError) and error.filename:
        return UserLine(error.filename, error.lineno or 0, error.offset or 0)
    summary = traceback.extract_tb(error.__traceback__)
    return users_line((one.filename, one.lineno or 0, (one.colno or 0) + 1) for one in summary)


def _said(error: BaseException) -> str:
    kind = type(error).__name__
    if isinstance(error, SystemExit):
        return f"the script ended itself: sys.exit({error.code!r})"
    if isinstance(error, SyntaxError):
        return f"{kind}: {error.msg}"
    if kind in _NEED_DATA:
        return f"{error} gives what only data can tell, and a recording has no data"
    try:
        return f"{kind}: {error}" if str(error) else f"{kind}{_raised_at(error)}"
    except Exception:  # noqa: BLE001 - an exception that has no words
        return kind


def _raised_at(error: BaseException) -> str:
    """Where an exception without words was raised, if not by the user's own line."""
    frames = traceback.extract_tb(error.__traceback__)
    if not frames or shown_file(frames[-1].filename):
        return ""
    place = Path(*Path(frames[-1].filename).parts[-3:])
    return f" at {place}:{frames[-1].lineno} (`{frames[-1].line}`); --traceback shows what called it"


def _problem(line: UserLine | None, message: str) -> Problem:
    return line.problem(message) if line else Problem("", 0, 0, message)


def _of_frame(frame: FrameType | None) -> UserLine | None:
    found: list[tuple[str, int, int]] = []
    while frame is not None:
        found.append((frame.f_code.co_filename, frame.f_lineno, 1))
        frame = frame.f_back
    return users_line(reversed(found))


def _handed_on(job: ScriptJob) -> dict[int, Any]:
    """What earlier jobs of the same script left; PyTorch itself sends it pickled."""
    file = Path(job.handed_on)
    found: dict[int, Any] = pickle.loads(file.read_bytes()) if file.exists() else {}  # noqa: S301
    return found


def job_in(folder: str) -> ScriptJob:
    """The job that was written into a folder."""
    value: dict[str, Any] = json.loads(Path(folder, JOB).read_text(encoding="utf-8"))
    return ScriptJob(**{**value, "arguments": tuple(value["arguments"])})


if __name__ == "__main__":
    run(job_in(sys.argv[1]))
