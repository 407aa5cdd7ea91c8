"""Which process of a job this is, from the environment that torchrun or Slurm sets.

Holds `Place`, `place` and `LOADER_DELAY`.
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass

from syncwall.problems import InputError

_TORCHRUN = ("RANK", "WORLD_SIZE", "MASTER_ADDR", "MASTER_PORT")
_SLURM = ("SLURM_PROCID", "SLURM_NTASKS")
LOADER_DELAY = "SYNCWALL_LOADER_DELAY_S"
"""Variable with the seconds that a rank's data loader sleeps in each step: a fault of the lab."""
_FIRST_PORT, _PORTS = 20000, 10000


@dataclass(frozen=True, slots=True)
class Place:
    """One process among those of a job."""

    rank: int
    world: int
    local_rank: int
    """Number among the processes of the same host."""
    address: str
    """Where rank 0 listens."""
    port: int


def place(environ: Mapping[str, str]) -> Place:
    """The place that `environ` states; a process alone if it states none."""
    if "RANK" in environ:
        missing = [name for name in _TORCHRUN if name not in environ]
        if missing:
            raise InputError.of(f"{missing[0]} is not set: launch with torchrun or srun")
        rank, world = _number(environ, "RANK"), _number(environ, "WORLD_SIZE")
        local = _number(environ, "LOCAL_RANK") if "LOCAL_RANK" in environ else 0
        return Place(rank, world, local, environ["MASTER_ADDR"], _number(environ, "MASTER_PORT"))
    if all(name in environ for name in _SLURM) and "SLURM_STEP_ID" in environ:
        job = _number(environ, "SLURM_JOB_ID") if "SLURM_JOB_ID" in environ else 0
        stated = _number(environ, "MASTER_PORT") if "MASTER_PORT" in environ else None
        port = stated or _FIRST_PORT + job % _PORTS
        local = _number(environ, "SLURM_LOCALID") if "SLURM_LOCALID" in environ else 0
        address = environ.get("MASTER_ADDR") or _first_node(environ)
        rank, world = (_number(environ, name) for name in _SLURM)
        return Place(rank, world, local, address, port)
    return Place(0, 1, 0, "127.0.0.1", 0)


def _number(environ: Mapping[str, str], name: str) -> int:
    text = environ[name]
    if not text.isdecimal():
        raise InputError.of(f'{name} is "{text}", a whole number is needed')
    return int(text)


def _first_node(environ: Mapping[str, str]) -> str:
    """The first of Slurm's nodes, which it writes as "gpu[03-10,12],login1"."""
    nodes = environ.get("SLURM_STEP_NODELIST") or environ.get("SLURM_JOB_NODELIST") or ""
    found = re.match(r"([^,\[]+)(?:\[(\d+))?", nodes)
    if not found:
        raise InputError.of("SLURM_JOB_NODELIST is not set: set MASTER_ADDR to the host of rank 0")
    return found[1] + (found[2] or "")
