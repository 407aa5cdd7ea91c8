"""The torch calls behind each kind of collective.

Holds `call_of` (one kind at one size, ready to be run), `CollectiveCall` and `Buffers`.
"""

from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from syncwall.measure.facts import free_memory_bytes
from syncwall.measure.team import Team

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
