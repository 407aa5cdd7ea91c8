"""One rank that times collectives bare and through the harness in turn, on the same memory.

A round is one bare call and one of the harness, in changing order. Rank 0 prints, by kind, the
seconds of the slowest rank in each round, bare and by the harness.
Usage: python overhead_worker.py [ROUNDS], with the environment of a rank.
"""

import json
import os
import sys
import time
from collections.abc import Callable

import torch.distributed as dist

from syncwall.measure.collectives import KINDS, Buffers, call_of, timed
from syncwall.measure.team import Team, joined

SIZE_BYTES, WARM_UP = 4 * 2**20, 20


def bare(kind: str, rank: int, buffers: Buffers) -> Callable[[], object]:
    """The torch call alone, as a user would write it."""
    whole, other = buffers.first, buffers.second
    share = other[: len(other) // 2]
    gather = getattr(dist, "all_gather_single", None) or dist.all_gather_into_tensor
    scatter = getattr(dist, "reduce_scatter_single", None) or dist.reduce_scatter_tensor

    def shift() -> None:
        both = [dist.P2POp(dist.isend, whole, 1 - rank), dist.P2POp(dist.irecv, other, 1 - rank)]
        for work in dist.batch_isend_irecv(both):
            work.wait()

    return {
        "all-reduce": lambda: dist.all_reduce(whole),
        "all-gather": lambda: gather(whole, share),
        "reduce-scatter": lambda: scatter(share, whole),
        "all-to-all": lambda: dist.all_to_all_single(other, whole),
        "broadcast": lambda: dist.broadcast(whole, 0),
        "send-recv": shift,
    }[kind]


def looped(call: Callable[[], object]) -> list[float]:
    start = time.perf_counter()
    call()
    return [time.perf_counter() - start]


def both(team: Team, kind: str, rounds: int) -> dict[str, list[float]]:
    """By way, the seconds of each round; of each the slowest rank counts."""
    buffers = Buffers.of(team, SIZE_BYTES, "float32")
    call = call_of(kind, team, buffers, SIZE_BYTES)
    alone = bare(kind, team.rank, buffers)
    ways = {"bare": lambda: looped(alone), "harness": lambda: timed(team, call.run, 1)}
    found: dict[str, list[float]] = {"bare": [], "harness": []}
    for number in range(rounds + WARM_UP):
        for way in list(ways) if number % 2 else list(reversed(ways)):
            found[way] += ways[way]()
    return {way: team.slowest(seconds[WARM_UP:]) for way, seconds in found.items()}


def main() -> None:
    rounds = int(sys.argv[1]) if len(sys.argv) > 1 else 600
    with joined("gloo") as team:
        found = {kind: both(team, kind, rounds) for kind in KINDS}
    if team.leads:
        print(json.dumps(found), flush=True)
    os._exit(0)


if __name__ == "__main__":
    main()
