"""The processes of a job: one for each worker, inside its host, ended in bounded time.

Holds `LabWorkers` and `JobExit`.
"""

import os
import signal
import subprocess
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from syncwall.hosts import HOST_NAME
from syncwall.lab.host_machine import inside
from syncwall.lab.virtual_network import LabNetwork, Topology, adapter_address

GRACE_S: Final = 75.0
"""How long the others may go on when a worker has failed: `measure` ends by itself within 60 s."""
_MOST_CHARS: Final = 20_000
_PORT: Final = 29500
_LAUNCHERS: Final = ("SLURM_", "TORCHELASTIC_", "GROUP_", "ROLE_", "GLOO_", "NCCL_SOCKET_")


@dataclass(frozen=True)
class JobExit:
    """How a job ended."""

    codes: tuple[int | None, ...]
    """Exit code of each rank; negative for a signal, None if it had to be killed."""
    seconds: float
    outputs: tuple[str, ...]
    """What each rank printed, the end of it if it was long."""
    errors: tuple[str, ...]
    """What each rank complained of."""
    message: str | None = None
    """Why it failed; None if it did not."""
    ended_first: tuple[str, ...] = ()
    """Hosts of the workers that failed first: the cause, or the first to notice it."""

    @property
    def ok(self) -> bool:
        """True if every rank ended well."""
        return self.message is None


@dataclass
class LabWorkers:
    """The running processes of one job; a context that leaves none behind."""

    network: LabNetwork
    topology: Topology
    command: Sequence[str]
    directory: Path
    threads: int = 1
    environment: Mapping[str, str] = field(default_factory=dict)
    own: Mapping[int, Mapping[str, str]] = field(default_factory=dict)
    """Variables of single ranks."""
    hosts: Sequence[int] = ()
    """Hosts of the job in the order of its ranks; all of them if empty."""
    processes: list[subprocess.Popen[bytes]] = field(default_factory=list)
    started: float = 0.0

    def __enter__(self) -> "LabWorkers":
        self.directory.mkdir(parents=True, exist_ok=True)
        self.started = time.monotonic()
        try:
            for rank in range(self.world):
                self.processes.append(self._start(rank))
        except BaseException:
            self.end()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        self.end()

    def _start(self, rank: int) -> subprocess.Popen[bytes]:
        namespace = self.network.hosts[self._host(rank)]
        out, err = (self.directory / f"rank{rank}.{kind}" for kind in ("out", "err"))
        with out.open("wb") as stdout, err.open("wb") as stderr:
            return subprocess.Popen(  # noqa: S603 - the user's own program
                inside(namespace, self.command),
                stdin=subprocess.DEVNULL,
                stdout=stdout,
                stderr=stderr,
                env=self.variables(rank),
                process_group=0,  # Ctrl-C is for the launcher, which ends them in order
            )

    @property
    def world(self) -> int:
        """Processes of the job."""
        return (len(self.hosts) or self.topology.hosts) * self.topology.workers

    def _host(self, rank: int) -> int:
        host = self.topology.host_of(rank)
        return self.hosts[host] if self.hosts else host

    def variables(self, rank: int) -> dict[str, str]:
        """The environment of a rank: as torchrun sets it, with the adapter that it uses."""
        topology = self.topology
        host, worker = self._host(rank), rank % topology.workers
        alone = topology.hosts == 1
        own = {name: text for name, text in os.environ.items() if not name.startswith(_LAUNCHERS)}
        first = "127.0.0.1" if alone else adapter_address(self._host(0))
        names = ",".join(f"eth{nic}" for nic in topology.nics_of(worker))
        return (
            own
            | {
                "RANK": str(rank),
                "WORLD_SIZE": str(self.world),
                "LOCAL_RANK": str(worker),
                "LOCAL_WORLD_SIZE": str(topology.workers),
                "MASTER_ADDR": first,
                "MASTER_PORT": str(_PORT),
                "GLOO_SOCKET_IFNAME": "lo" if alone else names,
                "NCCL_SOCKET_IFNAME": "lo" if alone else names,
                HOST_NAME: f"h{host}",
                "OMP_NUM_THREADS": str(self.threads),
                "MKL_NUM_THREADS": str(self.threads),
            }
            | {**self.environment, **self.own.get(rank, {})}
        )

    def wait(self, time_limit_s: float, grace_s: float = GRACE_S) -> JobExit:
        """Wait for all; a little longer for those who are left when one has failed."""
        until, late = self.started + time_limit_s, False
        first: list[int] = []
        while any(process.poll() is None for process in self.processes):
            if not first:
                first = [rank for rank, code in enumerate(self._codes()) if code]
                if first:
                    until = min(until, time.monotonic() + grace_s)
            if time.monotonic() > until:
                late = True
                break
            time.sleep(0.02)
        first = first or [rank for rank, code in enumerate(self._codes()) if code]
        codes = self._codes()
        seconds = time.monotonic() - self.started
        self.end()
        message = self._message(first, codes, seconds) if first or late else None
        hosts = dict.fromkeys(self.host_name(rank) for rank in first)
        return JobExit(codes, seconds, self._texts("out"), self._texts("err"), message, tuple(hosts))

    def host_name(self, rank: int) -> str:
        """The host of a rank, as `measure` calls it."""
        return f"h{self._host(rank)}"

    def end(self) -> None:
        """Kill what is still running, with all that it started."""
        for process in self.processes:
            if process.poll() is None:
                try:
                    os.killpg(process.pid, signal.SIGKILL)
                except (ProcessLookupError, PermissionError):  # not yet the leader of its group
                    process.kill()
        for process in self.processes:
            process.wait()

    def _texts(self, kind: str) -> tuple[str, ...]:
        files = (self.directory / f"rank{rank}.{kind}" for rank in range(self.world))
        return tuple(_text(path)[-_MOST_CHARS:] for path in files)

    def _codes(self) -> tuple[int | None, ...]:
        return tuple(process.poll() for process in self.processes)

    def _message(self, first: list[int], codes: tuple[int | None, ...], seconds: float) -> str:
        if not first:
            left = [rank for rank, code in enumerate(codes) if code is None]
            who = ", ".join(f"rank {rank} on {self.host_name(rank)}" for rank in left)
            return f"still running after {seconds:.0f} s: {who}"
        rank = first[0]
        code = codes[rank] or 0
        how = f"was ended by {_signal(-code)}" if code < 0 else f"ended with code {code}"
        stderr = _text(self.directory / f"rank{rank}.err").strip().splitlines()[-3:]
        return "\n".join([f"rank {rank} on {self.host_name(rank)} {how}", *stderr])


def _signal(number: int) -> str:
    try:
        return signal.Signals(number).name
    except ValueError:
        return f"signal {number}"


def _text(path: Path) -> str:
    return path.read_text(encoding="utf-8", errors="replace") if path.exists() else ""
