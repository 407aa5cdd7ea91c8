"""The ranks of a job, joined: torch.distributed with names for everybody and with timeouts.

Holds `Team` and `joined`. Every rank says who it is, rank 0 tells all; a rank that never comes or
is lost is named, with its host, instead of waited for: see `lost_ranks`. `Stop` and `stoppable`:
Ctrl-C and SIGTERM: stop together at the next point, so that what was measured is kept.
"""

import json
import os
import signal
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from datetime import timedelta
from itertools import islice
from types import FrameType
from typing import Any

from syncwall.hosts import Place, host_name, required_place
from syncwall.measure.lost_ranks import (
    Heartbeat,
    LostRankError,
    explained,
    farewell,
    first_beat,
    first_line,
    is_communication_error,
    with_time_limit,
)
from syncwall.measure.result import Host, JobFacts, this_host
from syncwall.problems import InputError

_NAMED = 20
"""Missing ranks that are named."""


_ROSTER = "roster"
_LINGER_S = 3.0
"""How long rank 0 keeps the store up for the others after it gave up on somebody."""


def connected(here: Place, timeout_s: float, *, listen: bool = True) -> Any:
    """A connection to the store, which rank 0 keeps (`listen`) unless torchrun does already."""
    import torch.distributed as dist

    kept = os.environ.get("TORCHELASTIC_USE_AGENT_STORE") == "True"
    try:
        store = dist.TCPStore(
            here.address,
            here.port,
            is_master=listen and here.rank == 0 and not kept,
            timeout=timedelta(seconds=timeout_s),
            wait_for_workers=False,
        )
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
        with_time_limit(lambda: store.wait([_ROSTER], limit), timeout_s + 2 * _LINGER_S)
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
                f"{count} of {world} ranks have joined within {timeout_s:.0f} s; missing: rank {absent}{more}"
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


def leave(store: Any, here: Place, timeout_s: float) -> None:
    """Leave; rank 0, which keeps the store, leaves last."""
    store.add("left", 1)
    end = time.monotonic() + timeout_s
    while here.rank == 0 and store.add("left", 0) < here.world and time.monotonic() < end:
        time.sleep(0.01)


__all__ = ["DEFAULT_TIMEOUT_S", "LostRankError", "Team", "joined"]

DEFAULT_TIMEOUT_S = 30.0


@dataclass(frozen=True)
class Team:
    """All ranks of a job, as one of them sees them."""

    place: Place
    backend: str
    device: Any
    """torch.device of this rank."""
    hosts: tuple[str, ...]
    """By rank."""
    facts: tuple[Host, ...]
    """Of every host, once; ranks that do not lead know only their own."""
    store: Any
    """Key-value store of the job; None if this rank is alone."""

    @property
    def rank(self) -> int:
        """Number of this process."""
        return self.place.rank

    @property
    def world(self) -> int:
        """Number of processes."""
        return self.place.world

    @property
    def leads(self) -> bool:
        """True on the rank that prints and writes."""
        return self.rank == 0

    def slowest(self, seconds: list[float]) -> list[float]:
        """For each trial the longest of all ranks' times, the same on every rank."""
        import torch
        import torch.distributed as dist

        times = torch.tensor(seconds, dtype=torch.float64, device=self.device)
        if self.world > 1:
            dist.all_reduce(times, op=dist.ReduceOp.MAX)
        return [float(value) for value in times.tolist()]

    def gathered(self, value: Any) -> list[Any]:
        """By rank, what each rank gave; the same on every rank."""
        import torch.distributed as dist

        if self.world == 1:
            return [value]
        found: list[Any] = [None] * self.world
        dist.all_gather_object(found, value)
        return found

    def barrier(self) -> None:
        """Wait for all ranks."""
        import torch.distributed as dist

        if self.world > 1:
            dist.barrier()

    def synchronize(self) -> None:
        """Wait until the device has done what it was given."""
        if self.device.type == "cuda":
            import torch

            torch.cuda.synchronize(self.device)

    @property
    def job(self) -> JobFacts:
        """What a result says of the job."""
        return JobFacts(backend=self.backend, device=device_name(self.device), hosts=self.hosts)


@contextmanager
def joined(backend: str | None = None, timeout_s: float = DEFAULT_TIMEOUT_S) -> Iterator[Team]:
    """Join the ranks of the job that the environment states; leave together at the end.

    `LostRankError` names whoever is missing: within `timeout_s` at the start, later within about
    12 s of a failed call, which itself takes `timeout_s` at most. After it the process group is
    broken: print, and end the process with `os._exit`.
    """
    torch = torch_or_advice()
    here = required_place(os.environ)
    device = _device(torch, here, backend)
    backend = backend or ("nccl" if device.type == "cuda" else "gloo")
    own = this_host((device_name(device),) if device.type == "cuda" else ())
    if here.world == 1:
        yield Team(here, "none", device, (own.name,), (own,), None)
        return
    store = connected(here, timeout_s)
    names, facts = introduced(store, here, own, timeout_s)
    team = Team(here, backend, device, names, facts, store)
    heart = Heartbeat(lambda: connected(here, timeout_s, listen=False), here.rank)
    heart.start()
    try:
        yield from _together(team, timeout_s)
    finally:
        heart.stop()


