"""Starts the ranks of a job as processes of this machine, each on a host of its own name."""

import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

WORKER = Path(__file__).with_name("worker.py")


@dataclass
class Rank:
    """One process and, once it has ended, what it wrote."""

    process: subprocess.Popen[str]
    out: str = ""
    err: str = ""

    def end(self, timeout_s: float) -> int:
        """Wait for the process; its exit code."""
        self.out, self.err = self.process.communicate(timeout=timeout_s)
        return self.process.returncode

    def kill(self, number: int = signal.SIGKILL) -> None:
        self.process.send_signal(number)

    def clear(self) -> None:
        """End the process if it still runs, and leave nothing of it behind."""
        self.process.kill()
        self.process.wait()
        for pipe in (self.process.stdout, self.process.stderr):
            if pipe is not None:
                pipe.close()

    def wait_until_joined(self) -> None:
        """Wait until the threads of a process group run, and a little longer."""
        tasks = Path(f"/proc/{self.process.pid}/task")
        while self.process.poll() is None:
            if any("gloo" in path.read_text() for path in tasks.glob("*/comm")):
                time.sleep(2.0)
                return
            time.sleep(0.1)

    def read_until(self, word: str) -> None:
        """Read its output until a line starts with `word`."""
        assert self.process.stdout is not None
        for line in self.process.stdout:
            self.out += line
            if line.startswith(word):
                return
        raise AssertionError(f"ended before it printed {word}")


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def started(
    hosts: Sequence[str], *arguments: str, world: int | None = None, ranks: Sequence[int] = ()
) -> list[Rank]:
    """One process for every name of `hosts`; `arguments` follow "python"."""
    shared = os.environ | {
        "WORLD_SIZE": str(world or len(hosts)),
        "MASTER_ADDR": "127.0.0.1",
        "MASTER_PORT": str(free_port()),
        "OMP_NUM_THREADS": "1",
        "GLOO_SOCKET_IFNAME": "lo",
    }
    command = [sys.executable, *arguments]
    return [
        Rank(
            subprocess.Popen(
                command,
                env=shared | {"RANK": str(rank), "SYNCWALL_HOST": hosts[rank]},
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
                text=True,
            )
        )
        for rank in (ranks or range(len(hosts)))
    ]
