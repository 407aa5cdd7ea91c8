"""Several ranks together: is one of them slow, or what they share, and who waits for whom?

A collective takes as long as on the rank where it is shortest; what it takes longer elsewhere is
waiting. The rank that arrives last is waited for. A cause is named only if it explains most of the
waiting.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np

from syncwall.explain.traces.activity import merged
from syncwall.explain.traces.matching import Clocks, MatchedCollectives, aligned, matched
from syncwall.explain.traces.rank import KINDS, RankSummary
from syncwall.outliers import stands_out
from syncwall.problems import InputError
from syncwall.public import published

_ALL_MEET = ("all-reduce", "all-gather", "reduce-scatter", "all-to-all", "barrier")
"""Collectives that nobody leaves before all have come."""
_APART = 0.5
"""Without a group's name, and of sends: ends that lie further apart than this share of the length
mean that the ranks did not meet."""


@dataclass(frozen=True)
class Skew:
    """Waiting of N ranks in S steps."""

    wait_s: Any
    """(S, N): exposed time in collectives that only waited for others."""
    transfer_s: Any
    """(S, N): exposed time in collectives that was not waiting."""
    blamed_s: Any
    """(S, N): waiting, mean of all ranks, at collectives to which this rank came last."""
    lateness_s: Any
    """(N,): how much later than the median rank it starts a collective, on average."""
    last_share: Any
    """(N,): share of its collectives to which it came last."""
    blocks: tuple[MatchedCollectives, ...]
    """The collectives that were counted."""

    @property
    def blame(self) -> Any:
        """(N,): share of all waiting that was for this rank."""
        by_rank = self.blamed_s.sum(axis=0)
        return by_rank / max(float(by_rank.sum()), 1e-12)


def skew(blocks: Sequence[MatchedCollectives], clocks: Clocks, steps: Any, ranks: int) -> Skew:
    """Waiting in the steps numbered `steps`; collectives outside them are left out."""
    shape = (len(steps), ranks)
    wait, transfer, blamed = np.zeros(shape), np.zeros(shape), np.zeros(shape)
    late, last, taken = np.zeros(ranks), np.zeros(ranks), np.zeros(ranks)
    counted = tuple(one for one in blocks if (one.group and not one.sends) or _meet(one, clocks))
    for block in counted:
        row = np.searchsorted(steps, block.step)
        use = (row < len(steps)) & np.isin(block.step, steps)
        row = row[use]
        start = clocks.start_s(block)[use]
        longer = _above_least(block.duration_s[use])
        exposed = np.nan_to_num(block.exposed_s[use])
        waited = np.minimum(longer, _above_least(block.exposed_s[use]))
        place = (row[:, None], block.ranks[None, :])
        np.add.at(wait, place, waited)
        np.add.at(transfer, place, exposed - waited)
        kinds = [kind for kind, taken_in in zip(block.kinds, use, strict=True) if taken_in]
        own = start - _held_up(kinds, row, waited)
        comes_last = block.ranks[np.nanargmax(own, axis=1)]
        np.add.at(blamed, (row, comes_last), waited.sum(axis=1) / ranks)
        ahead = start - np.nanmedian(start, axis=1, keepdims=True)
        late[block.ranks] += np.nansum(ahead, axis=0)
        taken[block.ranks] += np.isfinite(start).sum(axis=0)
        np.add.at(last, comes_last, 1)
    each = np.maximum(taken, 1)
    return Skew(wait, transfer, blamed, late / each, last / each, counted)


def _held_up(kinds: Sequence[str], step: Any, waited_s: Any) -> Any:
    """(K, R): how much later a rank comes because it waited itself, since all last met.

    The root of a broadcast may wait for one of the others and then come late to the next.
    """
    held, now = np.zeros_like(waited_s), np.zeros(waited_s.shape[1])
    for number, kind in enumerate(kinds):
        if number and step[number] != step[number - 1]:
            now = np.zeros_like(now)
        held[number] = now
        now = np.zeros_like(now) if kind in _ALL_MEET else now + waited_s[number]
    return held


def _above_least(seconds: Any) -> Any:
    """(K, R): what each rank has more than the one with least; 0 where a rank has none."""
    return np.nan_to_num(seconds - np.nanmin(seconds, axis=1, keepdims=True))


def _meet(block: MatchedCollectives, clocks: Clocks) -> bool:
    """True if what may be one collective does end together on all ranks."""
    end = clocks.end_s(block)
    apart = np.nanmax(end, axis=1) - np.nanmin(end, axis=1)
    longest = np.nanmax(block.duration_s, axis=1)
    return bool(np.median(apart) <= max(_APART * float(np.median(longest)), 1e-3))


EXPLAINS = 0.8
"""Share of the waiting that a named cause explains at least."""
ALWAYS = 0.6
"""Share of the waiting for which ranks are last that are called late."""
STEADY = 0.75
"""Share of the steps in which a cause must be there: what comes and goes is noise."""
EVERYTHING = "compute and host"
"""Kernels and the host between them take longer together: the machine is slow."""
_WHOLE = ("compute", "host", "sync")
_TOGETHER = 0.8
"""The same for a host or group: half of all ranks are last half of the time by chance."""
_OFTEN = 0.6
"""And the share of the steps in which they must hold the others up."""


@dataclass(frozen=True)
class LateRanks:
    """Ranks that the others wait for, by index of the summary."""

    ranks: tuple[int, ...]
    host: str | None
    """The host, if it is all ranks of one that are late."""
    group: str | None
    """The process group, if it is all its ranks."""
    blame: float
    """Share of all waiting that was for them."""


@dataclass(frozen=True)
class Reason:
    """What explains the waiting for late ranks, on the mean step."""

    kind: str
    """One of `KINDS`, or `EVERYTHING`."""
    excess_s: float
    """The late ranks did this much more of it than the others, in a step."""
    waiting_s: float
    """The others waited this long, in a step."""
    lost_s: float
    """What the late ranks do more than the others of all kinds, or the waiting, if that is more."""
    explained: float
    """Share of the lost time that this explains, at most 1."""
    work: float
    """Kernels or operators of the late ranks over those of the others."""
    steady: float
    """Share of the steps in which at least half of the excess was there."""


def late_ranks(found: Skew, summaries: Sequence[RankSummary]) -> LateRanks | None:
    """The rank, host or group that is last for most of the waiting; None if that changes."""
    count = len(summaries)
    if count < 2 or not found.blamed_s.any():
        return None
    candidates = [LateRanks((index,), None, None, float(found.blame[index])) for index in range(count)]
    sets: dict[tuple[int, ...], LateRanks] = {}
    hosts = dict.fromkeys(one.host for one in summaries if one.host)
    for host in hosts:
        own = tuple(i for i, one in enumerate(summaries) if one.host == host)
        sets.setdefault(own, LateRanks(own, host, None, float(found.blame[list(own)].sum())))
    for block in found.blocks:
        own = tuple(int(rank) for rank in block.ranks)
        sets.setdefault(own, LateRanks(own, None, block.group, float(found.blame[list(own)].sum())))
    together = [one for own, one in sets.items() if 1 < len(own) <= count // 2]
    for group, least in ((candidates, ALWAYS), (together, _TOGETHER)):
        best = max(group, key=lambda one: one.blame, default=None)
        if best and best.blame >= least and _often(found, best.ranks) >= _OFTEN:
            return best
    return None


def _often(found: Skew, ranks: tuple[int, ...]) -> float:
    """Share of the steps in which most of the waiting was for `ranks`."""
    by_step = found.blamed_s.sum(axis=1)
    theirs = found.blamed_s[:, list(ranks)].sum(axis=1)
    return float(np.mean(theirs[by_step > 0] > 0.5 * by_step[by_step > 0]))


def cause(found: Skew, late: LateRanks, own_s: Any, events: Any) -> Reason:
    """The kind of work of which the late ranks did most more; `own_s` is (S, N, kinds)."""
    theirs = np.zeros(own_s.shape[1], dtype=bool)
    theirs[list(late.ranks)] = True
    waiting_s = float(found.wait_s[:, ~theirs].mean())
    waits = KINDS.index("communication")
    last = np.array(late.ranks)[np.argmin(own_s[:, theirs, waits], axis=1)]  # it waits least
    more = own_s[np.arange(len(own_s)), last] - np.median(own_s[:, ~theirs], axis=1)
    excess = more.mean(axis=0)  # means, unlike medians, add up to the waiting
    lost_s = max(waiting_s, float(np.delete(excess, waits).sum()))
    excess[waits] = -np.inf
    best = int(np.argmax(excess))
    kind, seconds, by_step = KINDS[best], float(excess[best]), more[:, best]
    together = more[:, [KINDS.index(one) for one in _WHOLE]].sum(axis=1)
    both = float(together.mean())
    if kind in _WHOLE and seconds < EXPLAINS * lost_s <= both:
        kind, seconds, by_step = EVERYTHING, both, together
    work = np.median(events[:, theirs].mean(axis=1)) / max(np.median(events[:, ~theirs]), 1.0)
    explained = min(seconds / max(lost_s, 1e-12), 1.0)
    steady = float(np.mean(by_step >= 0.5 * seconds)) if seconds > 0 else 0.0
    return Reason(kind, seconds, waiting_s, lost_s, max(explained, 0.0), float(work), steady)


SLOW = 0.6
"""A link is called slow below this share of the rate that it should have."""
_LEAST_BYTES = 1e6
"""Smaller collectives are a matter of latency."""


@dataclass(frozen=True)
class GroupRate:
    """What the collectives of one group reach."""

    group: str
    ranks: tuple[int, ...]
    """By index of the summary."""
    hosts: tuple[str, ...]
    bytes_per_s: float
    """Bus bandwidth, as nccl-tests define it: what each link of a ring carries one way."""
    transfer_s: float
    """Time in which something was moved, in all steps together."""


def rates(
    blocks: Sequence[MatchedCollectives], clocks: Clocks, summaries: Sequence[RankSummary]
) -> tuple[GroupRate, ...]:
    """The rate of each group whose sizes are known; collectives at the same time count together."""
    found = []
    for block in blocks:
        large = np.nan_to_num(block.bytes) >= _LEAST_BYTES
        if not large.any():
            continue
        arrived = np.nanmax(clocks.start_s(block)[large], axis=1)
        ended = np.maximum(np.nanmedian(clocks.end_s(block)[large], axis=1), arrived)
        moving = merged(np.rint(arrived * 1e9), np.rint(ended * 1e9)).length / 1e9
        kinds = [kind for kind, use in zip(block.kinds, large, strict=True) if use]
        ring = (block.members[large] - 1) / block.members[large]
        factor = ring * [2.0 if kind == "all-reduce" else 1.0 for kind in kinds]
        ranks = tuple(int(rank) for rank in block.ranks)
        hosts = tuple(dict.fromkeys(summaries[rank].host or "" for rank in ranks))
        moved = float(np.sum(block.bytes[large] * factor))
        found.append(GroupRate(block.group, ranks, hosts, moved / max(moving, 1e-9), moving))
    return tuple(found)


def slow_rate(found: Sequence[GroupRate], expected_bytes_per_s: float | None) -> tuple[GroupRate, float]:
    """The slowest group between hosts, and its rate over what it should be; 1 if none is slow.

    It should reach what was expected, or else the median of the groups of the same kind.
    """
    between = [one for one in found if len(one.hosts) > 1]
    if expected_bytes_per_s is None and len(between) < 3:
        return _nothing(), 1.0
    if not between:
        return _nothing(), 1.0
    usual = expected_bytes_per_s or float(np.median([one.bytes_per_s for one in between]))
    worst = min(between, key=lambda one: one.bytes_per_s)
    return worst, min(worst.bytes_per_s / usual, 1.0)


def _nothing() -> GroupRate:
    return GroupRate("", (), (), 0.0, 0.0)


RankVerdictKind = Literal[
    "clean",
    "slow worker",
    "slow data loader",
    "garbage collection",
    "host-bound",
    "slow link",
    "uneven stages",
    "uneven work",
    "small collectives",
    "no overlap",
    "communication-bound",
    "unexplained",
]
MATTERS = 0.05
"""Losses under this share of the step are not worth a verdict."""
_VARIES = 0.15
"""Waiting that is for nobody in particular is usual below this share; so is a slower worker where
the host computes, whose cores other programs use as well, unless it stands out."""
_STANDS_OUT = 3.0
"""A worker does if it is this many times further from the others than these are from each other,
and these are at least as many."""
_MOSTLY = 0.25
"""Share of the step from which exposed transfers or an idle device give the verdict."""
_MANY = 8
"""Collectives of a step from which on their sizes are a matter of settings."""
_HIDDEN = 0.05
"""Share of the transfers that is hidden behind computation at least, where anything is."""
_SLOWS_OTHERS = 2.0
"""A rank with a known cause is named before a link that costs less than this many times as much."""
_BY_KIND: dict[str, RankVerdictKind] = {
    "compute": "slow worker",
    EVERYTHING: "slow worker",
    "data": "slow data loader",
    "gc": "garbage collection",
    "host": "slow worker",
}


@published("kind ranks hosts step_s lost_s explained")
@dataclass(frozen=True)
class RanksVerdict:
    """What holds the ranks up most."""

    kind: RankVerdictKind
    """clean, slow worker, slow link, ..."""
    ranks: tuple[int, ...]
    """The ranks that are to blame; empty if none in particular."""
    hosts: tuple[str, ...]
    """Their hosts; of a slow link, its ends as far as they are known."""
    step_s: float
    """Median step."""
    lost_s: float
    """Seconds of a step that would be saved."""
    explained: float
    """Share of the lost time that the verdict explains."""
    cause: Reason | None
    """What the late ranks did more of."""
    rate: GroupRate | None
    """What a slow link reached."""
    skew: Skew
    clocks: Clocks
    next: str
    """What to do or to collect."""
    also: tuple[tuple[RankVerdictKind, float], ...] = ()
    """What else was found, with the seconds of a step."""

    @property
    def share(self) -> float:
        """Lost share of the step."""
        return self.lost_s / self.step_s if self.step_s else 0.0


@dataclass(frozen=True)
class _PossibleVerdict:
    """One possible verdict."""

    kind: RankVerdictKind
    lost_s: float = 0.0
    ranks: tuple[int, ...] = ()
    hosts: tuple[str, ...] = ()
    explained: float = 1.0
    cause: Reason | None = None
    rate: GroupRate | None = None


def explain_ranks(summaries: Sequence[RankSummary], *, link_bytes_per_s: float | None = None) -> RanksVerdict:
    """Why the ranks of one job are slow; `link_bytes_per_s` is what one link should carry."""
    if not summaries:
        raise InputError.of("no rank was given")
    ranked = sorted(summaries, key=lambda one: one.rank)
    steps = _common_steps(ranked)
    own_s, events, step_s = _by_step(ranked, steps)
    blocks = matched(ranked)
    clocks = aligned(blocks, len(ranked))
    found = skew(blocks, clocks, steps, len(ranked))
    late = late_ranks(found, ranked)
    possible = [
        _straggler(found, late, own_s, events, step_s, ranked),
        _link(found, clocks, ranked, link_bytes_per_s),
        _loaders(own_s, step_s),
        _varying(found, step_s),
    ]
    general = [_hosts(own_s, step_s, ranked), _transfers(found, own_s, step_s, link_bytes_per_s)]
    every = sorted((one for one in possible if one), key=_weight, reverse=True)
    every += sorted((one for one in general if one), key=_weight, reverse=True)
    best = every[0] if every else _PossibleVerdict("clean")
    return RanksVerdict(
        kind=best.kind,
        ranks=tuple(ranked[index].rank for index in best.ranks),
        hosts=best.hosts,
        step_s=step_s,
        lost_s=best.lost_s,
        explained=best.explained,
        cause=best.cause,
        rate=best.rate,
        skew=found,
        clocks=clocks,
        next=NEXT[best.kind],
        also=tuple((one.kind, one.lost_s) for one in every[1:]),
    )


def _weight(one: _PossibleVerdict) -> float:
    """Seconds lost; a late rank also slows the transfers that it takes part in."""
    return one.lost_s * (_SLOWS_OTHERS if one.cause and one.kind != "unexplained" else 1.0)


def _common_steps(summaries: Sequence[RankSummary]) -> Any:
    """Numbers of the steps that every rank recorded."""
    steps = summaries[0].step_numbers
    for one in summaries[1:]:
        steps = np.intersect1d(steps, one.step_numbers)
    if not len(steps):
        raise InputError.of("the ranks recorded no step in common: profile the same steps on all")
    return np.sort(steps)


def _by_step(summaries: Sequence[RankSummary], steps: Any) -> tuple[Any, Any, float]:
    """(S, N, kinds) seconds, (S, N) events, and the median step."""
    own = np.zeros((len(steps), len(summaries), len(KINDS)))
    events = np.zeros((len(steps), len(summaries)))
    step_s = np.zeros((len(steps), len(summaries)))
    for column, one in enumerate(summaries):
        row = np.flatnonzero(np.isin(one.step_numbers, steps))
        own[:, column], events[:, column] = one.own_s[row], one.events[row]
        step_s[:, column] = one.step_s[row]
    return own, events, float(np.median(step_s))


def _straggler(
    found: Skew,
    late: LateRanks | None,
    own_s: Any,
    events: Any,
    step_s: float,
    summaries: Sequence[RankSummary],
) -> _PossibleVerdict | None:
    if late is None:
        return None
    why = cause(found, late, own_s, events)
    kind: RankVerdictKind = _BY_KIND.get(why.kind, "unexplained")
    sure = kind != "slow worker" or summaries[0].on_device or _stands_out(own_s, late.ranks)
    if why.waiting_s < (MATTERS if sure else _VARIES) * step_s or why.steady < STEADY:
        return None
    if why.explained < EXPLAINS:
        kind = "unexplained"
    elif kind == "slow worker" and why.work - 1.0 > 0.5 * why.excess_s / step_s:
        staged = any("send-receive" in one.kinds for one in summaries)
        kind = "uneven stages" if staged else "uneven work"
    if kind == "unexplained" and why.waiting_s < _VARIES * step_s:
        return None
    hosts = tuple(dict.fromkeys(summaries[rank].host or "" for rank in late.ranks))
    return _PossibleVerdict(kind, why.lost_s, late.ranks, hosts, why.explained, why)


def _stands_out(own_s: Any, late: Sequence[int]) -> bool:
    """True if the ranks without the late ones show what is usual among them."""
    work_s = np.delete(own_s, KINDS.index("communication"), axis=2).sum(axis=2).mean(axis=0)
    others = np.delete(work_s, list(late))
    excess = work_s[list(late)].mean() - np.median(others)
    apart = stands_out(excess, 0.0, spread=np.ptp(others), deviations=_STANDS_OUT)
    return bool(len(others) >= _STANDS_OUT and apart)


def _link(
    found: Skew, clocks: Clocks, summaries: Sequence[RankSummary], expected: float | None
) -> _PossibleVerdict | None:
    worst, share = slow_rate(rates(found.blocks, clocks, summaries), expected)
    if not stands_out(1.0 - share, 1.0, share=1.0 - SLOW):
        return None
    exposed = float(np.median(found.transfer_s[:, list(worst.ranks)].mean(axis=1)))
    named = len(worst.hosts) == 2  # with more, any of their links may be the slow one
    return _PossibleVerdict(
        "slow link", exposed * (1.0 - share), (), worst.hosts, 1.0 if named else 0.0, rate=worst
    )


def _loaders(own_s: Any, step_s: float) -> _PossibleVerdict | None:
    """All ranks wait for their loaders alike."""
    data = float(np.median(own_s[:, :, KINDS.index("data")]))
    return _PossibleVerdict("slow data loader", data) if data >= 2 * MATTERS * step_s else None


def _hosts(own_s: Any, step_s: float, summaries: Sequence[RankSummary]) -> _PossibleVerdict | None:
    """All devices wait for their hosts alike."""
    host = float(np.median(own_s[:, :, KINDS.index("host")]))
    bound = summaries[0].on_device and host >= _MOSTLY * step_s
    return _PossibleVerdict("host-bound", host) if bound else None


def _varying(found: Skew, step_s: float) -> _PossibleVerdict | None:
    waiting = float(np.median(found.wait_s.mean(axis=1)))
    return _PossibleVerdict("unexplained", waiting, explained=0.0) if waiting > _VARIES * step_s else None


def _transfers(found: Skew, own_s: Any, step_s: float, expected: float | None) -> _PossibleVerdict | None:
    """Exposed transfers: too small, never hidden, or of a rate that nobody has stated."""
    exposed = float(np.median(found.transfer_s.mean(axis=1)))
    if exposed < 2 * MATTERS * step_s:
        return None
    sizes = np.concatenate([one.bytes[one.step >= 0] for one in found.blocks])
    stated = sizes[~np.isnan(sizes)]  # a trace may say nothing of them
    if len(stated) >= _MANY * len(own_s) and np.median(stated) < _LEAST_BYTES:
        return _PossibleVerdict("small collectives", exposed)
    if exposed < _MOSTLY * step_s:
        return None
    computing = float(np.median(own_s[:, :, KINDS.index("compute")]))
    if computing >= _MOSTLY * step_s and _hidden(found.blocks) < _HIDDEN:
        return _PossibleVerdict("no overlap", min(exposed, computing))
    return None if expected is not None else _PossibleVerdict("communication-bound", exposed)


def _hidden(blocks: Sequence[MatchedCollectives]) -> float:
    """Share of the time in collectives behind which something was computed."""
    spent = sum(float(np.nansum(one.duration_s)) for one in blocks)
    return 1.0 - sum(float(np.nansum(one.exposed_s)) for one in blocks) / max(spent, 1e-12)


NEXT: dict[str, str] = {
    "clean": "compare with a prediction: syncwall explain TRACES --run run.yaml",
    "slow worker": "run syncwall measure matmul there and on another host; look at clocks, "
    "temperature and other processes",
    "slow data loader": "more loader workers, prefetching, or data nearer to the host",
    "garbage collection": "collect on all ranks in the same step: gc.disable() and gc.collect()",
    "host-bound": "fewer and larger kernels (torch.compile, CUDA graphs), a larger micro batch",
    "slow link": "run syncwall measure links, which names the host whose link is slow",
    "uneven stages": "move layers from the late stage to the others",
    "uneven work": "balance what the ranks get: sequence lengths, experts, table sizes",
    "small collectives": "larger buckets (DDP bucket_cap_mb, 25 MB by default), whole layers as "
    "FSDP units, or fewer gradient synchronisations a step",
    "no overlap": "let gradients leave while others are computed: DDP or FSDP2 with several "
    "buckets or units, --overlap-grad-reduce and --overlap-param-gather of Megatron",
    "communication-bound": "state the links with --run run.yaml, or run syncwall measure links",
    "unexplained": "profile more steps with record_shapes and Python's garbage collection, "
    "and record clocks and temperatures of the hosts",
}
"""What to do or to collect, by verdict."""
