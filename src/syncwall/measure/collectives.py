"""Times of collectives on the ranks of a job, over sizes.

Holds `measure_collectives`, `CollectiveRow`, `KINDS` and `sizes_between`. Sizes, algbw and busbw
are those of nccl-tests. `call_of` (one kind at one size, ready to be run), `CollectiveCall` and
`Buffers`: the torch calls behind each kind of collective.
"""

import re
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Final, Literal, get_args

from syncwall.cost.nccl import bus_factor
from syncwall.describe.base import Description
from syncwall.measure.kernel_times import Times
from syncwall.measure.result import free_memory_bytes
from syncwall.measure.team import Stop, Team

_COPIES = 4
"""Vectors of one size alive at once: what is sent, what is received, and the backend's own."""


@dataclass(frozen=True)
class CollectiveCall:
    """One call of torch.distributed."""

    run: Callable[[], Any]
    bytes: int
    """What is really moved, in the convention of nccl-tests: whole elements, as many a rank."""
    dtype: str


@dataclass(frozen=True)
class Buffers:
    """Memory for every size, taken once."""

    first: Any
    second: Any
    dtype: str

    @classmethod
    def of(cls, team: Team, most_bytes: int, dtype: str) -> "Buffers":
        """Two vectors that hold `most_bytes` each, or an element a rank."""
        import torch

        kind = getattr(torch, dtype)
        count = max(most_bytes // kind.itemsize, team.world)
        one, other = (torch.empty(count, dtype=kind, device=team.device) for _ in range(2))
        return cls(one.fill_(0), other.fill_(0), dtype)  # filled: every page is really there


def most_bytes(team: Team) -> int:
    """The largest size for which every rank has memory, the same on every rank."""
    if team.device.type == "cuda":
        import torch

        free = int(torch.cuda.mem_get_info(team.device)[0])
    else:
        free = free_memory_bytes() // Counter(team.hosts)[team.hosts[team.rank]]
    return int(-team.slowest([-float(free)])[0]) // 2 // _COPIES


def call_of(kind: str, team: Team, buffers: Buffers, size_bytes: int) -> CollectiveCall:
    """The call for `kind` at about `size_bytes`."""
    import torch.distributed as dist

    itemsize = buffers.first.element_size()
    part = max(size_bytes // itemsize // team.world, 1)
    count = part * team.world if kind in _BY_RANK else max(size_bytes // itemsize, 1)
    whole, other = buffers.first[:count], buffers.second[:count]
    share = buffers.second[:part]
    gather = getattr(dist, "all_gather_single", None) or dist.all_gather_into_tensor
    scatter = getattr(dist, "reduce_scatter_single", None) or dist.reduce_scatter_tensor
    runs: dict[str, Callable[[], Any]] = {
        "all-reduce": lambda: dist.all_reduce(whole),
        "all-gather": lambda: gather(whole, share),
        "reduce-scatter": lambda: scatter(share, whole),
        "all-to-all": lambda: dist.all_to_all_single(other, whole),
        "broadcast": lambda: dist.broadcast(whole, 0),
        "send-recv": lambda: _shifted(dist, team, whole, other),
    }
    return CollectiveCall(runs[kind], count * itemsize, buffers.dtype)


_BY_RANK = ("all-gather", "reduce-scatter", "all-to-all")


def _shifted(dist: Any, team: Team, sent: Any, received: Any) -> None:
    """Send to the next rank and receive from the one before, at the same time."""
    following, before = (team.rank + 1) % team.world, (team.rank - 1) % team.world
    both = [dist.P2POp(dist.isend, sent, following), dist.P2POp(dist.irecv, received, before)]
    for work in dist.batch_isend_irecv(both):
        work.wait()


BenchmarkKind = Literal["all-reduce", "all-gather", "reduce-scatter", "all-to-all", "broadcast", "send-recv"]
KINDS: Final[tuple[BenchmarkKind, ...]] = get_args(BenchmarkKind)
LEAST_TRIALS, MOST_TRIALS = 5, 100
_WARM_UP = 3
_CHUNK_S = 2.0
"""How much is timed between two looks at whether the user wants an end."""
_UNSUPPORTED = re.compile(r"not (yet )?(support|implement)|unsupported", re.IGNORECASE)


class CollectiveRow(Description):
    """One collective at one size."""

    kind: BenchmarkKind
    bytes: int
    """Of the whole vector: gathered by all-gather, before reduce-scatter and all-to-all."""
    ranks: int
    hosts: int
    """Number of different hosts."""
    dtype: str = "float32"
    times: Times

    @property
    def algbw_bytes_per_s(self) -> float:
        """Bytes over the median time."""
        return self.bytes / self.times.median_s if self.times.median_s else 0.0

    @property
    def busbw_bytes_per_s(self) -> float:
        """What passes each link, over the median time."""
        if self.kind == "send-recv":
            return self.algbw_bytes_per_s
        return self.algbw_bytes_per_s * float(bus_factor(self.kind, self.ranks))


@dataclass(frozen=True)
class Effort:
    """How much time goes into one point."""

    seconds: float = 1.0
    """Time for the trials of one point, unless `trials` says how many."""
    trials: int | None = None
    longest_s: float = 7.5
    """Sizes of which one call would take longer are left out."""

    def trials_for(self, call_s: float) -> int:
        """How many trials of a call that takes `call_s`."""
        if self.trials is not None:
            return self.trials
        wanted = int(self.seconds / call_s) if call_s > 0 else MOST_TRIALS
        return max(LEAST_TRIALS, min(MOST_TRIALS, wanted))


class SkippedKind(Description):
    """A kind, or the rest of its sizes, that was not measured, and why."""

    kind: BenchmarkKind
    reason: str


def sizes_between(least: float, most: float, factor: int = 4) -> tuple[int, ...]:
    """`least`, then `factor` times as much, up to `most`, which comes last if it is far off."""
    sizes = []
    size = max(1, int(least))
    while size <= most:
        sizes.append(size)
        size *= factor
    if sizes and most >= 2 * sizes[-1]:
        sizes.append(int(most) // sizes[0] * sizes[0])  # whole elements, as all sizes before
    return tuple(sizes)


def measure_collectives(  # noqa: PLR0913 - what, over which sizes, how exactly, until when
    team: Team,
    kinds: Sequence[BenchmarkKind],
    sizes: Sequence[int],
    *,
    dtype: str = "float32",
    effort: Effort = Effort(),
    stop: Stop | None = None,
    progress: Callable[[float], None] = lambda share: None,
) -> Iterator[CollectiveRow | SkippedKind]:
    """Rows as they are measured, the same on every rank; it ends when all agree on `stop`."""
    stop = stop or Stop()
    buffers = Buffers.of(team, max(sizes), dtype)
    for number, kind in enumerate(kinds):
        done: tuple[int, ...] = ()
        for index, size in enumerate(sizes):
            call = call_of(kind, team, buffers, size)
            if call.bytes in done:  # sizes below one element a rank
                continue
            found = _point(team, kind, call, effort, stop)
            if found is not None:
                yield found
            if stop.agreed:
                return
            progress((number + (index + 1) / len(sizes)) / len(kinds))
            if isinstance(found, SkippedKind):
                break
            done = (call.bytes,)
            reason = _too_long(found, sizes[index + 1 : index + 2], effort)
            if reason:
                yield SkippedKind(kind=kind, reason=reason)
                break


def _point(
    team: Team, kind: BenchmarkKind, call: CollectiveCall, effort: Effort, stop: Stop
) -> CollectiveRow | SkippedKind | None:
    """One kind at one size; None if all agreed to stop before the first trial."""
    try:
        call_s = _warmed_up(team, call, stop)
    except (RuntimeError, NotImplementedError) as error:
        if not _UNSUPPORTED.search(str(error)):
            raise
        return SkippedKind(kind=kind, reason=f"{team.backend} has no {kind} for {call.dtype}")
    seconds: list[float] = []
    trials = effort.trials_for(call_s)
    while len(seconds) < trials and not stop.agreed:
        count = min(trials - len(seconds), max(1, int(_CHUNK_S / max(call_s, 1e-9))))
        seconds += _slowest(team, timed(team, call.run, count, _calls_a_trial(team, call_s)), stop)
    if not seconds:
        return None
    hosts = len(set(team.hosts))
    times = Times.of(seconds)
    return CollectiveRow(
        kind=kind, bytes=call.bytes, ranks=team.world, hosts=hosts, dtype=call.dtype, times=times
    )


def timed(team: Team, run: Callable[[], Any], trials: int, calls: int = 1) -> list[float]:
    """Seconds of each trial on this rank: `calls` calls each, nothing between two trials."""
    seconds = []
    if team.device.type == "cpu":
        for _ in range(trials):
            start = time.perf_counter()
            run()
            seconds.append(time.perf_counter() - start)
        return seconds
    team.synchronize()
    for _ in range(trials):
        start = time.perf_counter()
        for _ in range(calls):
            run()
        team.synchronize()
        seconds.append((time.perf_counter() - start) / calls)
    return seconds


def _warmed_up(team: Team, call: CollectiveCall, stop: Stop) -> float:
    """Seconds of a call after the first: those connect, and touch memory."""
    first_s = _slowest(team, timed(team, call.run, 1), stop)[0]
    if first_s > _CHUNK_S or stop.agreed:
        return first_s
    return min(_slowest(team, timed(team, call.run, _WARM_UP), stop))


def _slowest(team: Team, seconds: list[float], stop: Stop) -> list[float]:
    """The slowest rank's times; with them all learn whether anybody wants an end."""
    *times, asked = team.slowest([*seconds, float(stop.asked)])
    stop.agreed = asked > 0
    return times


def _calls_a_trial(team: Team, call_s: float) -> int:
    """On a GPU, enough calls that the wait for the device is small beside them."""
    if team.device.type == "cpu":
        return 1
    return max(1, min(20, int(2e-3 / max(call_s, 1e-9))))


def _too_long(row: CollectiveRow | None, following: Sequence[int], effort: Effort) -> str:
    """Why the next size is not measured, or nothing."""
    if row is None or not following:
        return ""
    expected_s = row.times.median_s * following[0] / max(row.bytes, 1)
    if expected_s <= effort.longest_s:
        return ""
    return f"from {following[0]:,} B on one call would take about {expected_s:.0f} s"
