"""A command that is run and watched: the agent beside it, start-up files in its environment.

Holds `run_watched` and `Watched`, what came of it.
"""

import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from syncwall.problems import InputError
from syncwall.watch.events import from_json
from syncwall.watch.expected import leave_expectation
from syncwall.watch.place import (
    COMMAND_LOCK,
    EXPECT,
    FOLDER,
    NO_AGENT,
    SWITCH,
    Lock,
    agent_command,
    homes,
)
from syncwall.watch.signals import Forwarder
from syncwall.watch.summary import Summary

SUMMARY: Final = "summary.json"
_STARTUP: Final = Path(__file__).parent / "startup"
_AGENT_ENDS_S: Final = 10.0


@dataclass(frozen=True, slots=True)
class Watched:
    """A command after its end."""

    command: tuple[str, ...]
    code: int
    """Its own, or 128 and the signal that ended it."""
    summary: Summary | None
    """None if the agent left none."""


def run_watched(command: Sequence[str], *, expect: str = "", events: str = "") -> Watched:
    """Run a command to its end and watch what trains in it; InputError if it cannot be started.

    `expect` says what the run should be like, as `watch.expected` reads it; `events` is a file for
    JSON lines ("-": our output).
    """
    with Forwarder() as signals:  # before anything that would have to be cleaned up
        home = Path(tempfile.mkdtemp(prefix="syncwall-", dir=homes()[0]))  # in shared memory if any
        try:
            if expect:
                leave_expectation(home, expect)
            with Lock(home, COMMAND_LOCK) as lock, _agent(home, events) as agent:
                lock.taken()  # so that nobody takes the folder for one of the dead
                code = _run(command, home, agent, signals)
                _end(agent)
            return Watched(tuple(command), code, _summary(home))
        finally:
            shutil.rmtree(home, ignore_errors=True)


def environment(home: Path, given: Mapping[str, str]) -> dict[str, str]:
    """Variables that let every Python of a command be watched."""
    path = os.pathsep.join(filter(None, (str(_STARTUP), given.get("PYTHONPATH", ""))))
    told = {"PYTHONPATH": path, SWITCH: "1", FOLDER: str(home), NO_AGENT: "0", EXPECT: ""}
    return {**given, **told}  # what is expected, the agent has been told already


@contextmanager
def _agent(home: Path, events: str) -> Iterator[subprocess.Popen[bytes]]:
    words = [*agent_command(home), "--until-told", *([f"--events={events}"] if events else [])]
    agent = subprocess.Popen(  # noqa: S603 - our own module
        words, stdin=subprocess.PIPE, env={**os.environ, SWITCH: "0"}, start_new_session=True
    )
    try:
        yield agent
    finally:
        if agent.poll() is None:
            agent.kill()
        agent.wait()
        if agent.stdin:
            agent.stdin.close()


def _end(agent: subprocess.Popen[bytes]) -> None:
    """Let the agent sum up and leave."""
    with suppress(OSError):
        if agent.stdin:
            agent.stdin.write(b"\n")
            agent.stdin.close()
    with suppress(subprocess.TimeoutExpired):
        agent.wait(_AGENT_ENDS_S)


def _run(command: Sequence[str], home: Path, agent: "subprocess.Popen[bytes]", signals: Forwarder) -> int:
    """The command's exit code; signals that come to us go to it, and it decides."""
    try:
        process = subprocess.Popen(  # noqa: S603 - the user's own command
            command,
            env=environment(home, os.environ),
            preexec_fn=signals.restore_mask,  # noqa: PLW1509 - there are no threads yet
        )
    except OSError as error:
        raise InputError.of(f"{command[0]} cannot be started: {error.strerror}") from None
    is_watched = True
    while (code := process.poll()) is None:
        signals.next_child_change(process.pid)
        if is_watched and agent.poll() is not None and process.poll() is None:
            is_watched = False
            said = "syncwall watch: the agent has ended: training goes on unwatched"
            print(said, file=sys.stderr, flush=True)
    return code if code >= 0 else 128 - code


def _summary(home: Path) -> Summary | None:
    try:
        return from_json(Summary, (home / SUMMARY).read_bytes())
    except (OSError, ValueError) as error:
        print(f"syncwall watch: the agent left no summary: {error}", file=sys.stderr)
        return None
