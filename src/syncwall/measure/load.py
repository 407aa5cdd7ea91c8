"""What else a machine did before and while it measured.

Holds `Load` (over some seconds), `MachineLoad` (before and during a measurement) and, with which
they are found, `Meter` and `watched`: they read the counters of Linux.

A machine counts as busy if programs that are not the measurement use more than `MOST_OTHERS` of its
cores, or if the machine below takes more than `MOST_STEAL` of their time away, before or during the
measurement. The load average is stated but not judged: it remembers the measurement before. Workers
have a core each or share it, so a tenth of the cores taken is about a tenth of the step, twice what
two runs of a quiet lab differ by; at a load of 20 a step of 0.5 s was measured as 5.9 s. Steal
stops a worker for which all others wait; quiet machines have below 1%.
"""

import os
import time
from collections.abc import Iterable
from pathlib import Path
from typing import Annotated, Final, NamedTuple, Self

from pydantic import Field

from syncwall.describe.base import Description

MOST_OTHERS: Final = 0.10
MOST_STEAL: Final = 0.02
_STAT: Final = Path("/proc/stat")
_WATCHED_S: Final = 0.5
"""How long the machine is watched before it measures."""
Share = Annotated[float, Field(ge=0, le=1)]


class Spent(NamedTuple):
    """Seconds of processors, as one process of a measurement sees them."""

    host: str
    cores: tuple[int, ...]
    """Those that the process may run on."""
    all_s: float
    used_s: float
    stolen_s: float
    own_s: float
    """Used by the process, and by its children that have ended."""
    average: float


Told = Iterable[Spent | None]


class Load(Description):
    """A machine over some seconds; of several, the busiest."""

    average: Annotated[float, Field(ge=0, allow_inf_nan=False)]
    """Load average of the minute before."""
    others: Share
    """Share of all cores that programs used which are not the measurement."""
    steal: Share
    """Share of all cores that the machine below took away."""

    @property
    def is_busy(self) -> bool:
        """True if a measurement means little."""
        return self.others > MOST_OTHERS or self.steal > MOST_STEAL


class MachineLoad(Description):
    """Before and during a measurement."""

    before: Load
    during: Load | None = None
    """None if a rank was lost."""

    @classmethod
    def of(cls, before: Told, during: Told = ()) -> Self | None:
        """From what the processes of a measurement tell; None where the kernel does not."""
        found = _load_of(before)
        return None if found is None else cls(before=found, during=_load_of(during))

    @property
    def samples(self) -> tuple[Load, ...]:
        """Those that there are."""
        return (self.before, self.during) if self.during else (self.before,)


class Meter:
    """Counts from when it was made."""

    def __init__(self, host: str = "") -> None:
        self._host, self._start = host, _counted(host)

    def spent(self) -> Spent | None:
        """Seconds since the start; None where the kernel does not tell."""
        start, end = self._start, _counted(self._host)
        if start is None or end is None:
            return None
        names = ("all_s", "used_s", "stolen_s", "own_s")
        return end._replace(**{name: getattr(end, name) - getattr(start, name) for name in names})


def watched(host: str = "") -> Spent | None:
    """What a machine does that has not yet begun to measure."""
    meter = Meter(host)
    time.sleep(_WATCHED_S)
    return meter.spent()


def _load_of(told: Told) -> Load | None:
    """The busiest host; None if one of the processes does not know, or none tells."""
    hosts: dict[str, list[Spent]] = {}
    for one in told:
        if one is None or one.all_s <= 0:
            return None
        hosts.setdefault(one.host, []).append(one)
    loads = [_of_host(alike) for alike in hosts.values()]
    most = {name: max(getattr(one, name) for one in loads) for name in Load.model_fields if loads}
    return Load(**most) if most else None


def _of_host(told: list[Spent]) -> Load:
    """Processes that may run on the same cores see the same there."""
    seen = {one.cores: one for one in told}.values()
    all_s = sum(one.all_s for one in seen)
    others_s = sum(one.used_s for one in seen) - sum(one.own_s for one in told)
    return Load(
        average=max(one.average for one in told),
        others=min(max(others_s / all_s, 0.0), 1.0),
        steal=min(sum(one.stolen_s for one in seen) / all_s, 1.0),
    )


def _counted(host: str) -> Spent | None:
    """Seconds since the machine and the process were started."""
    if not _STAT.exists():
        return None
    cores = tuple(sorted(os.sched_getaffinity(0)))
    wanted = {f"cpu{core}" for core in cores}
    lines = (line.split() for line in _STAT.read_text(encoding="ascii").splitlines())
    # user, nice, system, idle, waiting for disks, interrupts, soft interrupts, steal
    counts = [[int(word) for word in words[1:9]] for words in lines if wanted & {*words[:1]}]
    tick_s = 1.0 / os.sysconf("SC_CLK_TCK")
    return Spent(
        host=host,
        cores=cores,
        all_s=sum(map(sum, counts)) * tick_s,
        used_s=sum(sum(core[:3]) for core in counts) * tick_s,
        stolen_s=sum(core[7] for core in counts) * tick_s,
        own_s=sum(os.times()[:4]),
        average=os.getloadavg()[0],
    )
