"""Who takes part: every rank says who it is, rank 0 tells all.

Holds `connected` (the store of the job), `introduced` (the hosts by rank) and `left` (the end).
`Place`, `place` and `LOADER_DELAY`: which process of a job this is, from the environment that
torchrun or Slurm sets.
"""

import json
import os
import time
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import timedelta
from itertools import islice
from typing import Any

from syncwall.hosts import first_of_slurm
from syncwall.measure.heartbeat import bounded, first_beat
from syncwall.measure.lost import LostRankError, first_line
from syncwall.measure.result import Host, host_name
from syncwall.problems import InputError

_TORCHRUN = ("RANK", "WORLD_SIZE", "MASTER_ADDR", "MASTER_PORT")
_SLURM = ("SLURM_PROCID", "SLURM_NTASKS")
LOADER_DELAY = "SYNCWALL_LOADER_DELAY_S"
"""Variable with the seconds that a rank's data loader sleeps in each step: a fault of the lab."""
_FIRST_PORT, _PORTS = 20000, 10000
_MOST_RANKS = 1_000_000
_MOST = {"MASTER_PORT": 65_535, "SLURM_JOB_ID": 1 << 32}
_NAMED = 20
"""Missing ranks that are named."""


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
        port = _number(environ, "MASTER_PORT")
        return Place(rank, world, local, environ["MASTER_ADDR"], port)
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
    text, most = environ[name], _MOST.get(name, _MOST_RANKS)
    if not text.isdecimal():
        raise InputError.of(f'{name} is "{text[:40]}": a whole number is needed')
    if len(text) > 12 or int(text) > most:
        raise InputError.of(f"{name} is {text[:40]}: it can be {most} at most")
    return int(text)


def _first_node(environ: Mapping[str, str]) -> str:
    found = first_of_slurm(environ)
    if not found:
        raise InputError.of(
            "SLURM_JOB_NODELIST names no host: set MASTER_ADDR to the host of rank 0"
        )
    return found


_ROSTER = "roster"
_LINGER_S = 3.0
"""How long rank 0 keeps the store up for the others after it gave up on somebody."""


def connected(here: Place, timeout_s: float, *, listen: bool = True) -> Any:
    """A connection to the store, which rank 0 keeps (`listen`) unless torchrun does already."""
    import torch.distributed as dist

    kept = os.environ.get("TORCHELASTIC_USE_AGENT_STORE") == "True"
    try:
        store = dist.TCPStore(
            here.address, here.port, is_master=listen and here.rank == 0 and not kept,
            timeout=timedelta(seconds=timeout_s), wait_for_workers=False,
        )  # fmt: skip
    except (RuntimeError, OSError) as error:
        raise LostRankError(
            f"rank 0 cannot be reached at {here.address}:{here.port} from host {host_name()} "
            f"(rank {here.rank}): {first_line(error)}"
        ) from None
    attempt = os.environ.get("TORCHELASTIC_RESTART_COUNT", "0")
    return dist.PrefixStore(f"syncwall/{attempt}", store)


def introduced(
    store: Any, here: Place, own: Host, timeout_s: float
) -> tuple[tuple[str, ...], tuple[Host, ...]]:
    """The hosts by rank, and on rank 0 the facts of each host, elsewhere of this one.

    Only rank 0 reads what all have written: a thousand ranks that each read a thousand entries
    would keep it busy for minutes.
    """
    store.set(f"host/{here.rank}", own.model_dump_json())
    first_beat(store, here.rank)
    store.add("joined", 1)
    if here.rank == 0:
        return _called(store, here.world, timeout_s)
    try:
        limit = timedelta(seconds=timeout_s + _LINGER_S)
        bounded(lambda: store.wait([_ROSTER], limit), timeout_s + 2 * _LINGER_S)
        roster = json.loads(store.get(_ROSTER))
    except (RuntimeError, OSError) as error:
        raise LostRankError(
            f"rank 0 at {here.address}:{here.port} does not answer host {own.name} "
            f"(rank {here.rank}): {first_line(error)}"
        ) from None
    if "missing" in roster:
        raise LostRankError(roster["missing"])
    return tuple(roster["hosts"]), (own,)


def _called(store: Any, world: int, timeout_s: float) -> tuple[tuple[str, ...], tuple[Host, ...]]:
    """Rank 0's part: wait for all and tell all who they are, or who is missing."""
    end = time.monotonic() + timeout_s
    while (count := store.add("joined", 0)) < world:
        if time.monotonic() > end:
            missing = (rank for rank in range(world) if not store.check([f"host/{rank}"]))
            absent = ", ".join(map(str, islice(missing, _NAMED)))
            more = f" and {world - count - _NAMED:,} more" if world - count > _NAMED else ""
            message = (
                f"{count} of {world} ranks have joined within {timeout_s:.0f} s; "
                f"missing: rank {absent}{more}"
            )
            store.set(_ROSTER, json.dumps({"missing": message}))
            time.sleep(_LINGER_S)
            raise LostRankError(message)
        time.sleep(0.05)
    texts = store.multi_get([f"host/{rank}" for rank in range(world)])
    every = [Host.model_validate_json(text) for text in texts]
    names = tuple(host.name for host in every)
    store.set(_ROSTER, json.dumps({"hosts": names}))
    return names, tuple({host.name: host for host in every}.values())


def left(store: Any, here: Place, timeout_s: float) -> None:
    """Leave; rank 0, which keeps the store, leaves last."""
    store.add("left", 1)
    end = time.monotonic() + timeout_s
    while here.rank == 0 and store.add("left", 0) < here.world and time.monotonic() < end:
        time.sleep(0.01)
