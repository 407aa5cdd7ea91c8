"""What keeps ranks from the cores of their host, as the kernel tells it.

Holds `kernel_text` and `process_stat`; `CoreWait` (how long a process had to wait for a core, from its
threads' `schedstat`), `HostLoad` (the load of a host at one moment) and `HostWatch`, which reads it now
and then from `/proc/pressure/cpu`, `/proc/loadavg` and `/proc/stat`. Where the kernel does not say
something, it is not known, and that is no zero.
"""

import os
from bisect import bisect_left
from collections import Counter, deque
from collections.abc import Collection, Iterator
from contextlib import suppress
from dataclasses import dataclass
from typing import Final

_THREADS: Final = 64
"""Of a process that are looked at."""
_SAMPLES: Final = 64
_EVERY_S: Final = 1.0
_PROGRAMS_EVERY_S: Final = 5.0
_PRESSED: Final = 0.2
_NAMED: Final = 3
"""Programs of a busy host."""


def kernel_text(path: str, limit: int = 4096) -> str:
    """What a small file of the kernel says; empty if it says nothing."""
    try:
        file = os.open(path, os.O_RDONLY)
    except OSError:
        return ""
    try:
        return os.read(file, limit).decode(errors="replace")
    except OSError:
        return ""
    finally:
        os.close(file)


def process_stat(pid: int) -> str:
    """State of a process and what follows; empty if there is no such process."""
    return kernel_text(f"/proc/{pid}/stat").rpartition(") ")[2]


class CoreWait:
    """Seconds that the threads of a process were ready to run and had no core, over time.

    Of several threads it is the one that waited longest since the look before: threads of one
    operation wait for each other, so that their waits do not add up.
    """

    def __init__(self, pid: int) -> None:
        self._folder = f"/proc/{pid}/task"
        self._threads: dict[str, int] = {}
        self._times_s: deque[float] = deque(maxlen=_SAMPLES)
        self._waited_s: deque[float] = deque(maxlen=_SAMPLES)
        """At these times, since the first look."""
        self._stolen_s = 0.0

    def look(self, now_s: float, stolen_s: float = 0.0) -> None:
        """Read it; `stolen_s` is what the hypervisor has taken from each core so far."""
        waited = dict(self._each())
        if not waited:
            return
        before, total_s = self._threads, self._waited_s[-1] if self._waited_s else 0.0
        if self._waited_s:
            total_s += max(ns - before.get(name, 0) for name, ns in waited.items()) / 1e9
            total_s += max(stolen_s - self._stolen_s, 0.0)
        self._threads, self._stolen_s = waited, stolen_s
        self._times_s.append(now_s)
        self._waited_s.append(total_s)

    def _each(self) -> Iterator[tuple[str, int]]:
        with suppress(OSError):
            for name in os.listdir(self._folder)[:_THREADS]:  # noqa: PTH208 - paths are slow to make
                fields = kernel_text(f"{self._folder}/{name}/schedstat", 128).split()
                if len(fields) == 3 and fields[1].isdigit():
                    yield name, int(fields[1])

    def between(self, begin_s: float, end_s: float) -> float | None:
        """What was waited between two times since the epoch; None if nobody looked before them."""
        if len(self._times_s) < 2 or begin_s < self._times_s[0] - _EVERY_S:
            return None
        return max(self._at(end_s) - self._at(begin_s), 0.0)

    def _at(self, time_s: float) -> float:
        number = bisect_left(self._times_s, time_s)
        if number in (0, len(self._times_s)):
            return self._waited_s[min(number, len(self._times_s) - 1)]
        begin_s, end_s = self._times_s[number - 1], self._times_s[number]
        before_s, after_s = self._waited_s[number - 1], self._waited_s[number]
        return before_s + (after_s - before_s) * (time_s - begin_s) / (end_s - begin_s)


@dataclass(frozen=True, slots=True)
class HostLoad:
    """What the cores of a host do."""

    cores: int
    running: int | None = None
    """Threads that run or are ready to."""
    pressure: float | None = None
    """Share of the last ten seconds in which somebody had to wait for a core."""
    stolen: float | None = None
    """Share of the cores that the hypervisor took since the look before."""
    programs: tuple[str, ...] = ()
    """Others that run, by name."""

    @property
    def is_busy(self) -> bool:
        """True if more is to be run than there are cores, or much of the time somebody waits."""
        return (self.running or 0) > self.cores or (self.pressure or 0.0) >= _PRESSED

    def __str__(self) -> str:
        """In words: "7 threads on 2 cores, CPU pressure 80%, others that run: stress (4)"."""
        said = [f"{self.running or 'unknown'} threads on {self.cores} cores"]
        if self.pressure is not None:
            said.append(f"CPU pressure {self.pressure:.0%}")
        if self.stolen is not None and self.stolen >= 0.01:
            said.append(f"{self.stolen:.0%} stolen by the hypervisor")
        if self.programs:
            said.append(f"others that run: {', '.join(self.programs)}")
        return ", ".join(said)


class HostWatch:
    """Reads the load of this host, about once a second."""

    def __init__(self) -> None:
        self.stolen_s = 0.0
        """By the hypervisor from each core, since the host was started."""
        self._looked_s = self._programs_s = 0.0
        self._load: HostLoad | None = None
        self._programs: tuple[str, ...] = ()
        self._tick_s = 1.0 / os.sysconf("SC_CLK_TCK")

    def load(self, now_s: float, own: Collection[int] = ()) -> HostLoad:
        """Of about now; `own` are processes that belong to the job."""
        passed_s = now_s - self._looked_s
        if self._load is not None and 0 <= passed_s < _EVERY_S:
            return self._load
        cores = os.cpu_count() or 1
        running = kernel_text("/proc/loadavg").split("/")[0].split()[-1:]
        count = int(running[0]) if running and running[0].isdigit() else None
        before_s = self.stolen_s
        fields = kernel_text("/proc/stat", 512).split("\n", 1)[0].split()
        if len(fields) > 8 and fields[8].isdigit():
            self.stolen_s = int(fields[8]) * self._tick_s / cores
        stolen = (self.stolen_s - before_s) / passed_s if self._load and passed_s > 0 else None
        if count is not None and count > cores and abs(now_s - self._programs_s) >= _PROGRAMS_EVERY_S:
            self._programs, self._programs_s = _programs({*own, os.getpid()}), now_s
        elif count is not None and count <= cores:
            self._programs = ()
        self._looked_s = now_s
        self._load = HostLoad(cores, count, _pressure(), stolen, self._programs)
        return self._load


def _pressure() -> float | None:
    for word in kernel_text("/proc/pressure/cpu").split():
        name, _, value = word.partition("=")
        if name == "avg10":
            with suppress(ValueError):
                return float(value) / 100
    return None


def _programs(own: Collection[int]) -> tuple[str, ...]:
    """Processes in state R that do not belong to the job, the most frequent names first."""
    names: Counter[str] = Counter()
    with suppress(OSError):
        for pid in os.listdir("/proc"):  # noqa: PTH208
            if pid.isdigit() and int(pid) not in own:
                head, _, tail = kernel_text(f"/proc/{pid}/stat", 512).rpartition(") ")
                if tail[:1] == "R":
                    names["".join(c for c in head.partition("(")[2] if c.isprintable())] += 1
    return tuple(f"{name} ({count})" if count > 1 else name for name, count in names.most_common(_NAMED))
