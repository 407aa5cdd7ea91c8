"""Rates between the ranks of a job, one way at a time, every pair in turn.

Holds `measure_links`, `LinkData` and `LinkRow`. Who is slow is decided in `suspects`. `rounds`:
which ranks talk to each other when. In a round no rank takes part twice, and all pairs are alike:
either all inside a host or all between hosts, with as many at once on every host, so that their
rates can be compared.
"""

import random
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from syncwall.describe.base import Description
from syncwall.measure.suspects import Samples
from syncwall.measure.team import Stop, Team

Pair = tuple[int, int]
Round = tuple[Pair, ...]

EVERY_PAIR_UP_TO = 64
"""Ranks; above, a tournament of `MOST_ROUNDS` rounds between hosts is drawn by lot."""
MOST_ROUNDS = 63


def rounds(hosts: Sequence[str], *, seed: int = 0) -> tuple[Round, ...]:
    """The rounds for ranks on `hosts` (by rank): every pair once, or a tournament of pairs."""
    groups: dict[str, list[int]] = {}
    for rank, host in enumerate(hosts):
        groups.setdefault(host, []).append(rank)
    within = [matched for matched in _within(list(groups.values())) if matched]
    between = list(_between(list(groups.values())))
    if len(hosts) > EVERY_PAIR_UP_TO and len(between) > MOST_ROUNDS:
        drawn = random.Random(seed)  # noqa: S311 - the same lot on every rank, nothing secret
        between = drawn.sample(between, MOST_ROUNDS)
    return (*within, *between)


def circle(count: int) -> Iterator[Round]:
    """Everybody against everybody, each round all at once (the circle method).

    With an odd count one sits out each round.
    """
    seats = [*range(count), *([-1] if count % 2 else [])]
    half = len(seats) // 2
    for _ in range(len(seats) - 1):
        facing = zip(seats[:half], reversed(seats[half:]), strict=True)
        yield tuple((min(pair), max(pair)) for pair in facing if -1 not in pair)
        seats = [seats[0], seats[-1], *seats[1:-1]]


def _within(groups: list[list[int]]) -> Iterator[Round]:
    """Rounds inside hosts, all hosts at the same time."""
    games = [list(circle(len(group))) if len(group) > 1 else [] for group in groups]
    for number in range(max(map(len, games), default=0)):
        yield tuple(
            (group[a], group[b])
            for group, game in zip(groups, games, strict=True)
            if number < len(game)
            for a, b in game[number]
        )


def _between(groups: list[list[int]]) -> Iterator[Round]:
    """Rounds between hosts: when two hosts meet, all of the smaller one's ranks take part."""
    for meeting in circle(len(groups)):
        turns = max(max(len(groups[a]), len(groups[b])) for a, b in meeting) if meeting else 0
        for turn in range(turns):
            yield tuple(pair for a, b in meeting for pair in _turn(groups[a], groups[b], turn))


def _turn(one: list[int], other: list[int], turn: int) -> Iterator[Pair]:
    """The pairs of two hosts in one turn: over all turns each pair comes up once."""
    few, many = sorted((one, other), key=len)
    if turn < len(many):
        for place, rank in enumerate(few):
            against = many[(place + turn) % len(many)]
            yield min(rank, against), max(rank, against)


REPEATS = 9
_PROBE_BYTES = 2**20
_AIM_S = 0.1
"""How long a transfer over a usual link should take ..."""
_MOST_S = 0.4
"""... and over the slowest at most."""
_LEAST_BYTES = 256 * 2**10
_MOST_BYTES = {"cpu": 32 * 2**20, "cuda": 256 * 2**20}
_PINGS = 10

RankPair = tuple[int, int]
"""Source and target."""


class LinkRow(Description):
    """One direction between two ranks."""

    source: int
    target: int
    rate_bytes_per_s: float
    """Median over the repeats."""
    p10: float
    p90: float
    latency_s: float
    """Half of the time of a small message there and back; the median."""


