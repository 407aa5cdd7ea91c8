"""Ctrl-C: stop together at the next point, or at once the second time.

Holds `Stop` and `stoppable`.
"""

import os
import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from types import FrameType
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from syncwall.measure.team import Team

INTERRUPTED = 130
"""Exit code of a command that Ctrl-C has ended, as shells have it."""


@dataclass
class Stop:
    """Whether the user wants an end; `asked` is what this rank knows, `agreed` what all know."""

    asked: bool = False
    agreed: bool = False


@contextmanager
def stoppable() -> Iterator[Stop]:
    """Note the first Ctrl-C, end the process at the second, even inside a blocking call.

    Python runs handlers of signals only between its own instructions; a thread that reads what the
    system writes for each signal also runs while a collective waits.
    """
    stop = Stop()
    if threading.current_thread() is not threading.main_thread():
        yield stop
        return
    reading, writing = os.pipe()
    os.set_blocking(writing, False)
    wakeup = signal.set_wakeup_fd(writing, warn_on_full_buffer=False)
    before = signal.signal(signal.SIGINT, _ignored)
    thread = threading.Thread(target=_listen, args=(reading, stop), daemon=True)
    thread.start()
    try:
        yield stop
    finally:
        signal.signal(signal.SIGINT, before)
        signal.set_wakeup_fd(wakeup)
        os.close(writing)
        thread.join(1.0)
        with suppress(OSError):
            os.close(reading)


def _ignored(number: int, frame: FrameType | None) -> None:
    """Python's own part of the signal: nothing, the thread does it all."""


def _listen(reading: int, stop: Stop) -> None:
    while True:
        numbers = os.read(reading, 1)
        if not numbers:
            return
        if numbers[0] == signal.SIGINT:
            if stop.asked:
                os._exit(INTERRUPTED)
            stop.asked = True


def agreed(team: "Team", stop: Stop) -> bool:
    """True if the user wants an end, the same on every rank: all of them must call this."""
    stop.agreed = stop.agreed or team.slowest([float(stop.asked)])[0] > 0
    return stop.agreed
