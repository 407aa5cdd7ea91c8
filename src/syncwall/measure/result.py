"""One measurement as a file: what was measured, where, and with what software.

Holds `Result`, and `JobFacts`. The data of a result is that of its kind: see
`collectives.CollectiveRow`, `links.LinkRow`, `kernels.KernelRow` and `step.StepData`. `Host`,
`this_host` and `free_memory_bytes`: what is known of the host that a process runs on.
"""

import os
import platform
import sys
from datetime import UTC, datetime
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any, Literal, Self

from pydantic import Field

from syncwall import __version__
from syncwall.describe.base import Description
from syncwall.describe.reading import read
from syncwall.hosts import host_name
from syncwall.measure.load import MachineLoad

_PACKAGES = ("torch", "numpy", "triton", "nvidia-nccl-cu12", "nvidia-nccl-cu13")
_PREFIXES = ("NCCL_", "GLOO_", "OMP_", "MKL_", "KMP_", "TORCH_", "CUDA_", "HIP_", "UCX_", "FI_",
             "RCCL_", "SLURM_JOB_NUM", "SLURM_NTASKS")  # fmt: skip


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
            found.append(
                NetworkInterface(name=path.name, state=_text(path / "operstate"), mbit_per_s=known)
            )
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
