"""What computation and communication cost each other on the same cores.

Holds `Overlap` and `measure_overlap`: how much computation loses while collectives run beside it,
and how long ranks that compute and then meet in a collective wait for the slowest.
"""

import time
from collections.abc import Callable
from typing import Annotated, Any

import numpy as np
from pydantic import Field

from syncwall.describe.base import Description
from syncwall.measure.kernel_times import Duration
from syncwall.measure.team import Team

_BYTES = 4 * 2**20
_SIZE = 256
"""Matrices so small that the end of a collective is seen at once."""
_CHUNK_S = 0.02
"""About what a layer computes between two collectives, on cores of its own."""
_ROUNDS = 5
_ROUND_S = 0.4
_LEAST_CALLS, _MOST_CALLS = 3, 100


class Overlap(Description):
    """All-reduces and matrix multiplications: alone, beside each other, and in turn."""

    bytes: int
    alone_s: Annotated[float, Field(gt=0)]
    """One all-reduce after the other, nothing else: time of one."""
    beside_s: Annotated[float, Field(gt=0)]
    """Time of one with multiplications beside it."""
    lost_s: float
    """Time that the multiplications lost to one all-reduce beside them."""
    meeting_s: Duration
    """In turn with multiplications, an all-reduce takes this much longer than alone: ranks wait for
    the slowest."""

    @property
    def host_share(self) -> float:
        """Share of a collective's time for which computation beside it is idle."""
        return min(max(self.lost_s / self.alone_s, 0.0), 0.95)


def measure_overlap(team: Team) -> Overlap | None:
    """Time both alone and together, in rounds that follow each other; None for one rank."""
    if team.world == 1:
        return None
    import torch

    bench = _Bench(
        team,
        torch.zeros(_BYTES // 4, device=team.device),
        torch.randn(_SIZE, _SIZE, device=team.device),
    )
    product_s = bench.mean(bench.multiply, 50)
    reduce_s = bench.mean(bench.reduce, 3)
    calls = max(_LEAST_CALLS, min(_MOST_CALLS, int(_ROUND_S / reduce_s)))
    products = max(1, int(_ROUND_S / product_s))
    chunk = max(1, round(_CHUNK_S / bench.quickest(product_s)))
    rounds = [bench.round(calls, products, chunk) for _ in range(_ROUNDS)]
    alone_s, beside_s, lost_s, meeting_s = (float(np.median(one)) for one in zip(*rounds, strict=True))
    return Overlap(
        bytes=_BYTES,
        alone_s=alone_s,
        beside_s=beside_s,
        lost_s=lost_s,
        meeting_s=max(meeting_s, 0.0),
    )


class _Bench:
    """One vector to add up, one matrix to multiply."""

    def __init__(self, team: Team, vector: Any, matrix: Any) -> None:
        self._team, self._vector, self._matrix = team, vector, matrix

    def round(self, calls: int, products: int, chunk: int) -> tuple[float, float, float, float]:
        """Seconds of an all-reduce alone and beside products, what those lose, and a meeting."""
        alone_s = self.mean(self.reduce, calls)
        product_s = self.mean(self.multiply, products)
        beside_s, done = self._together(calls)
        lost_s = beside_s - self._average(done) / calls * product_s
        chunk_s = self._chunk_s(chunk)
        in_turn_s = self.mean(lambda: self._chunk_then_reduce(chunk), calls)
        return alone_s, beside_s, lost_s, in_turn_s - chunk_s - alone_s

    def mean(self, run: Callable[[], None], count: int) -> float:
        """Seconds of one `run` among `count` that follow each other, on the slowest rank."""
        self._team.barrier()
        begun = time.perf_counter()
        for _ in range(count):
            run()
        return self._team.slowest([(time.perf_counter() - begun) / count])[0]

    def quickest(self, product_s: float) -> float:
        """Seconds of a product on a core that is not shared."""
        times = []
        for _ in range(50):
            begun = time.perf_counter()
            self.multiply()
            times.append(time.perf_counter() - begun)
        return min(self._team.slowest([float(np.percentile(times, 10))])[0], product_s)

    def reduce(self) -> None:
        """One all-reduce."""
        import torch.distributed as dist

        dist.all_reduce(self._vector)
        self._team.synchronize()

    def multiply(self) -> None:
        """One product."""
        _ = self._matrix @ self._matrix
        self._team.synchronize()

    def _average(self, count: int) -> float:
        return float(np.mean(self._team.gathered(count)))

    def _together(self, calls: int) -> tuple[float, int]:
        """Seconds of one of `calls` all-reduces, and the products computed beside them all."""
        import torch.distributed as dist

        products = 0
        self._team.barrier()
        begun = time.perf_counter()
        for _ in range(calls):
            work = dist.all_reduce(self._vector, async_op=True)
            while not work.is_completed():
                self.multiply()
                products += 1
            work.wait()
        taken = time.perf_counter() - begun
        return self._team.slowest([taken / calls])[0], products

    def _chunk_s(self, chunk: int) -> float:
        """Seconds of a chunk of products that all ranks begin together, on the slowest of them."""
        times = []
        for _ in range(8):
            self._team.barrier()
            begun = time.perf_counter()
            for _ in range(chunk):
                self.multiply()
            times.append(time.perf_counter() - begun)
        return float(np.mean(self._team.slowest(times)))

    def _chunk_then_reduce(self, chunk: int) -> None:
        for _ in range(chunk):
            self.multiply()
        self.reduce()
