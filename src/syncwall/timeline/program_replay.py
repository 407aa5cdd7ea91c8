"""A recorded program in time: streams, waits, a host that issues, shared links and devices.

Holds `ProgramTime`, `program_time`, `kernel_shares` and `cause_of`, the line of the ledger for a
call. Every rank
class is played event by event, all together: a kernel or collective starts when the host has issued
it, its stream is free and all it waits for has ended; a message starts when both sides are there.
Collectives over the same wires share them for as long as they overlap, kernels share the device,
and a kernel beside a collective loses what the analytic model takes from computation beside
communication.
"""

from collections import defaultdict, deque
from collections.abc import Callable
from dataclasses import dataclass, field
from heapq import heappop, heappush
from typing import Final

from syncwall.cause import Cause
from syncwall.cost.prices import Prices
from syncwall.timeline.ledger import Ledger
from syncwall.timeline.step import add_others
from syncwall.timeline.streams import Interval
from syncwall.work.block import StepPhase
from syncwall.work.operations import (
    Collective,
    Convolution,
    CoreAttention,
    Elementwise,
    Gemm,
    Message,
    Offload,
)
from syncwall.work.program import COMPUTE_STREAM, Call, Program, RankProgram

_SLOWEST = 0.05
"""Least share of its speed that a kernel keeps beside communication."""
_DONE = 1e-12


@dataclass(frozen=True)
class ProgramTime:
    """A recorded step as its slowest rank class sees it."""

    step_s: float
    ledger: Ledger
    """Seconds by cause; they add up to `step_s`."""
    rank: RankProgram
    intervals: list[Interval]
    waits: list[Interval]


def program_time(program: Program, prices: Prices) -> ProgramTime:
    """When everything of `program` happens at these `prices`."""
    players = [_Player(number, rank, prices) for number, rank in enumerate(program.ranks)]
    _play(players)
    slowest = max(players, key=lambda player: player.now)
    ledger = slowest.ledger
    add_others(ledger, prices, program.world_size)
    met = sum(wait.cause.is_exposed for wait in slowest.waits)
    ledger.add(Cause.STRAGGLER, met * prices.fit.ranks.meeting_s * (program.world_size > 1))
    return ProgramTime(ledger.total, ledger, slowest.rank, slowest.intervals, slowest.waits)


@dataclass(frozen=True, slots=True)
class Share:
    """Seconds of the calls that come from one place."""

    name: str
    seconds: float
    calls: int


def kernel_shares(rank: RankProgram, prices: Prices, name: Callable[[Call], str]) -> list[Share]:
    """Seconds of kernels, each alone, by the `name` of where they come from; the most first."""
    seconds: dict[str, list[float]] = defaultdict(list)
    for call in rank:
        if call.what is not None and not isinstance(call.what, Collective):
            seconds[name(call)].append(float(prices.seconds(call.what)))
    found = [Share(name or "elsewhere", sum(each), len(each)) for name, each in seconds.items()]
    return sorted(found, key=lambda share: -share.seconds)


def module_name(call: Call, depth: int) -> str:
    """`layers.3.attention.wq` as `layers.*.attention`, for a depth of two names."""
    kept: list[str] = []
    for part in call.place.module.split("."):
        if not part.isdigit() and sum(one != "*" for one in kept) == depth:
            break
        kept.append("*" if part.isdigit() else part)
    return ".".join(kept)


def _play(players: list["_Player"]) -> None:
    """Play all ranks to their ends; messages join two of them."""
    post = _Post({player.rank.rank for player in players})
    events: list[tuple[float, int, int]] = []

    def plan(player: _Player) -> None:
        player.version += 1
        moment = player.next_moment()
        if moment is not None:
            heappush(events, (moment, player.number, player.version))

    for player in players:
        for other in (player, *player.start_what_can(post)):
            plan(other)
    while events:
        moment, number, version = heappop(events)
        player = players[number]
        if version != player.version:
            continue
        player.advance(moment)
        for other in (player, *player.start_what_can(post)):
            plan(other)
    stuck = next((player for player in players if not player.has_ended), None)
    if stuck is not None:
        raise ValueError(f"rank {stuck.rank.rank} waits forever for {stuck.stuck_at()}")