@dataclass
class LinkData:
    """What was measured so far, the same on every rank."""

    size_bytes: int = 0
    rates: dict[RankPair, list[float]] = field(default_factory=dict)
    latencies_s: dict[RankPair, list[float]] = field(default_factory=dict)

    @property
    def repeats(self) -> int:
        """Complete repeats."""
        return min(map(len, self.rates.values()), default=0)

    @property
    def samples(self) -> Samples:
        """The rates as arrays."""
        links = sorted(self.rates)
        ends = np.array(links, dtype=int).reshape(-1, 2)
        rates = np.array([self.rates[link][: self.repeats] for link in links]).T
        return Samples(ends[:, 0], ends[:, 1], rates.reshape(self.repeats, len(links)))

    @property
    def rows(self) -> list[LinkRow]:
        """A row for each link."""
        return [self._row(link) for link in sorted(self.rates)]

    def _row(self, link: RankPair) -> LinkRow:
        p10, median, p90 = np.percentile(self.rates[link], (10, 50, 90))
        latency_s = float(np.median(self.latencies_s[link]))
        return LinkRow(
            source=link[0],
            target=link[1],
            rate_bytes_per_s=float(median),
            p10=float(p10),
            p90=float(p90),
            latency_s=latency_s,
        )


def measure_links(
    team: Team,
    into: LinkData,
    *,
    repeats: int = REPEATS,
    size_bytes: int | None = None,
    stop: Stop | None = None,
    progress: Callable[[float], None] = lambda share: None,
) -> None:
    """Measure every pair `repeats` times, the whole schedule each time, and note it in `into`.

    A moment of noise so hits one repeat of some pairs, not all repeats of one pair.
    """
    stop = stop or Stop()
    plan = rounds(team.hosts)
    probes = _repeat(team, plan, _PROBE_BYTES)
    into.size_bytes = size_bytes or _size(probes, team)
    for number in range(1, repeats + 1):
        if team.slowest([float(stop.asked)])[0]:
            stop.agreed = True
            return
        progress(number / (repeats + 1))
        for link, (rate, latency_s) in _repeat(team, plan, into.size_bytes).items():
            into.rates.setdefault(link, []).append(rate)
            into.latencies_s.setdefault(link, []).append(latency_s)
    progress(1.0)


def _repeat(team: Team, plan: Sequence[Round], size_bytes: int) -> dict[RankPair, tuple[float, float]]:
    """The schedule once: rate and latency by link, from all ranks."""
    import torch

    count = max(size_bytes, 8)
    sent, received = (torch.empty(count, dtype=torch.uint8, device=team.device).fill_(1) for _ in range(2))
    own: dict[RankPair, tuple[float, float]] = {}
    for pairs in plan:
        team.barrier()
        for one, other in pairs:
            if team.rank in (one, other):
                for source, target in ((one, other), (other, one)):
                    found = _Transfer(team, sent, received, source, target).measured()
                    if team.rank == source:
                        own[source, target] = found
    return {link: found for part in team.gathered(own) for link, found in part.items()}


@dataclass(frozen=True)
class _Transfer:
    """One transfer from `source` to `target`, as one of the two sees it."""

    team: Team
    sent: Any
    received: Any
    source: int
    target: int

    def measured(self) -> tuple[float, float]:
        """Bytes/s and latency, right on the source only."""
        pings = [self._there_and_back(8) for _ in range(_PINGS)]
        latency_s = float(np.median(pings)) / 2.0
        seconds = self._there_and_back(len(self.sent))
        return len(self.sent) / max(seconds - latency_s, 1e-9), latency_s

    def _there_and_back(self, size_bytes: int) -> float:
        """Seconds until the source knows that all has arrived."""
        import torch.distributed as dist

        start = time.perf_counter()
        if self.team.rank == self.source:
            dist.send(self.sent[:size_bytes], self.target)
            dist.recv(self.received[:8], self.target)
        else:
            dist.recv(self.received[:size_bytes], self.source)
            self.team.synchronize()
            dist.send(self.sent[:8], self.source)
        self.team.synchronize()
        return time.perf_counter() - start


def _size(probes: dict[RankPair, tuple[float, float]], team: Team) -> int:
    """A power of two that takes about `_AIM_S` over a usual link."""
    rates = [rate for rate, _ in probes.values()]
    wanted = min(float(np.median(rates)) * _AIM_S, min(rates) * _MOST_S)
    bounded = min(max(wanted, _LEAST_BYTES), _MOST_BYTES[team.device.type])
    return int(2 ** np.floor(np.log2(bounded)))
