"""Collectives as streams on links, and their fair shares.

A ring, a tree, or an all-to-all is as fast as its slowest flow, so all flows of a stream have one
rate; where streams meet, a link is shared equally among flows, not among streams.

Source: Bertsekas and Gallager, "Data Networks", 1992, 6.5.2; SimGrid's CM02 without latencies
solves the same problem.
"""

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from syncwall.network.graph import Floats, Ints


@dataclass(frozen=True)
class Pairs:
    """Who sends to whom; of one byte that a rank has to send, the part that this pair moves."""

    source: Ints
    target: Ints
    part: Floats
    stream: Ints
    """Pairs with the same number go on at one pace."""

    def __len__(self) -> int:
        return len(self.source)

    def moved(self, ranks: Ints) -> "Pairs":
        """The same among other ranks: the first one here is `ranks[0]` there."""
        return Pairs(ranks[self.source], ranks[self.target], self.part, self.stream)


@dataclass(frozen=True)
class RankPlacement:
    """Where ranks of the groups of an axis stand: group, domain in the group, place in both."""

    ranks: Ints
    group: Ints
    domain: Ints
    domains: int
    stride: int
    spacing: int
    """From one domain of a group to the next."""
    within: int
    """Ranks of a group in one domain."""


def place_groups(gpus: int, ranks: int, stride: int, domain_gpus: int) -> RankPlacement:
    """All groups of `ranks`, each `stride` from the next, on `gpus` GPUs."""
    spacing = max(stride, domain_gpus)
    reach = min(max(ranks * stride, 1), gpus)
    domains = -(-reach // spacing)
    mine = np.arange(gpus // reach * reach)
    inside = mine % reach
    within = max(1, min(ranks, domain_gpus // max(stride, 1)))
    group = mine // reach * spacing + inside % spacing
    return RankPlacement(mine, group, inside // spacing, domains, stride, spacing, within)


def ring_flows(where: RankPlacement) -> Pairs:
    """Every GPU sends to its counterpart in the next domain of its group, the last to the first."""
    step = np.where(where.domain == where.domains - 1, 1 - where.domains, 1)
    return _pairs(where, where.ranks + step * where.spacing, where.ranks >= 0)


def transfer(where: RankPlacement) -> Pairs:
    """Every GPU sends to its counterpart in the next stage; the last stage sends to none."""
    target = where.ranks + where.stride
    reach = where.domains * where.spacing
    leaves = target // where.spacing != where.ranks // where.spacing
    return _pairs(where, target, leaves & (target // reach == where.ranks // reach))


def _pairs(where: RankPlacement, target: Ints, wanted: NDArray[np.bool_]) -> Pairs:
    real = wanted & (target < len(where.ranks)) & (where.domains > 1)
    part = np.ones(int(real.sum()))
    return Pairs(where.ranks[real], target[real], part, where.group[real])


def tree_flows(where: RankPlacement) -> Pairs:
    """NCCL's two binary trees over the domains, half of the bytes in each, both directions."""
    child, parent = _double_tree(where.domains)
    pairs = [(child, parent), (parent, child)]
    first = where.ranks[where.domain == 0]
    streams = where.group[where.domain == 0]
    source = np.concatenate([one for one, _ in pairs])
    target = np.concatenate([one for _, one in pairs])
    all_source = (first[:, None] + source * where.spacing).ravel()
    all_target = (first[:, None] + target * where.spacing).ravel()
    stream = np.repeat(streams, len(source))
    return Pairs(all_source, all_target, np.full(len(stream), 0.5), stream)


def _double_tree(count: int) -> tuple[Ints, Ints]:
    """Children and parents of both trees, as `ncclGetDtree` numbers them."""
    edges = [(rank, up) for rank in range(count) if (up := _parent(rank, count)) >= 0]
    one = np.array(edges, np.int64).reshape(-1, 2)
    other = count - 1 - one if count % 2 == 0 else (one + 1) % count
    both = np.concatenate([one, other])
    return both[:, 0], both[:, 1]


def _parent(rank: int, count: int) -> int:
    """The rank above in `ncclGetBtree`; -1 for the root, which is rank 0."""
    if rank == 0:
        return -1
    bit = rank & -rank
    up = (rank ^ bit) | (bit << 1)
    return rank ^ bit if up >= count else up


def all_to_all(where: RankPlacement) -> Pairs:
    """Every rank sends an equal part to all of its group in other domains."""
    inside = where.ranks % where.spacing
    place = inside % where.stride if where.within > 1 else inside
    first = where.ranks - where.domain * where.spacing - inside + place
    domain, number = np.divmod(np.arange(where.domains * where.within), where.within)
    target = first[:, None] + domain * where.spacing + number * where.stride
    real = (domain != where.domain[:, None]) & (target < len(where.ranks))
    source = np.broadcast_to(where.ranks[:, None], target.shape)[real]
    part = np.full(len(source), 1.0 / max((where.domains - 1) * where.within, 1))
    return Pairs(source, target[real], part, where.group[source])


PATTERNS: Final[dict[str, Callable[[RankPlacement], Pairs]]] = {
    "ring": ring_flows,
    "tree": tree_flows,
    "all-to-all": all_to_all,
    "transfer": transfer,
}


@dataclass(frozen=True)
class Usage:
    """Flows of every stream over every link that it uses; a pair may occur several times."""

    stream: Ints
    link: Ints
    flows: Floats
    streams: int
    rates: Floats
    """Bytes a second of each link."""

    @classmethod
    def of(cls, stream: Any, link: Any, rates: Any, flows: Any = 1.0) -> "Usage":
        """Usage from plain lists, sorted by stream."""
        stream = np.asarray(stream, np.int64)
        order = np.argsort(stream, kind="stable")
        spread = np.broadcast_to(np.asarray(flows, float), stream.shape)
        count = int(stream.max(initial=-1)) + 1
        return cls(
            stream[order], np.asarray(link, np.int64)[order], spread[order], count, np.asarray(rates, float)
        )

    @cached_property
    def by_link(self) -> tuple[Ints, Ints]:
        """Streams sorted by the links that they use, and where those of each link begin."""
        count = np.bincount(self.link, minlength=len(self.rates))
        return self.stream[np.argsort(self.link)], np.concatenate([[0], np.cumsum(count)])


def fair_rates(usage: Usage, alive: Any = None, batch: float = 0.0) -> Floats:
    """Bytes a second of one flow of each stream.

    All flows are raised together; those over a link that is full stay as they are. With `batch`,
    links that are full at up to that much more count as full at the same time.
    """
    found = np.zeros(usage.streams)
    open_ = np.ones(usage.streams, bool) if alive is None else np.asarray(alive).copy()
    first = np.searchsorted(usage.stream, np.arange(usage.streams + 1))
    by_link, start_of_link = usage.by_link
    crowd = np.bincount(usage.link, usage.flows * open_[usage.stream], len(usage.rates))
    left = usage.rates.astype(float).copy()
    with np.errstate(divide="ignore"):
        level = np.where(crowd > 0, left / crowd, np.inf)
    while open_.any() and np.isfinite(lowest := level.min()):
        full = np.flatnonzero(level <= lowest * (1.0 + max(batch, 1e-13)))
        streams = np.unique(by_link[_spans(start_of_link, full)])
        streams = streams[open_[streams]]
        found[streams] = lowest
        open_[streams] = False
        entries = _spans(first, streams)
        links, flows = usage.link[entries], usage.flows[entries]
        np.subtract.at(crowd, links, flows)
        np.subtract.at(left, links, flows * lowest)
        busy = links[crowd[links] > 1e-9]
        level[links] = np.inf
        level[busy] = left[busy] / crowd[busy]
        level[full] = np.inf
    found[open_] = np.inf
    return found


def _spans(first: Ints, chosen: Ints) -> Ints:
    """Indices from first[i] up to first[i + 1] for every chosen i."""
    counts = first[chosen + 1] - first[chosen]
    ends = np.cumsum(counts)
    shift = np.repeat(first[chosen] - (ends - counts), counts)
    found: Ints = np.arange(int(ends[-1]) if len(ends) else 0) + shift
    return found


def fluid_s(usage: Usage, flow_bytes: Any, batch: float = 0.0) -> Floats:
    """When each stream has ended, if all start at once; rates change whenever one ends.

    With `batch`, streams that would end within that share of the time count as one event.
    """
    left = np.broadcast_to(np.asarray(flow_bytes, float), usage.streams).copy()
    ended, now = np.zeros(usage.streams), 0.0
    alive = left > 0
    while alive.any():
        rates = fair_rates(usage, alive, batch)
        with np.errstate(divide="ignore", invalid="ignore"):
            need = np.where(alive, left / rates, np.inf)
        need[alive & np.isinf(rates)] = 0.0
        soonest = need.min()
        done = need <= soonest * (1.0 + max(batch, 1e-12))
        ended[done] = now + need[done]
        now += soonest
        left -= np.where(alive, np.where(np.isinf(rates), left, rates * soonest), 0.0)
        alive &= ~done
    return ended
