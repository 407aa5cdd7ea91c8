"""Runs scripts in forks of this process, which has PyTorch already."""

import os
import signal
import subprocess
import sys
import time
import warnings
from pathlib import Path

from syncwall.capture.child import ScriptJob, run


class Forked:
    """A job in a fork, the leader of its own process group."""

    def __init__(self, job: ScriptJob, environment: dict[str, str]) -> None:
        self.pid = os.fork()
        if self.pid:
            return
        try:
            os.setsid()
            os.environ.update(environment)
            for signal_number in (signal.SIGINT, signal.SIGTERM):
                signal.signal(signal_number, signal.SIG_DFL)
            said = os.open(Path(job.script).with_suffix(".said"), os.O_WRONLY | os.O_CREAT)
            for number in (1, 2):
                os.dup2(said, number)
            sys.stdin = open(os.devnull)  # noqa: PTH123, SIM115 - of the script, to its end
            warnings.resetwarnings()
            run(job)
        finally:
            os._exit(99)

    def wait(self, timeout: float) -> int:
        deadline = time.monotonic() + timeout
        while time.monotonic() < deadline:
            pid, status = os.waitpid(self.pid, os.WNOHANG)
            if pid:
                return os.waitstatus_to_exitcode(status)
            time.sleep(0.005)
        raise subprocess.TimeoutExpired("fork", timeout)
