"""Real Gloo jobs on this machine, watched by a real agent, for `bench/watch.py`.

Holds `WatchedJob`: ranks of `tests/watch/jobs/ddp_job.py`, started as torchrun would, with faults
by variables, and what the agent said of them; `fail`, which lets the watcher fail.
"""

import json
import os
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from syncwall.watch.command import environment
from syncwall.watch.place import SWITCH, agent_command

ROOT = Path(__file__).parents[1]
SCRIPT = ROOT / "tests" / "watch" / "jobs" / "ddp_job.py"


class WatchedJob:
    """A job of some ranks while it runs; a context that leaves nothing behind."""

    def __init__(
        self, ranks: int, script: Path = SCRIPT, *, agent: bool = True, **variables: Any
    ) -> None:
        self.ranks, self._script, self._has_agent = ranks, script, agent
        self._variables = {name.upper(): str(value) for name, value in variables.items()}
        self.processes: list[subprocess.Popen[str]] = []
        self.agent: subprocess.Popen[bytes] | None = None

    def __enter__(self) -> "WatchedJob":
        self._folder = tempfile.TemporaryDirectory(prefix="syncwall-bench-", dir="/dev/shm")
        self.home = Path(self._folder.name)
        if self._has_agent:
            self.agent = subprocess.Popen(
                [*agent_command(self.home), "--until-told"], stdin=subprocess.PIPE,
                stderr=subprocess.DEVNULL, env={**os.environ, SWITCH: "0"},
            )  # fmt: skip
        port = _free_port()
        for rank in range(self.ranks):
            own = {
                "RANK": str(rank), "LOCAL_RANK": str(rank), "WORLD_SIZE": str(self.ranks),
                "LOCAL_WORLD_SIZE": str(self.ranks), "MASTER_ADDR": "127.0.0.1",
                "MASTER_PORT": str(port), "OMP_NUM_THREADS": "1",
            }  # fmt: skip
            self.processes.append(
                subprocess.Popen(
                    [sys.executable, str(self._script)], text=True, stdout=subprocess.PIPE,
                    stderr=subprocess.DEVNULL,
                    env=environment(self.home, os.environ) | own | self._variables,
                )
            )  # fmt: skip
        return self

    def __exit__(self, *_: object) -> None:
        all_of_them: list[subprocess.Popen[Any]] = [*self.processes]
        if self.agent:
            all_of_them.append(self.agent)
        for one in all_of_them:
            if one.poll() is None:
                one.kill()
            one.wait()
        self._folder.cleanup()

    def events(self, kind: str = "") -> list[dict[str, Any]]:
        """What the agent said until now."""
        path = self.home / "events.jsonl"
        lines = path.read_text().splitlines(keepends=True) if path.exists() else []
        found = [json.loads(line) for line in lines if line.endswith("\n")]
        return [one for one in found if not kind or one["event"] == kind]

    def wait_for(self, event: str, limit_s: float, **fields: Any) -> dict[str, Any] | None:
        """The first such event with these fields; None if it does not come."""
        until = time.monotonic() + limit_s
        while time.monotonic() < until:
            for one in self.events(event):
                if all(one.get(name) == value for name, value in fields.items()):
                    return one
            if all(one.poll() is not None for one in self.processes):
                until = min(until, time.monotonic() + 2.0)
            time.sleep(0.05)
        return None

    def outputs(self, limit_s: float = 300.0) -> list[str]:
        """What each rank printed, once all have ended."""
        return [one.communicate(timeout=limit_s)[0] for one in self.processes]

    def summary(self) -> dict[str, Any]:
        """Of the agent, once it was told that the job is over."""
        assert self.agent
        assert self.agent.stdin
        self.agent.stdin.close()
        self.agent.wait(30)
        found: dict[str, Any] = json.loads((self.home / "summary.json").read_text())
        return found

    def findings(self) -> Iterator[dict[str, Any]]:
        """All of them."""
        yield from self.events("finding")


def fail(job: WatchedJob, kind: str) -> None:
    """Let the watcher of a job fail."""
    assert job.agent
    if kind == "folder removed":
        shutil.rmtree(job.home)
        job.home.mkdir()
    elif kind == "other version":
        for ring in job.home.glob("*.ring"):
            with ring.open("r+b") as file:
                file.write(b"SYNCWALL\xff\xff")
    else:
        os.kill(job.agent.pid, signal.SIGKILL if kind == "agent killed" else signal.SIGSTOP)


def _free_port() -> int:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        return int(taken.getsockname()[1])
