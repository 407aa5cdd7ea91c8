"""Fair shares of links: how fast streams go on, and when each has ended.

Holds `Usage` (flows of streams on links), `load_bound_s`, `fair_rates` (max-min by water-filling,
exact) and `fluid_s`, which solves again whenever streams end. Source: Bertsekas and Gallager, "Data
Networks", 1992, 6.5.2; SimGrid's CM02 without latencies solves the same problem.
"""

from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from syncwall.network.graph import Floats, Ints


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
        return cls(stream[order], np.asarray(link, np.int64)[order], spread[order], count,
                   np.asarray(rates, float))  # fmt: skip

    @cached_property
    def by_link(self) -> tuple[Ints, Ints]:
        """Streams sorted by the links that they use, and where those of each link begin."""
        count = np.bincount(self.link, minlength=len(self.rates))
        return self.stream[np.argsort(self.link)], np.concatenate([[0], np.cumsum(count)])


def load_bound_s(usage: Usage, flow_bytes: Any) -> float:
    """Time that the busiest link needs: nothing can end sooner.

    Exact if all flows are equally long.
    """
    each = np.broadcast_to(np.asarray(flow_bytes, float), usage.streams)
    sizes = np.unique(each)
    sent = usage.flows if len(sizes) == 1 else each[usage.stream] * usage.flows
    moved = np.bincount(usage.link, sent, len(usage.rates)) / usage.rates
    return float(moved.max(initial=0.0) * (sizes[0] if len(sizes) == 1 else 1.0))


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
