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
from functools import cached_property
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
    runs: list[tuple[int, float, float]]
    """Number, start and end of each call, in the order in which they end."""
    waits: list[Interval]

    @cached_property
    def intervals(self) -> list[Interval]:
        """Each call in time."""
        calls = self.rank.calls
        return [_interval(calls[index], start_s, end_s) for index, start_s, end_s in self.runs]


def program_time(program: Program, prices: Prices) -> ProgramTime:
    """When everything of `program` happens at these `prices`."""
    players = [_Player(number, rank, prices) for number, rank in enumerate(program.ranks)]
    _play(players)
    slowest = max(players, key=lambda player: player.now)
    ledger = Ledger(slowest.booked)
    add_others(ledger, prices, program.world_size)
    met = sum(wait.cause.is_exposed for wait in slowest.waits)
    ledger.add(Cause.STRAGGLER, met * prices.fit.ranks.meeting_s * (program.world_size > 1))
    return ProgramTime(ledger.total, ledger, slowest.rank, slowest.runs, slowest.waits)


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
class _Stream:
    """Calls that run one after the other, and the one that runs now."""

    name: str
    calls: list[int] = field(default_factory=list)
    at: int = 0
    """The next of them."""
    index: int = -1
    """The call that runs; -1 if none does."""
    left_s: float = 0.0
    """Of its time alone."""
    started_s: float = 0.0
    speed: float = 1.0

    @property
    def next_call(self) -> int | None:
        """The call that has not started; None if all have."""
        return self.calls[self.at] if self.at < len(self.calls) else None


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


@dataclass(frozen=True, slots=True)
class _Price:
    """What equal calls have in common."""

    seconds: float
    cause: Cause
    is_far: bool
    """It leaves the scale-up domain."""
    is_moving: bool
    """It sends, and computes nothing."""
    ring_start_s: float


