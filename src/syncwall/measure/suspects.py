"""Who is slow among the ranks of a job, and how sure that is.

Holds `suspects`, `slow_against`, `Suspect`, `Samples` and the thresholds.

A rank is named if its links to *every* other host are slow beside the links of others of the same
sort (inside a host, or between hosts): a single slow pair is named as a pair. Rates on a shared
machine vary by 10 to 15% from one transfer to the next, so medians over repeats are compared, and
`sure` is the share of resamples of the repeats that would have come to the same verdict.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Final, Literal

import numpy as np
from numpy.typing import NDArray

from syncwall.describe.base import Description
from syncwall.outliers import stands_out

Direction = Literal["sending and receiving", "sending", "receiving"]
Where = Literal["inside the host", "between hosts"]
Array = NDArray[Any]

SLOW: Final = 0.75
"""A rank is slow if it reaches less than this share of what others reach, as a median."""
SLOW_EACH: Final = 0.85
"""... and to each other host less than this share."""
SLOW_PAIR: Final = 0.6
SURE: Final = 0.95
EXPECTED: Final = 0.8
"""Less than this share of the rate that was promised is slow."""
_RESAMPLES: Final = 1000


@dataclass(frozen=True)
class Samples:
    """Rates of one-way transfers, measured in turn and repeated."""

    sources: Array
    """By link, the rank that sends."""
    targets: Array
    rates: Array
    """Bytes/s by repeat and link."""

    def only(self, chosen: Array) -> "Samples":
        """The links where `chosen` is true."""
        return Samples(self.sources[chosen], self.targets[chosen], self.rates[:, chosen])


class SlowComponent(Description):
    """A rank, host or link that is slow."""

    host: str
    """The host, or "a – b" for a link from one to another."""
    ranks: tuple[int, ...]
    where: Where
    way: Direction
    ratio: float
    """Its rate over that of the others."""
    sure: float
    """Share of resamples with the same verdict."""
    slower: int
    """Comparisons of one transfer of this one with one of the others in which it was slower."""
    compared: int
    what: str
    """All of it as a sentence."""


def suspects(samples: Samples, hosts: Sequence[str], *, seed: int = 0) -> tuple[SlowComponent, ...]:
    """Every rank, host or pair that is slower than its peers; empty if all are healthy."""
    names = np.array([*hosts])
    inside = names[samples.sources] == names[samples.targets]
    found = _Sort(samples.only(~inside), names, "between hosts", seed).suspects()
    found += _Sort(samples.only(inside), names, "inside the host", seed).suspects()
    return tuple(sorted(found, key=lambda one: one.ratio))


def slow_against(samples: Samples, hosts: Sequence[str], expected: float) -> tuple[SlowComponent, ...]:
    """Every link between hosts that stays below `EXPECTED` of the rate that was promised."""
    found = []
    for link, ratio in enumerate(np.median(samples.rates, axis=0) / expected):
        source, target = int(samples.sources[link]), int(samples.targets[link])
        slow = stands_out(1.0 - ratio, 1.0, share=1 - EXPECTED)
        if not slow or hosts[source] == hosts[target]:
            continue
        below, count = int((samples.rates[:, link] < EXPECTED * expected).sum()), len(samples.rates)
        found.append(
            SlowComponent(
                host=f"{hosts[source]} – {hosts[target]}",
                ranks=(source, target),
                where="between hosts",
                way="sending",
                ratio=float(ratio),
                sure=below / count,
                slower=below,
                compared=count,
                what=f"the link from rank {source} to rank {target} ({hosts[source]} – "
                f"{hosts[target]}) reaches {ratio:.2f} of the expected rate; slow in {below} of "
                f"{count} transfers",
            )
        )
    return tuple(sorted(found, key=lambda one: one.ratio))


class _Sort:
    """Links of one sort, which can be compared with each other."""

    def __init__(self, samples: Samples, hosts: Array, where: Where, seed: int) -> None:
        self.samples, self.hosts, self.where = samples, hosts, where
        self.sources, self.targets = samples.sources, samples.targets
        repeats = len(samples.rates)
        self.every = np.arange(repeats)[None]
        self.draws = np.random.default_rng(seed).integers(repeats, size=(_RESAMPLES, repeats))
        several = len(set(hosts.tolist())) > 2 and where == "between hosts"
        self.group_of = hosts if several else np.arange(len(hosts))
        """What a rank must be slow to: each other host, or each other rank."""

    def suspects(self) -> list[SlowComponent]:
        """Hosts and ranks first, then pairs that those do not explain."""
        found: dict[int, tuple[Direction, float]] = {}
        for rank in sorted({*self.sources.tolist(), *self.targets.tolist()}):
            sending, receiving = self._slow(rank, "sending"), self._slow(rank, "receiving")
            if sending and receiving:
                found[rank] = "sending and receiving", min(sending, receiving)
            elif sending or receiving:
                found[rank] = "sending" if sending else "receiving", max(sending, receiving)
            elif both := self._slow(rank, "sending and receiving"):
                found[rank] = "sending and receiving", both
        return [*self._grouped(found), *self._pairs(set(found))]

    def _others(self, rank: int) -> Array:
        """Rates of the links without the rank's host, or if none is left, without the rank."""
        mine = self.hosts == self.hosts[rank]
        chosen = ~(mine[self.sources] | mine[self.targets])
        if not chosen.any():
            chosen = (self.sources != rank) & (self.targets != rank)
        return self.samples.rates[:, chosen]

    def _own(self, rank: int, way: Direction) -> list[Array]:
        """Rates of the rank's links to each of the groups that it must be slow to."""
        sent, received = self.sources == rank, self.targets == rank
        chosen = {"sending": sent, "receiving": received}.get(way, sent | received)
        partner = self.group_of[np.where(sent, self.targets, self.sources)]
        keys = dict.fromkeys(partner[chosen].tolist())
        return [self.samples.rates[:, chosen & (partner == key)] for key in keys]

    def _slow(self, rank: int, way: Direction) -> float:
        """How sure it is that the rank is slow to everybody; 0 if it is not sure enough."""
        own, others = self._own(rank, way), self._others(rank)
        if not own or not others.size or not _verdicts(own, others, self.every)[0]:
            return 0.0
        sure = self._sure(own, others)
        return sure if sure >= SURE else 0.0

    def _sure(self, own: list[Array], others: Array) -> float:
        return float(_verdicts(own, others, self.draws).mean())

    def _grouped(self, found: dict[int, tuple[Direction, float]]) -> Iterator[SlowComponent]:
        """Ranks of one host that are slow in the same way, together."""
        groups: dict[tuple[str, Direction], list[int]] = {}
        for rank, (way, _) in found.items():
            groups.setdefault((str(self.hosts[rank]), way), []).append(rank)
        for (host, way), ranks in groups.items():
            own = [part for rank in ranks for part in self._own(rank, way)]
            whole = len(ranks) == int((self.hosts == host).sum())
            who = f"host {host}" if whole else f"host {host}, rank {', '.join(map(str, ranks))}"
            sure = min(found[rank][1] for rank in ranks)
            suspect = SlowComponent(
                host=host,
                ranks=(*ranks,),
                where=self.where,
                way=way,
                sure=sure,
                **_compared(own, self._others(ranks[0])),
                what=who,
            )
            yield _worded(suspect)

    def _pairs(self, explained: set[int]) -> Iterator[SlowComponent]:
        """Single links that are slow though neither end is."""
        rates = self.samples.rates
        if rates.shape[1] < 2:
            return
        middle = np.median(rates, axis=0)
        usual = np.median(middle)
        slow = stands_out(usual - middle, usual, share=1 - SLOW_PAIR)
        for link in np.flatnonzero(slow).tolist():
            ends = int(self.sources[link]), int(self.targets[link])
            own, others = [rates[:, [link]]], np.delete(rates, link, axis=1)
            sure = self._sure(own, others)
            if explained & set(ends) or sure < SURE:
                continue
            host = f"{self.hosts[ends[0]]} – {self.hosts[ends[1]]}"
            suspect = SlowComponent(
                host=host,
                ranks=ends,
                where=self.where,
                way="sending",
                sure=sure,
                what=f"the link from rank {ends[0]} to {ends[1]} ({host})",
                **_compared(own, others),
            )
            yield _worded(suspect)


