"""Work in other processes, so that many people can ask at once and nothing runs for ever.

Holds `Workers`, `Busy`, `TooLong` and `check_processes`. A function takes plain data and returns
plain data; it is ended when it takes too long or too much memory. What is urgent (a prediction that
somebody looks at) goes before what can wait.
"""

import asyncio
import faulthandler
import json
import math
import multiprocessing
import os
import signal
import tempfile
import threading
from collections import deque
from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from pathlib import Path
from typing import Any, Final

from syncwall.describe.names import only_catalogue
from syncwall.problems import InputError
from syncwall.web.answers import answer_named

Answer = str | Callable[..., Any]
"""A function, or the name of one of `answers`."""

MEMORY_BYTES: Final = 4 * 2**30
"""Address space of one worker."""
WAITING: Final = 400
"""Requests of one lane that may wait for a worker."""
ANSWER_BYTES: Final = 20_000_000
"""The largest answer."""
PATIENCE: Final = 10
"""How much less right to a core what can wait has, as `nice` counts."""
_OTHERS: Final = 6
"""How many others may want the same core before an answer is given up: limits count what a process
computes, so that a busy machine answers later, not less."""
GRACE_S: Final = 5.0
"""What ending may take beyond that."""


class Busy(Exception):  # noqa: N818 - nobody made a mistake
    """More is asked than can be done."""


class TooLong(Exception):  # noqa: N818 - nobody made a mistake
    """An answer took longer than its limit."""


class Workers:
    """Processes in two lanes: what somebody looks at, and the rest with less right to the cores."""

    def __init__(self, processes: int | None = None) -> None:
        count = processes or max(os.cpu_count() or 1, 2)
        self._urgent = _Lane(count, nice=0)
        self._patient = _Lane(count, nice=PATIENCE, newest_first=True)

    async def call(self, function: Answer, *arguments: Any, limit_s: float, later: bool = False) -> bytes:
        """What `function` returns, as JSON; with `later` when nobody else needs the cores."""
        lane = self._patient if later else self._urgent
        try:
            return await lane.call(answered, limit_s, function, arguments)
        except BrokenProcessPool:
            raise Busy("the process that computed this was lost") from None
        except MemoryError:
            raise TooLong("needs too much memory") from None

    def close(self) -> None:
        """End all processes."""
        self._urgent.close()
        self._patient.close()

    async def warm(self) -> None:
        """Start the processes and let them load what every answer needs."""
        lanes = [lane for lane in (self._urgent, self._patient) for _ in range(lane.count)]
        await asyncio.gather(*(lane.call(answered, 60.0, _loaded, ()) for lane in lanes))


class _Lane:
    """Processes and those who wait for one; each is a pool of its own, lost without the others.

    With `newest_first` who came last goes first: under load who came long ago has gone away.
    """

    def __init__(self, count: int, nice: int, *, newest_first: bool = False) -> None:
        self.count, self._nice, self._newest_first = count, nice, newest_first
        self._all: set[ProcessPoolExecutor] = set()
        self._idle = [self._process() for _ in range(count)]
        self._waiting: deque[asyncio.Future[ProcessPoolExecutor]] = deque()

    async def call(self, *work: Any) -> bytes:
        """What the first of `work` returns for the rest of it."""
        process = await self._turn()
        try:
            running = asyncio.wrap_future(process.submit(*work))
        except BrokenProcessPool:  # it was lost while nobody used it
            process = self._process(process)
            running = asyncio.wrap_future(process.submit(*work))
        running.add_done_callback(lambda done: self._freed(process, done))
        return await asyncio.shield(running)  # who stops waiting does not free the process

    def close(self) -> None:
        """End all processes."""
        for process in self._all:
            process.shutdown(wait=False, cancel_futures=True)

    async def _turn(self) -> ProcessPoolExecutor:
        if len(self._waiting) >= WAITING:
            raise Busy("too many requests wait already")
        mine: asyncio.Future[ProcessPoolExecutor] = asyncio.get_running_loop().create_future()
        self._waiting.append(mine)
        self._next()
        try:
            return await mine
        except asyncio.CancelledError:
            if not mine.cancelled():  # the turn came and nobody takes it
                self._freed(mine.result())
            elif mine in self._waiting:
                self._waiting.remove(mine)
            raise

    def _freed(self, process: ProcessPoolExecutor, done: "asyncio.Future[bytes] | None" = None) -> None:
        wrong = done.exception() if done is not None and not done.cancelled() else None
        lost = isinstance(wrong, BrokenProcessPool)
        self._idle.append(self._process(process) if lost else process)
        self._next()

    def _next(self) -> None:
        """Give idle processes to those who wait and have not gone away."""
        while self._idle and self._waiting:
            chosen = self._waiting.pop() if self._newest_first else self._waiting.popleft()
            if not chosen.cancelled():
                chosen.set_result(self._idle.pop())

    def _process(self, lost: ProcessPoolExecutor | None = None) -> ProcessPoolExecutor:
        """Another process, in the place of one that was lost."""
        made = ProcessPoolExecutor(1, process_context(), initializer=bounded, initargs=(self._nice,))
        self._all = {one for one in self._all if one is not lost} | {made}
        return made


