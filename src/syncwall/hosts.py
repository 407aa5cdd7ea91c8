"""Hosts of a job, and the place of a process among them, as launchers state it.

Holds `LOOPBACK`, `host_name`, `slurm_hosts`, `first_of_slurm`; `Place`, `place` (what torchrun,
Slurm, Open MPI and PMI say, with guesses where they say nothing) and `required_place`, which
refuses half a statement.
"""

import os
import re
import socket
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from itertools import product
from math import prod
from typing import Final

from syncwall.problems import InputError

LOOPBACK: Final = frozenset({"127.0.0.1", "localhost", "::1"})
HOST_NAME: Final = "SYNCWALL_HOST"
"""Variable with the name of a host that shares its machine with others, as those of the lab do."""
_MOST: Final = 1_000_000
_LONGEST: Final = 253
"""Letters of a host's name (RFC 1035)."""
_BRACKETS: Final = 10
_NAME: Final = re.compile(r"(?:[^\s,\[\]]|\[[^\[\]]*\])+")
_BRACKET: Final = re.compile(r"\[([^\[\]]*)\]")
_RANGE: Final = re.compile(r"\s*([0-9]{1,9})(?:\s*-\s*([0-9]{1,9}))?\s*")


def slurm_hosts(text: str, *, file: str = "") -> Iterator[str]:
    """The hosts of a list such as "rack[1-2]-gpu[08-10,12].lan,login1", in its order.

    The last bracket counts fastest, and a range keeps the zeros of its first number, as those of
    `scontrol show hostnames` do. InputError if it is no such list, or has more than a million.
    """
    if left := _NAME.sub("", text).strip(", \t\r\n"):
        raise InputError.of(f'"{text[:60]}" has a "{left[0]}" without its partner', file=file)
    count = 0
    for name in _NAME.findall(text):
        fixed, brackets = _parts(name, file)
        count += prod(sum(len(numbers) for numbers, _ in one) for one in brackets)
        if count > _MOST:
            raise InputError.of(f'"{text[:60]}" names more than {_MOST:,} hosts', file=file)
        written = [[f"{n:0{width}}" for numbers, width in one for n in numbers] for one in brackets]
        between = [[[prefix], numbers] for prefix, numbers in zip(fixed, written, strict=False)]
        yield from map("".join, product(*(pool for pair in between for pool in pair), fixed[-1:]))


def _parts(name: str, file: str) -> tuple[list[str], list[list[tuple[range, int]]]]:
    """What stands around the brackets of a name, and in each the ranges and their digits."""
    parts = _BRACKET.split(name)
    fixed, brackets = parts[::2], parts[1::2]
    if len("".join(fixed)) > _LONGEST or len(brackets) > _BRACKETS:
        most = f"{_LONGEST} letters and {_BRACKETS} brackets"
        raise InputError.of(f'"{name[:60]}..." has more than {most}', file=file)
    return fixed, [[_range(name, part, file) for part in one.split(",")] for one in brackets]


def _range(name: str, text: str, file: str) -> tuple[range, int]:
    found = _RANGE.fullmatch(text)
    first, last = (int(found[1]), int(found[2] or found[1])) if found else (1, 0)
    if found is None or last < first:
        message = f'"{name[:60]}": "{text[:30]}" is no number or range of them: write 1 or 1-8'
        raise InputError.of(message, file=file)
    return range(first, last + 1), len(found[1])


def first_of_slurm(environ: Mapping[str, str]) -> str:
    """The first of Slurm's nodes; empty without them."""
    nodes = environ.get("SLURM_STEP_NODELIST") or environ.get("SLURM_JOB_NODELIST") or ""
    try:
        return next(slurm_hosts(nodes), "")
    except InputError:  # not of Slurm, and no reason to stop who only asks
        return ""


def host_name(environ: Mapping[str, str] = os.environ) -> str:
    """This host's name, or the one that the lab gave to its part of a machine."""
    return environ.get(HOST_NAME) or socket.gethostname()


