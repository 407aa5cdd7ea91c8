"""Processors kept awake while a lab measures.

Holds `awake`. A virtual processor that has nothing to do is taken away by the machine below, and
given back late: 10 to 60 ms were seen where 0.1 ms is usual. Token buckets overflow meanwhile, and
a link that stands still a few times a second loses up to a third of its rate. So one process on
each processor spins in the class SCHED_IDLE: it runs only when no worker wants to.

Workers must stay in the session of these processes: with `sched_autogroup` the kernel divides time
between sessions first, and an idle class counts only inside one. Workers in sessions of their own
were seen to run at two thirds of their speed.
"""

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager

from syncwall.lab.inside import inside

_SPIN = (
    "import os; os.sched_setaffinity(0, {{{cpu}}}); "
    "os.sched_setscheduler(0, os.SCHED_IDLE, os.sched_param(0))\n"
    "while True: pass"
)


@contextmanager
def awake(namespace: str) -> Iterator[None]:
    """Keep every processor awake; the processes belong to `namespace` and end with it."""
    spinning: list[subprocess.Popen[bytes]] = []
    try:
        for cpu in sorted(os.sched_getaffinity(0)):
            program = [sys.executable, "-I", "-S", "-c", _SPIN.format(cpu=cpu)]
            spinning.append(
                subprocess.Popen(  # noqa: S603 - our own program
                    inside(namespace, program),
                    stdin=subprocess.DEVNULL,
                    stdout=subprocess.DEVNULL,
                    stderr=subprocess.DEVNULL,
                )
            )
        yield
    finally:
        for process in spinning:
            process.send_signal(signal.SIGKILL)
            process.wait()