def _compared(own: list[Array], others: Array) -> dict[str, Any]:
    """The ratio of medians, and how many single transfers were slower than single others."""
    mine, theirs = np.concatenate(own, axis=1).ravel(), others.ravel()
    return {
        "ratio": float(np.median(mine) / np.median(theirs)),
        "slower": int(np.searchsorted(np.sort(mine), theirs, side="left").sum()),
        "compared": len(mine) * len(theirs),
    }


def _worded(one: SlowComponent) -> SlowComponent:
    """The suspect with a sentence instead of only a name."""
    sentence = (
        f"{one.what}: {one.way} {one.where} at {one.ratio:.2f} of the others' rate, slower in "
        f"{one.slower:,} of {one.compared:,} comparisons, {one.sure:.0%} sure"
    )
    return one.model_copy(update={"what": sentence})


def _verdicts(own: list[Array], others: Array, draws: Array) -> Array:
    """For each draw of repeats, true if all of `own` are slow beside `others`."""
    base = _middle(others, draws)
    each = np.stack([_middle(part, draws) for part in own])
    together = _middle(np.concatenate(own, axis=1), draws)
    slow_to_each = stands_out(base - each, base, share=1 - SLOW_EACH).all(axis=0)
    verdicts: Array = slow_to_each & stands_out(base - together, base, share=1 - SLOW)
    return verdicts


def _middle(rates: Array, draws: Array) -> Array:
    """By draw, the median over its repeats of the median over links."""
    middle: Array = np.median(np.median(rates, axis=1)[draws], axis=1)
    return middle