@dataclass(slots=True)
class _Running:
    """A call that runs now."""

    index: int
    left_s: float
    """Of its time alone; of a message, the moment of its end."""
    started_s: float
    speed: float = 1.0


@dataclass(slots=True)
class _Post:
    """Messages of which one side is there."""

    ranks: set[int]
    """That are played; messages to others start without them."""
    there: dict[tuple[int, int, bool], deque[tuple["_Player", int]]] = field(default_factory=dict)

    def meet(self, player: "_Player", index: int, message: Message) -> tuple["_Player", int] | None:
        """The other side of a message, if it is there already; else this side waits for it."""
        sends = message.sender == player.rank.rank
        way = (message.sender, message.receiver)
        others = self.there.get((*way, not sends))
        if others:
            return others.popleft()
        self.there.setdefault((*way, sends), deque()).append((player, index))
        return None


class _Player:
    """One rank class in time."""

    def __init__(self, number: int, rank: RankProgram, prices: Prices) -> None:
        self.number, self.rank, self.version = number, rank, 0
        self.now = 0.0
        self.ledger = Ledger()
        self.intervals: list[Interval] = []
        self.waits: list[Interval] = []
        self._prices = prices
        self._seconds = [0.0 if c.what is None else float(prices.seconds(c.what)) for c in rank]
        self._far = [bool(c.what and prices.over_nics(c.what)) for c in rank]
        self._queues: dict[str, deque[int]] = {}
        for index, call in enumerate(rank.calls):
            if call.what is not None:
                self._queues.setdefault(_queue(call), deque()).append(index)
        self._queues.setdefault(COMPUTE_STREAM, deque())
        self._ended = [False] * len(rank.calls)
        self._running: dict[str, _Running] = {}
        self._posted: dict[int, str] = {}
        self._host_next, self._host_s = 0, 0.0
        self._issued_s: list[float] = [0.0] * len(rank.calls)
        self._waiting_for: tuple[str, Cause] | None = None
        self._contention = 0.0
        """Share of a second by which computation is slowed beside what moves now."""
        self._rings: dict[Cause, float] = {}
        """Share of a second that it stands still for the steps of rings, by cause."""

    @property
    def has_ended(self) -> bool:
        """True if nothing is left to do."""
        return not any(self._queues.values()) and not self._running and not self._posted

    def stuck_at(self) -> str:
        """The call for which the compute stream, or else any other, waits."""
        queue = self._queues[COMPUTE_STREAM] or next(q for q in self._queues.values() if q)
        call = self.rank.calls[queue[0]]
        return f"{call.name} ({call.place.source or call.place.module or call.stream})"

    def start_what_can(self, post: _Post) -> list["_Player"]:
        """Start all calls that wait for nothing any more; other ranks that this sets going."""
        touched: list[_Player] = []
        started = True
        while started:
            started = False
            self._issue()
            for stream, queue in self._queues.items():
                if queue and stream not in self._running and self._is_ready(queue[0]):
                    index = queue.popleft()
                    what = self.rank.calls[index].what
                    if isinstance(what, Message) and _peer(what, self.rank.rank) in post.ranks:
                        touched += self._send(post, index, stream, what)
                    else:
                        self._running[stream] = _Running(index, self._seconds[index], self.now)
                    started = True
        self._share()
        return touched

    def _send(self, post: _Post, index: int, stream: str, message: Message) -> list["_Player"]:
        self._posted[index] = stream
        met = post.meet(self, index, message)
        if met is None:
            return []
        other, its = met
        other.advance(self.now)
        for player, one in ((self, index), (other, its)):
            player._running[player._posted.pop(one)] = _Running(one, player._seconds[one], self.now)
        other._share()
        return [other]

    def _issue(self) -> None:
        """Let the host issue calls until it has to wait for the device."""
        calls = self.rank.calls
        while self._host_next < len(calls):
            call = calls[self._host_next]
            if call.host_waits:
                if not all(self._ended[earlier] for earlier in call.after):
                    return
                self._host_s = max(self._host_s, self.now) + float(self._prices.host_wait_s)
            if call.what is None:
                self._ended[self._host_next] = True
            else:
                self._host_s += float(self._prices.host_kernel_s)
            self._issued_s[self._host_next] = self._host_s
            self._host_next += 1

    def _is_ready(self, index: int) -> bool:
        if index >= self._host_next or self._issued_s[index] > self.now + _DONE:
            return False
        return all(self._ended[earlier] for earlier in self.rank.calls[index].after)

    def _share(self) -> None:
        """Speeds of all that runs, until something starts or ends."""
        moving = [one for one in self._running.values() if self._is_moving(one)]
        kernels = [one for one in self._running.values() if not self._is_moving(one)]
        contention = float(self._prices.fit.network.contention) if moving else 0.0
        self._rings = defaultdict(float)
        for one in moving:
            same = sum(self._far[other.index] == self._far[one.index] for other in moving)
            one.speed = 1.0 / same
            call = self.rank.calls[one.index]
            start_s = float(self._prices.ring_start_s(call.what)) if call.what is not None else 0.0
            if start_s > 0:  # steps of a ring are waited for
                share = start_s / max(self._seconds[one.index], 1e-30) / same
                self._rings[cause_of(call)] += share
        speed = 1.0 - contention - sum(self._rings.values())
        if speed < _SLOWEST:  # it stands still, but for moments in which it computes as ever
            speed, contention = _SLOWEST, _SLOWEST * contention / (1.0 - contention)
        self._contention = contention
        for one in kernels:
            one.speed = speed / len(kernels)
        self._waiting_for = None if COMPUTE_STREAM in self._running else self._blamed()

    def _is_moving(self, running: _Running) -> bool:
        return isinstance(self.rank.calls[running.index].what, Collective | Message)

    def next_moment(self) -> float | None:
        """When something ends, or the host has issued what a free stream waits for."""
        moments = [self.now + one.left_s / one.speed for one in self._running.values()]
        for stream, queue in self._queues.items():
            if queue and stream not in self._running and queue[0] < self._host_next:
                issued_s = self._issued_s[queue[0]]
                if issued_s > self.now:
                    moments.append(issued_s)
        return min(moments) if moments else None

    def advance(self, moment: float) -> None:
        """Let time pass until `moment`, book it, and end what has ended."""
        passed_s = moment - self.now
        if passed_s > 0:
            self._book(passed_s, moment)
        self.now = moment
        for stream, one in list(self._running.items()):
            one.left_s -= passed_s * one.speed
            if one.left_s <= _DONE or moment + one.left_s / one.speed == moment:  # lost in rounding
                self._ended[one.index] = True
                del self._running[stream]
                self._draw(one, stream)

    def _book(self, passed_s: float, moment: float) -> None:
        computing = self._running.get(COMPUTE_STREAM)
        if computing is None:
            name, cause = self._waiting_for or ("others", Cause.BUBBLE)
            self.ledger.add(cause, passed_s)
            self._draw_wait(name, cause, moment)
            return
        others_s = 0.0
        for one in self._running.values():
            if not self._is_moving(one):
                self.ledger.add(cause_of(self.rank.calls[one.index]), one.speed * passed_s)
                others_s += one.speed * passed_s
        slowed_s = self._contention * passed_s if self._rings else passed_s - others_s
        self.ledger.add(Cause.CONTENTION, slowed_s)
        for cause, share in self._rings.items():
            held_up = share / sum(self._rings.values())
            self.ledger.add(cause, (passed_s - others_s - slowed_s) * held_up)

    def _blamed(self) -> tuple[str, Cause] | None:
        """What the compute stream waits for, and the line of the ledger for that."""
        queue = self._queues[COMPUTE_STREAM]
        if queue:
            return self._why(queue[0], set())
        running = next(iter(self._running.values()), None)
        if running is not None:
            return self._named(running.index)
        return next((self._unmet(index) for index in self._posted), None)

    def _why(self, index: int, seen: set[int]) -> tuple[str, Cause]:
        """Why a call has not started yet."""
        if index in self._posted:
            return self._unmet(index)
        if index >= self._host_next:  # the host itself may wait for something
            awaited = self.rank.calls[self._host_next].after
            late = [one for one in awaited if not self._ended[one] and one not in seen]
            return self._why_not_ended(late[0], seen | {index}) if late else _HOST
        for earlier in self.rank.calls[index].after:
            if not self._ended[earlier] and earlier not in seen:
                return self._why_not_ended(earlier, seen | {index})
        return _HOST

    def _why_not_ended(self, index: int, seen: set[int]) -> tuple[str, Cause]:
        stream = _queue(self.rank.calls[index])
        running = self._running.get(stream)
        if running is not None:
            return self._named(running.index)
        waiting = next((one for one, its in self._posted.items() if its == stream), None)
        if waiting is not None:
            return self._unmet(waiting)
        return self._why(self._queues[stream][0] if self._queues.get(stream) else index, seen)

    def _named(self, index: int) -> tuple[str, Cause]:
        call = self.rank.calls[index]
        return call.name, cause_of(call)

    def _unmet(self, index: int) -> tuple[str, Cause]:
        return self.rank.calls[index].name, Cause.BUBBLE

    def _draw(self, one: _Running, stream: str) -> None:
        call = self.rank.calls[one.index]
        shown = (call.name, cause_of(call), stream, call.phase, one.started_s, self.now)
        self.intervals.append(Interval(*shown, call.what, call.place.module, call.micro_batch))

    def _draw_wait(self, name: str, cause: Cause, end_s: float) -> None:
        last = self.waits[-1] if self.waits else None
        if last is not None and last.end_s == self.now and (last.name, last.cause) == (name, cause):
            last.end_s = end_s
        else:
            queue = self._queues[COMPUTE_STREAM]
            phase = self.rank.calls[queue[0] if queue else -1].phase
            self.waits.append(Interval(name, cause, COMPUTE_STREAM, phase, self.now, end_s))