def _together(team: Team, timeout_s: float) -> Iterator[Team]:
    """Open the process group, lend the team, leave; failures are explained to everybody."""
    import torch.distributed as dist

    try:
        dist.init_process_group(
            team.backend,
            store=dist.PrefixStore("group", team.store),
            rank=team.rank,
            world_size=team.world,
            timeout=timedelta(seconds=timeout_s),
        )
        yield team
        team.barrier()  # Gloo's end is abrupt: leave only when everybody has got what was sent
        with_time_limit(lambda: leave(team.store, team.place, timeout_s), timeout_s + 1.0)
        dist.destroy_process_group()
    except Exception as error:
        if not is_communication_error(error):
            farewell(team.store, team.hosts, team.rank, error)
            raise
        raise explained(team.store, team.hosts, team.rank, error, timeout_s) from error


def device_name(device: Any) -> str:
    """What people call it."""
    if device.type != "cuda":
        return str(device.type)
    import torch

    return str(torch.cuda.get_device_name(device))


def torch_or_advice() -> Any:
    """The module torch, or one line on how to get it."""
    os.environ.setdefault("TORCH_CPP_LOG_LEVEL", "ERROR")  # lost ranks are told of in one line
    try:
        import torch
    except ImportError:
        raise InputError.of("PyTorch is not installed: pip install torch") from None
    return torch


def _device(torch: Any, here: Place, backend: str | None) -> Any:
    if backend == "gloo" or not torch.cuda.is_available():
        if backend == "nccl":
            raise InputError.of("no GPU is visible: NCCL needs one; write --backend gloo")
        return torch.device("cpu")
    if here.local_rank >= torch.cuda.device_count():
        count = torch.cuda.device_count()
        raise InputError.of(f"{here.local_rank + 1} ranks on this host, but {count} GPUs")
    device = torch.device("cuda", here.local_rank)
    torch.cuda.set_device(device)
    return device


_SAME_S = 1.0
"""A launcher repeats the Ctrl-C that its processes also get from the terminal."""


@dataclass
class Stop:
    """Whether the user wants an end; `asked` is what this rank knows, `agreed` what all know."""

    asked: bool = False
    agreed: bool = False
    joined: bool = False
    """Until then there is nothing to keep, and a signal ends the process."""
    writing: bool = False
    """From here on nothing ends it."""
    number: int = signal.SIGINT
    """The signal that asked."""

    @property
    def code(self) -> int:
        """Exit code of a command that a signal has ended, as shells have it."""
        return 128 + self.number


@contextmanager
def stoppable() -> Iterator[Stop]:
    """Note SIGTERM and the first Ctrl-C, end the process at the second, even in a blocking call.

    SIGTERM does not end it: torchrun sends it to all when one rank is lost, and kills 30 s later.
    Python runs handlers of signals only between its own instructions; a thread that reads what the
    system writes for each signal also runs while a collective waits.
    """
    stop = Stop()
    if threading.current_thread() is not threading.main_thread():
        yield stop
        return
    reading, writing = os.pipe()
    os.set_blocking(writing, False)
    wakeup = signal.set_wakeup_fd(writing, warn_on_full_buffer=False)
    before = {number: signal.signal(number, _ignored) for number in (signal.SIGINT, signal.SIGTERM)}
    thread = threading.Thread(target=_listen, args=(reading, stop), daemon=True)
    thread.start()
    try:
        yield stop
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
        signal.set_wakeup_fd(wakeup)
        os.close(writing)
        thread.join(1.0)
        with suppress(OSError):
            os.close(reading)


def _ignored(number: int, frame: FrameType | None) -> None:
    """Python's own part of the signal: nothing, the thread does it all."""


def _listen(reading: int, stop: Stop) -> None:
    last = 0.0
    while numbers := os.read(reading, 1):
        again, last = time.monotonic() - last > _SAME_S, time.monotonic()
        if numbers[0] not in (signal.SIGINT, signal.SIGTERM) or stop.writing:
            continue
        twice = stop.asked and again and numbers[0] == signal.SIGINT
        if not stop.asked:
            stop.asked, stop.number = True, numbers[0]
        if twice or not stop.joined:
            os._exit(stop.code)


def agreed(team: "Team", stop: Stop) -> bool:
    """True if the user wants an end, the same on every rank: all of them must call this."""
    stop.agreed = stop.agreed or team.slowest([float(stop.asked)])[0] > 0
    return stop.agreed
