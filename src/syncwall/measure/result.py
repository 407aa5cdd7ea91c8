"""One measurement as a file: what was measured, where, with what software, and what else ran.

A machine counts as busy if programs that are not the measurement use more than `MOST_OTHERS` of its
cores, or if the machine below takes more than `MOST_STEAL` of their time away, before or during the
measurement. The load average is stated but not judged: it remembers the measurement before. Workers
have a core each or share it, so a tenth of the cores taken is about a tenth of the step, twice what
two runs of a quiet lab differ by; at a load of 20 a step of 0.5 s was measured as 5.9 s. Steal
stops a worker for which all others wait; quiet machines have below 1%.

The data of a result is that of its kind: see `collectives.CollectiveRow`, `links.LinkRow`,
`kernels.KernelRow` and `step.StepData`.
"""

import os
import platform
import sys
import time
from collections.abc import Iterable
from datetime import UTC, datetime
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Annotated, Any, Final, Literal, NamedTuple, Self

from pydantic import Field

from syncwall import __version__
from syncwall.describe.base import Description
from syncwall.describe.reading import read
from syncwall.hosts import host_name

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


_PACKAGES = ("torch", "numpy", "triton", "nvidia-nccl-cu12", "nvidia-nccl-cu13")
_PREFIXES = (
    "NCCL_",
    "GLOO_",
    "OMP_",
    "MKL_",
    "KMP_",
    "TORCH_",
    "CUDA_",
    "HIP_",
    "UCX_",
    "FI_",
    "RCCL_",
    "SLURM_JOB_NUM",
    "SLURM_NTASKS",
)


class NetworkInterface(Description):
    """A network interface."""

    name: str
    state: str
    mbit_per_s: int | None = None
    """Line rate; None where the kernel does not know it."""


class Host(Description):
    """One machine and its software."""

    name: str
    system: str
    cpu: str
    cores: int
    memory_bytes: int | None = None
    accelerators: tuple[str, ...] = ()
    nics: tuple[NetworkInterface, ...] = ()
    packages: dict[str, str] = Field(default_factory=dict)
    environment: dict[str, str] = Field(default_factory=dict)
    """Variables that change what is measured."""


def this_host(accelerators: tuple[str, ...] = ()) -> Host:
    """Everything that can be known of this host without asking anyone else."""
    chosen = {key: value for key, value in os.environ.items() if key.startswith(_PREFIXES)}
    return Host(
        name=host_name(),
        system=f"{platform.system()} {platform.release()}",
        cpu=_cpu(),
        cores=len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else _cores(),
        memory_bytes=_memory_bytes(),
        accelerators=accelerators,
        nics=_nics(),
        packages={"syncwall": __version__, "python": platform.python_version(), **_packages()},
        environment=dict(sorted(chosen.items())),
    )


def _cores() -> int:
    return os.cpu_count() or 1


def _cpu() -> str:
    path = Path("/proc/cpuinfo")
    lines = path.read_text(encoding="utf-8").splitlines() if path.exists() else []
    names = (line.partition(":")[2].strip() for line in lines if line.startswith("model name"))
    return next(names, platform.processor() or platform.machine())


def _memory_bytes() -> int | None:
    if sys.platform == "win32":
        return None
    return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")


def free_memory_bytes() -> int:
    """Memory that a process can take without anything being swapped; 1 GiB if nobody knows."""
    path = Path("/proc/meminfo")
    lines = path.read_text(encoding="utf-8").splitlines() if path.exists() else []
    for line in lines:
        if line.startswith("MemAvailable:"):
            return int(line.split()[1]) * 1024
    return 2**30


def _nics() -> tuple[NetworkInterface, ...]:
    found = []
    for path in sorted(Path("/sys/class/net").glob("*")):
        if path.name != "lo":
            rate = _text(path / "speed")
            known = int(rate) if rate.isdecimal() else None
            found.append(NetworkInterface(name=path.name, state=_text(path / "operstate"), mbit_per_s=known))
    return tuple(found)


def _text(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8").strip()
    except OSError:  # interfaces that are down do not tell their rate
        return ""


def _packages() -> dict[str, str]:
    found = {}
    for name in _PACKAGES:
        try:
            found[name] = version(name)
        except PackageNotFoundError:
            continue
    return found


ResultKind = Literal["collectives", "links", "matmul", "step", "lab"]


class JobFacts(Description):
    """The processes that measured."""

    backend: str
    device: str
    """cpu, or the name of the accelerator."""
    hosts: tuple[str, ...]
    """By rank, the host it ran on."""

    @property
    def world(self) -> int:
        """Number of ranks."""
        return len(self.hosts)

    @property
    def host_names(self) -> tuple[str, ...]:
        """Every host once, in the order of ranks."""
        return tuple(dict.fromkeys(self.hosts))


class Result(Description):
    """One measurement."""

    syncwall: str = __version__
    """The version that measured."""
    kind: ResultKind
    """What was measured."""
    made_at: str = Field(default_factory=lambda: datetime.now(UTC).isoformat(timespec="seconds"))
    """When, in ISO 8601."""
    complete: bool = True
    """False if it was interrupted: the rows are those measured until then."""
    job: JobFacts
    hosts: tuple[Host, ...]
    """Every host once; of a lab, the machine that it is made on."""
    settings: dict[str, Any] = Field(default_factory=dict)
    """What was asked for."""
    data: dict[str, Any]
    """As its kind has it."""
    load: MachineLoad | None = None
    """What else the machine did; None where that is not known, and in a lab, whose records have
    their own."""

    @classmethod
    def read(cls, path: Path) -> Self:
        """The result in the file at `path`."""
        return read(path, cls)
