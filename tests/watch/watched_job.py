"""Real Gloo jobs on this machine, watched by a real agent."""

import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

from bench import ROOT
from syncwall.watch.command import environment
from syncwall.watch.place import SWITCH, agent_command
from tests.measure.ranks import free_port

JOBS = ROOT / "tests" / "watch" / "jobs"
SCRIPT = JOBS / "ddp_job.py"


def events_of(path: Path, kind: str = "") -> list[dict[str, Any]]:
    """What an agent wrote until now."""
    lines = path.read_text().splitlines(keepends=True) if path.exists() else []
    found = [json.loads(line) for line in lines if line.endswith("\n")]
    return [one for one in found if not kind or one["event"] == kind]


class WatchedJob:
    """Ranks of a script, started as torchrun would, with faults by variables, while they run.

    A context that leaves nothing behind.
    """

    def __init__(self, ranks: int, script: Path = SCRIPT, *, agent: bool = True, **variables: Any) -> None:
        self.ranks, self._script, self._has_agent = ranks, script, agent
        self._variables = {name.upper(): str(value) for name, value in variables.items()}
        self.processes: list[subprocess.Popen[str]] = []
        self.agent: subprocess.Popen[bytes] | None = None

    def __enter__(self) -> "WatchedJob":
        self._folder = tempfile.TemporaryDirectory(prefix="syncwall-bench-", dir="/dev/shm")
        self.home = Path(self._folder.name)
        quiet: dict[str, Any] = {"stderr": subprocess.DEVNULL}
        if self._has_agent:
            words, alone = [*agent_command(self.home), "--until-told"], os.environ | {SWITCH: "0"}
            self.agent = subprocess.Popen(words, stdin=subprocess.PIPE, env=alone, **quiet)
        size, port = str(self.ranks), str(free_port())
        shared = environment(self.home, os.environ) | self._variables
        shared |= {"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": port, "OMP_NUM_THREADS": "1"}
        shared |= {"WORLD_SIZE": size, "LOCAL_WORLD_SIZE": size}
        words = [sys.executable, str(self._script)]
        for rank in map(str, range(self.ranks)):
            own = shared | {"RANK": rank, "LOCAL_RANK": rank}
            one = subprocess.Popen(words, text=True, stdout=subprocess.PIPE, env=own, **quiet)
            self.processes.append(one)
        return self

    def __exit__(self, *_: object) -> None:
        every: list[subprocess.Popen[Any]] = [*self.processes]
        for one in [*every, *([self.agent] if self.agent else [])]:
            if one.poll() is None:
                one.kill()
            one.wait()
        self._folder.cleanup()

    def events(self, kind: str = "") -> list[dict[str, Any]]:
        return events_of(self.home / "events.jsonl", kind)

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
        return [one.communicate(timeout=limit_s)[0] for one in self.processes]

    def summary(self) -> dict[str, Any]:
        assert self.agent
        assert self.agent.stdin
        self.agent.stdin.close()
        self.agent.wait(30)
        found: dict[str, Any] = json.loads((self.home / "summary.json").read_text())
        return found

    def fail(self, kind: str) -> None:
        assert self.agent
        if kind == "folder removed":
            shutil.rmtree(self.home)
            self.home.mkdir()
        elif kind == "other version":
            for ring in self.home.glob("*.ring"):
                with ring.open("r+b") as file:
                    file.write(b"SYNCWALL\xff\xff")
        else:
            os.kill(self.agent.pid, signal.SIGKILL if kind == "agent killed" else signal.SIGSTOP)
