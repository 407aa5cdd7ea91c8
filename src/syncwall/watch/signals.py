"""Signals that a watched command gets as if nobody stood before it.

Holds `Forwarder`. Schedulers warn the process that they started (SIGUSR1 before the end of a job,
SIGTERM at it), which is `syncwall watch`: the command gets each such signal, and decides. A terminal,
`timeout` and process trackers signal whole groups, and the command has it already: a twin of this
process, in its group, sees that. Two SIGTERM would break off the clean-up that torchrun begins at the
first one.
"""

import os
import select
import signal
import struct
import time
from collections.abc import Collection
from contextlib import suppress
from typing import Final

FORWARDED: Final = (
    signal.SIGHUP,
    signal.SIGINT,
    signal.SIGQUIT,
    signal.SIGUSR1,
    signal.SIGUSR2,
    signal.SIGTERM,
    signal.SIGCONT,
    signal.SIGTSTP,
    signal.SIGXCPU,
)
_TWIN_S: Final = 0.1
"""For the twin to see what we see."""
_AGE_S: Final = 1.0
"""What the twin saw before belongs to another signal."""
_SEEN: Final = struct.Struct("=id")


class Forwarder:
    """Takes the signals of this process while it is entered; ignored ones stay ignored, as `nohup`
    and shells without job control want.
    """

    def __enter__(self) -> "Forwarder":
        signal.signal(signal.SIGCHLD, signal.SIG_DFL)  # else children end without a word
        heeded = {one for one in FORWARDED if signal.getsignal(one) != signal.SIG_IGN}
        self._awaited = {*heeded, signal.SIGCHLD}
        self._before = signal.pthread_sigmask(signal.SIG_BLOCK, self._awaited)
        self._seen, written = os.pipe()
        self._twin = os.fork()
        if self._twin == 0:
            _report(heeded, written, self._seen)
        os.close(written)
        return self

    def restore_mask(self) -> None:
        """Signals as they were: in a child, before it becomes the command."""
        signal.pthread_sigmask(signal.SIG_SETMASK, self._before)

    def next_child_change(self, pid: int) -> None:
        """Wait until some child of ours has changed, and forward to `pid` what comes meanwhile."""
        while (number := signal.sigwaitinfo(self._awaited).si_signo) != signal.SIGCHLD:
            if not self._was_for_all(number):
                with suppress(ProcessLookupError):
                    os.kill(pid, number)
            if number == signal.SIGTSTP:
                os.kill(os.getpid(), signal.SIGSTOP)

    def _was_for_all(self, number: int) -> bool:
        """True if our whole process group got it."""
        came_s = time.monotonic()
        while (left_s := came_s + _TWIN_S - time.monotonic()) > 0:
            if not select.select([self._seen], [], [], left_s)[0]:
                break
            text = os.read(self._seen, _SEEN.size)
            if len(text) < _SEEN.size:
                break  # the twin was killed
            seen, time_s = _SEEN.unpack(text)
            if seen == number and time_s > came_s - _AGE_S:
                return True
        return False

    def __exit__(self, *_: object) -> None:
        with suppress(ProcessLookupError):
            os.kill(self._twin, signal.SIGKILL)
        os.waitpid(self._twin, 0)
        os.close(self._seen)
        self.restore_mask()


def _report(awaited: Collection[int], file: int, other_end: int) -> None:
    """The twin: writes what it gets, until nobody reads it."""
    try:
        os.close(other_end)
        parent = os.getppid()
        while os.getppid() == parent:
            found = signal.sigtimedwait(awaited, 1.0)
            if found is not None:
                os.write(file, _SEEN.pack(found.si_signo, time.monotonic()))
    finally:
        os._exit(0)