_RANK: Final = ("RANK", "SLURM_PROCID", "OMPI_COMM_WORLD_RANK", "PMI_RANK")
_WORLD: Final = ("WORLD_SIZE", "SLURM_NTASKS", "OMPI_COMM_WORLD_SIZE", "PMI_SIZE")
_NODE: Final = ("GROUP_RANK", "SLURM_NODEID", "NODE_RANK", "OMPI_COMM_WORLD_NODE_RANK")
_LOCAL_RANK: Final = ("LOCAL_RANK", "SLURM_LOCALID", "OMPI_COMM_WORLD_LOCAL_RANK")
_LOCAL_WORLD: Final = ("LOCAL_WORLD_SIZE", "SLURM_NTASKS_PER_NODE", "OMPI_COMM_WORLD_LOCAL_SIZE")
_TORCHRUN: Final = ("RANK", "WORLD_SIZE", "MASTER_ADDR", "MASTER_PORT")
_SLURM: Final = ("SLURM_PROCID", "SLURM_NTASKS", "SLURM_STEP_ID")
_CHECKED: Final = {
    "RANK": _MOST,
    "WORLD_SIZE": _MOST,
    "LOCAL_RANK": _MOST,
    "SLURM_PROCID": _MOST,
    "SLURM_NTASKS": _MOST,
    "SLURM_LOCALID": _MOST,
    "SLURM_JOB_ID": 1 << 32,
    "MASTER_PORT": 65_535,
}
"""Numbers that a job is joined by, and how large each can be."""
_DIGITS: Final = 12
_FIRST_PORT: Final = 20_000
_PORTS: Final = 10_000


@dataclass(frozen=True, slots=True)
class Place:
    """One process among those of a job."""

    rank: int
    world: int
    local_rank: int = 0
    """Number among the processes of the same host."""
    local_world: int = 1
    """Processes of the same host."""
    node_rank: int = 0
    address: str = ""
    """Where rank 0 listens; empty if nobody says."""
    port: int = 0
    """The same; 0 if nobody says."""

    @property
    def nodes(self) -> int:
        """Of the job."""
        return -(-self.world // max(self.local_world, 1))


def place(environ: Mapping[str, str]) -> Place | None:
    """What the launcher says; None if it says no rank."""

    def number(*names: str) -> int | None:
        texts = (environ.get(name, "") for name in names)
        return next((int(one) for one in texts if one.isdecimal() and len(one) <= _DIGITS), None)

    rank = number(*_RANK)
    if rank is None:
        return None
    world = number(*_WORLD) or rank + 1
    local_world = number(*_LOCAL_WORLD) or -(-world // (number("SLURM_NNODES") or 1))
    node_rank = number(*_NODE)
    return Place(
        rank,
        world,
        number(*_LOCAL_RANK) or 0,
        local_world,
        rank // local_world if node_rank is None else node_rank,
        environ.get("MASTER_ADDR") or first_of_slurm(environ),
        number("MASTER_PORT") or 0,
    )


def required_place(environ: Mapping[str, str]) -> Place:
    """The place that torchrun or srun state, a process alone if neither does.

    InputError if they state only half of it, or a number that cannot be.
    """
    is_torchrun = "RANK" in environ
    if not is_torchrun and not all(name in environ for name in _SLURM):
        return Place(0, 1, address="127.0.0.1")
    missing = [name for name in _TORCHRUN if is_torchrun and name not in environ]
    if missing:
        raise InputError.of(f"{missing[0]} is not set: launch with torchrun or srun")
    for name, most in _CHECKED.items():
        if name in environ and not (is_torchrun and name.startswith("SLURM")):
            _check_number(name, environ[name], most)
    found = place(environ)
    assert found is not None
    if not found.address:
        raise InputError.of("SLURM_JOB_NODELIST names no host: set MASTER_ADDR to the host of rank 0")
    job = int(environ.get("SLURM_JOB_ID", "0"))
    return found if found.port else replace(found, port=_FIRST_PORT + job % _PORTS)


def _check_number(name: str, text: str, most: int) -> None:
    if not text.isdecimal():
        raise InputError.of(f'{name} is "{text[:40]}": a whole number is needed')
    if len(text) > _DIGITS or int(text) > most:
        raise InputError.of(f"{name} is {text[:40]}: it can be {most} at most")