_HOST = ("the host", Cause.HOST)


def _queue(call: Call) -> str:
    """The queue of a call: messages of each pair of ranks and direction have one of their own."""
    if isinstance(call.what, Message):
        return f"{call.stream} {call.what.sender} to {call.what.receiver}"
    return call.stream


def _peer(message: Message, rank: int) -> int:
    return message.receiver if message.sender == rank else message.sender


_KERNELS: Final[dict[type, Cause]] = {
    Gemm: Cause.GEMM,
    CoreAttention: Cause.ATTENTION,
    Convolution: Cause.CONVOLUTION,
    Elementwise: Cause.ELEMENTWISE,
    Offload: Cause.EXPOSED_OFFLOAD,
    Message: Cause.EXPOSED_PP,
}
_BY_AXIS: Final = {
    "tp": Cause.EXPOSED_TP,
    "cp": Cause.EXPOSED_CP,
    "ep": Cause.EXPOSED_EP,
    "dp": Cause.EXPOSED_DP,
    "shard": Cause.EXPOSED_DP,
    "replica": Cause.EXPOSED_DP,
    "expert-shard": Cause.EXPOSED_DP,
    "expert-replica": Cause.EXPOSED_DP,
    "pp": Cause.EXPOSED_PP,
}


def cause_of(call: Call) -> Cause:
    """The line for the seconds in which `call` runs, or computation waits for it."""
    what = call.what
    if isinstance(what, Collective):
        return _exposed(what)
    if call.phase is StepPhase.FINISH and isinstance(what, Elementwise):
        return Cause.OPTIMIZER
    if call.phase is StepPhase.RECOMPUTE:
        return Cause.RECOMPUTE
    if isinstance(what, Elementwise) and what.kind.startswith("copy"):
        return Cause.COPY
    return _KERNELS.get(type(what), Cause.OTHER_KERNELS)


def _exposed(collective: Collective) -> Cause:
    if collective.axis in ("shard", "expert-shard") and collective.kind == "all-gather":
        return Cause.EXPOSED_GATHER
    return _BY_AXIS.get(collective.axis) or Cause.exposed(collective.kind)
