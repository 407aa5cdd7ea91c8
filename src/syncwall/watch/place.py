"""Where a watched process stands in its job, and the folder that it shares with its agent.

Holds `Place`, `place`, `folder` and `homes`. Reads what torchrun, Slurm and launchers like them
set.
"""

import os
import socket
import tempfile
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from syncwall.hosts import first_of_slurm

FOLDER: Final = "SYNCWALL_WATCH_FOLDER"
"""Variable with the folder of rings; `syncwall watch` sets it."""
EXPECT: Final = "SYNCWALL_WATCH_EXPECT"
"""Variable that says what the run should be like, as `watch.expected` reads it."""
SWITCH: Final = "SYNCWALL_WATCH"
"""Variable that switches watching on."""
_RANK: Final = ("RANK", "SLURM_PROCID", "OMPI_COMM_WORLD_RANK", "PMI_RANK")
_WORLD: Final = ("WORLD_SIZE", "SLURM_NTASKS", "OMPI_COMM_WORLD_SIZE", "PMI_SIZE")
_NODE: Final = ("GROUP_RANK", "SLURM_NODEID", "NODE_RANK", "OMPI_COMM_WORLD_NODE_RANK")
_LOCAL_WORLD: Final = ("LOCAL_WORLD_SIZE", "SLURM_NTASKS_PER_NODE", "OMPI_COMM_WORLD_LOCAL_SIZE")
LAB_HOST: Final = "SYNCWALL_HOST"
"""As in `measure.result`, which trainers need not load."""
_JOB: Final = ("TORCHELASTIC_RUN_ID", "SLURM_JOB_ID")


@dataclass(frozen=True, slots=True)
class Place:
    """A process in its job."""

    rank: int
    world: int
    node_rank: int
    local_world: int
    node: str
    store_host: str
    """Of the first node; empty if nobody says."""
    store_port: int = 0
    """For our own store, apart from that of the training."""

    @property
    def nodes(self) -> int:
        """Of the job."""
        return -(-self.world // max(self.local_world, 1))


def place(environment: Mapping[str, str]) -> Place | None:
    """What the launcher says; None if it says no rank."""
    rank = _number(environment, _RANK)
    if rank is None:
        return None
    world = _number(environment, _WORLD) or rank + 1
    nodes = _number(environment, ("SLURM_NNODES",)) or 1
    local_world = _number(environment, _LOCAL_WORLD) or -(-world // nodes)
    node_rank = _number(environment, _NODE)
    return Place(
        rank, world, rank // local_world if node_rank is None else node_rank, local_world,
        environment.get(LAB_HOST) or socket.gethostname(),
        environment.get("MASTER_ADDR") or first_of_slurm(environment), _port(environment),
    )  # fmt: skip


def folder(environment: Mapping[str, str]) -> Path:
    """The folder of a job's rings on this node, in shared memory where there is some."""
    if FOLDER in environment:
        return Path(environment[FOLDER])
    job = next((environment[name] for name in _JOB if environment.get(name)), str(os.getppid()))
    safe = "".join(one if one.isalnum() else "-" for one in job)[:64]
    return homes()[0] / f"syncwall-{os.getuid()}-{safe}"


def homes() -> list[Path]:
    """Where folders of rings are: in shared memory if there is some, else among temporary files."""
    memory = Path("/dev/shm")  # noqa: S108 - folders in it are the user's alone
    return [*([memory] if os.access(memory, os.W_OK) else []), Path(tempfile.gettempdir())]


def _port(environment: Mapping[str, str]) -> int:
    """The same on all nodes of a job, and another one for another job."""
    stated = _number(environment, ("SYNCWALL_WATCH_PORT",))
    training = _number(environment, ("MASTER_PORT",)) or 29500
    return stated or 20_000 + (training * 7 + 3) % 40_000


def _number(environment: Mapping[str, str], names: tuple[str, ...]) -> int | None:
    for name in names:
        if environment.get(name, "").isdecimal():
            return int(environment[name])
    return None