def process_context() -> Any:
    """Processes that start clean; where it can be, from one that has loaded everything."""
    if "forkserver" not in multiprocessing.get_all_start_methods():
        return multiprocessing.get_context("spawn")
    try:
        tempfile.gettempdir()
    except FileNotFoundError:  # all but this is read-only, as in many containers
        tempfile.tempdir = "/dev/shm"  # noqa: S108 - a folder of its own is made in it
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload(["syncwall.web.warm"])
    return context


def check_processes() -> None:
    """InputError if this machine lets no process be started."""
    try:
        process_context().Lock()
    except OSError as error:
        raise InputError.of(f"no process can be started: {error}: is /dev/shm writable?") from None


def bounded(nice: int = 0) -> None:
    """Limit this process, and end it with the server; Ctrl-C is for the server."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    threading.Thread(target=_ends_with_server, daemon=True).start()
    if nice and hasattr(os, "nice"):
        os.nice(nice)
    try:
        import resource
    except ImportError:  # not on Windows
        return
    _, hard = resource.getrlimit(resource.RLIMIT_AS)
    resource.setrlimit(resource.RLIMIT_AS, (MEMORY_BYTES, hard))


def _ends_with_server() -> None:
    """However the server ended: who is killed cannot tell others to stop."""
    server = multiprocessing.parent_process()
    if server is not None:
        server.join()
        os._exit(1)


def given_up_after_s(limit_s: float) -> float:
    """Seconds of the clock after which a process with this limit is ended."""
    return limit_s * _OTHERS + GRACE_S


def answered(limit_s: float, function: Answer, arguments: tuple[Any, ...]) -> bytes:
    """Call `function` in this process; TooLong after `limit_s` seconds of its processor.

    Whatever name it looks up comes from somebody else, so no path is ever opened. If it does not
    come back to Python in time, or there are no alarms, the process ends itself.
    """

    def stop(*_: Any) -> None:
        raise TooLong(f"takes more than {limit_s:g} s")

    timed = hasattr(signal, "setitimer")
    with Path(os.devnull).open("w") as nowhere:
        faulthandler.dump_traceback_later(given_up_after_s(limit_s), exit=True, file=nowhere)
        if timed:
            signal.signal(signal.SIGPROF, stop)
            signal.setitimer(signal.ITIMER_PROF, limit_s)
        try:
            with only_catalogue():
                return encoded(called(function)(*arguments))
        finally:
            if timed:
                signal.setitimer(signal.ITIMER_PROF, 0.0)
            faulthandler.cancel_dump_traceback_later()


def called(function: Answer) -> Callable[..., Any]:
    """The function that is meant, loaded in this process."""
    return answer_named(function) if isinstance(function, str) else function


def encoded(value: Any) -> bytes:
    """JSON; what is infinite or no number becomes null; InputError if it is too large to send."""
    try:
        text = json.dumps(value, ensure_ascii=False, allow_nan=False, separators=(",", ":"))
    except ValueError:
        text = json.dumps(_finite(value), ensure_ascii=False, separators=(",", ":"))
    answer = text.encode(errors="replace")  # half of a surrogate pair is no text
    if len(answer) > ANSWER_BYTES:
        raise InputError.of(f"the answer has more than {ANSWER_BYTES / 1e6:.0f} MB: ask for less")
    return answer


def _finite(value: Any) -> Any:
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    if isinstance(value, dict):
        return {key: _finite(inner) for key, inner in value.items()}
    if isinstance(value, list | tuple):
        return [_finite(inner) for inner in value]
    return value


def _loaded() -> None:
    import time

    import syncwall.web.warm  # noqa: F401 - loaded already, unless processes start from nothing

    time.sleep(0.05)  # so that each process takes one