class _Player:
    """One rank class in time. Everything here is done once for each call, of which there are many."""

    def __init__(self, number: int, rank: RankProgram, prices: Prices) -> None:
        self.number, self.rank, self.version = number, rank, 0
        self.now = 0.0
        self.booked: dict[Cause, float] = {}
        self.runs: list[tuple[int, float, float]] = []
        self.waits: list[Interval] = []
        self._prices = prices
        self._most_contention = float(prices.fit.network.contention)
        known: dict[tuple[int, StepPhase], _Price] = {}
        self._priced = [_priced(call, prices, known) for call in rank.calls]
        streams: dict[str, _Stream] = {}
        self._waiters: dict[int, list[int]] = {}
        """Calls that wait for the end of a call."""
        for index, call in enumerate(rank.calls):
            if call.what is not None:
                name = _queue(call)
                if name not in streams:
                    streams[name] = _Stream(name)
                streams[name].calls.append(index)
            for earlier in call.after:
                self._waiters.setdefault(earlier, []).append(index)
        self._computing = streams.setdefault(COMPUTE_STREAM, _Stream(COMPUTE_STREAM))
        self._streams = list(streams.values())
        self._awaited = [len(call.after) for call in rank.calls]
        """Calls that each of them still waits for."""
        self._ended = [False] * len(rank.calls)
        self._running: list[_Stream] = []
        self._posted: dict[int, _Stream] = {}
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
        left = any(stream.at < len(stream.calls) for stream in self._streams)
        return not left and not self._running and not self._posted

    def stuck_at(self) -> str:
        """The call for which the compute stream, or else any other, waits; or a message that nobody takes."""
        heads = (*(stream.next_call for stream in (self._computing, *self._streams)), *self._posted)
        call = self.rank.calls[next(head for head in heads if head is not None)]
        return f"{call.name} ({call.place.source or call.place.module or call.stream})"

    def start_what_can(self, post: _Post) -> list["_Player"]:
        """Start all calls that wait for nothing any more; other ranks that this sets going."""
        touched: list[_Player] = []
        posted = True
        while posted:
            posted = False
            if self._host_next < len(self._ended):
                self._issue()
            latest_s = self.now + _DONE
            for stream in self._streams:
                if stream.index >= 0 or stream.at == len(stream.calls):
                    continue
                index = stream.calls[stream.at]
                if index >= self._host_next or self._awaited[index] or self._issued_s[index] > latest_s:
                    continue
                stream.at += 1
                what = self.rank.calls[index].what
                if type(what) is Message and _peer(what, self.rank.rank) in post.ranks:
                    touched += self._send(post, index, stream, what)
                    posted = True  # the next one of the stream is not kept by it
                else:
                    self._start(stream, index)
        self._share()
        return touched

    def _start(self, stream: _Stream, index: int) -> None:
        stream.index, stream.left_s, stream.started_s = index, self._priced[index].seconds, self.now
        self._running.append(stream)

    def _send(self, post: _Post, index: int, stream: _Stream, message: Message) -> list["_Player"]:
        self._posted[index] = stream
        met = post.meet(self, index, message)
        if met is None:
            return []
        other, its = met
        other.advance(self.now)
        for player, one in ((self, index), (other, its)):
            seconds, now = player._priced[one].seconds, self.now
            theirs = player._posted.pop(one)
            theirs.index, theirs.left_s, theirs.started_s = one, seconds, now
            player._running.append(theirs)
        other._share()
        return [other]

    def _issue(self) -> None:
        """Let the host issue calls until it has to wait for the device."""
        calls, kernel_s = self.rank.calls, float(self._prices.host_kernel_s)
        while self._host_next < len(calls):
            index = self._host_next
            call = calls[index]
            if call.host_waits:
                if self._awaited[index]:
                    return
                self._host_s = max(self._host_s, self.now) + float(self._prices.host_wait_s)
            if call.what is None:
                self._end(index)
            else:
                self._host_s += kernel_s
            self._issued_s[index] = self._host_s
            self._host_next += 1

    def _end(self, index: int) -> None:
        self._ended[index] = True
        for later in self._waiters.get(index, ()):
            self._awaited[later] -= 1

    def _share(self) -> None:
        """Speeds of all that runs, until something starts or ends."""
        priced, running = self._priced, self._running
        moving = [stream for stream in running if priced[stream.index].is_moving]
        contention, speed = 0.0, 1.0
        self._rings = {}
        if moving:
            contention = self._most_contention
            for stream in moving:
                price = priced[stream.index]
                same = sum(priced[other.index].is_far == price.is_far for other in moving)
                stream.speed = 1.0 / same
                if price.ring_start_s > 0:  # steps of a ring are waited for
                    share = price.ring_start_s / max(price.seconds, 1e-30) / same
                    self._rings[price.cause] = self._rings.get(price.cause, 0.0) + share
            speed = 1.0 - contention - sum(self._rings.values())
            if speed < _SLOWEST:  # it stands still, but for moments in which it computes as ever
                speed, contention = _SLOWEST, _SLOWEST * contention / (1.0 - contention)
        self._contention = contention
        kernels = len(running) - len(moving)
        for stream in running:
            if not priced[stream.index].is_moving:
                stream.speed = speed / kernels
        self._waiting_for = None if self._computing.index >= 0 else self._blamed()

    def next_moment(self) -> float | None:
        """When something ends, or the host has issued what a free stream waits for."""
        now = self.now
        moments = [now + stream.left_s / stream.speed for stream in self._running]
        for stream in self._streams:
            if stream.index < 0 and stream.at < len(stream.calls):
                index = stream.calls[stream.at]
                if index < self._host_next and self._issued_s[index] > now:
                    moments.append(self._issued_s[index])
        return min(moments) if moments else None

    def advance(self, moment: float) -> None:
        """Let time pass until `moment`, book it, and end what has ended."""
        passed_s = moment - self.now
        if passed_s > 0:
            self._book(passed_s, moment)
        self.now = moment
        going = []
        for stream in self._running:
            stream.left_s -= passed_s * stream.speed
            if stream.left_s <= _DONE or moment + stream.left_s / stream.speed == moment:  # lost in rounding
                self._end(stream.index)
                self.runs.append((stream.index, stream.started_s, moment))
                stream.index = -1
            else:
                going.append(stream)
        self._running = going

    def _book(self, passed_s: float, moment: float) -> None:
        booked = self.booked
        if self._computing.index < 0:
            name, cause = self._waiting_for or ("others", Cause.BUBBLE)
            booked[cause] = booked.get(cause, 0.0) + passed_s
            self._draw_wait(name, cause, moment)
            return
        others_s = 0.0
        for stream in self._running:
            price = self._priced[stream.index]
            if not price.is_moving:
                worked_s = stream.speed * passed_s
                booked[price.cause] = booked.get(price.cause, 0.0) + worked_s
                others_s += worked_s
        slowed_s = self._contention * passed_s if self._rings else passed_s - others_s
        booked[Cause.CONTENTION] = booked.get(Cause.CONTENTION, 0.0) + slowed_s
        for cause, share in self._rings.items():
            held_up = share / sum(self._rings.values())
            held_up_s = (passed_s - others_s - slowed_s) * held_up
            booked[cause] = booked.get(cause, 0.0) + held_up_s

    def _blamed(self) -> tuple[str, Cause] | None:
        """What the compute stream waits for, and the line of the ledger for that."""
        head = self._computing.next_call
        if head is not None:
            return self._why(head, set())
        if self._running:
            return self._named(self._running[0].index)
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
        name = _queue(self.rank.calls[index])
        stream = next(one for one in self._streams if one.name == name)
        if stream.index >= 0:
            return self._named(stream.index)
        waiting = next((one for one, its in self._posted.items() if its is stream), None)
        if waiting is not None:
            return self._unmet(waiting)
        head = stream.next_call
        return self._why(index if head is None else head, seen)

    def _named(self, index: int) -> tuple[str, Cause]:
        return self.rank.calls[index].name, self._priced[index].cause

    def _unmet(self, index: int) -> tuple[str, Cause]:
        return self.rank.calls[index].name, Cause.BUBBLE

    def _draw_wait(self, name: str, cause: Cause, end_s: float) -> None:
        last = self.waits[-1] if self.waits else None
        if last is not None and last.end_s == self.now and (last.name, last.cause) == (name, cause):
            last.end_s = end_s
        else:
            head = self._computing.next_call
            phase = self.rank.calls[-1 if head is None else head].phase
            self.waits.append(Interval(name, cause, COMPUTE_STREAM, phase, self.now, end_s))


def _priced(call: Call, prices: Prices, known: dict[tuple[int, StepPhase], _Price]) -> _Price:
    what = call.what
    key = (id(what), call.phase)
    price = known.get(key)
    if price is None:
        price = _Price(0.0, Cause.OTHER_KERNELS, is_far=False, is_moving=False, ring_start_s=0.0)
        if what is not None:
            is_moving = isinstance(what, Collective | Message)
            ring_start_s = float(prices.ring_start_s(what)) if is_moving else 0.0
            is_far = bool(prices.over_nics(what))
            price = _Price(float(prices.seconds(what)), cause_of(call), is_far, is_moving, ring_start_s)
        known[key] = price
    return price


def _interval(call: Call, start_s: float, end_s: float) -> Interval:
    shown = (call.name, cause_of(call), _queue(call), call.phase, start_s, end_s)
    return Interval(*shown, call.what, call.place.module, call.micro_batch)


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
