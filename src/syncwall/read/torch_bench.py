"""Output of the small torch all-reduce benchmark that many users copy.

Holds `TorchBench`. Each rank prints its duration, "algo throughput: N bps" and "busbw: N Gbps" for
each trial, with "data size: N GB" at the start. Its throughput counts every byte twice: the
algorithm bandwidth of nccl-tests is half of it, the bus bandwidth is the same.
"""

import re
from statistics import median

_LIMIT = 200_000
_DURATION = re.compile(r"\s*duration: (\d{1,9}(?:\.\d{1,9})?) sec")
_ALGORITHM = re.compile(r"\s*algo throughput: (\d{1,18}(?:\.\d{1,9})?) bps")
_BUS = re.compile(r"\s*busbw: (\d{1,9}(?:\.\d{1,9})?)\s{1,4}Gbps")
_SIZE = re.compile(r"(\d{1,7}) data size: (\d{1,6}(?:\.\d{1,6})?) GB")


class TorchBench:
    """Takes in lines; the median over ranks and trials is robust against interleaved output."""

    def __init__(self) -> None:
        self._durations: list[float] = []
        self._algorithm: list[float] = []
        self._bus: list[float] = []
        self._ranks: set[int] = set()
        self._size_gb: float | None = None

    def read(self, text: str) -> None:
        """Take in one line."""
        if len(self._bus) >= _LIMIT:
            return
        if found := _DURATION.match(text):
            self._durations.append(float(found[1]))
        elif found := _ALGORITHM.match(text):
            self._algorithm.append(float(found[1]) / 16e9)
        elif found := _BUS.match(text):
            self._bus.append(float(found[1]) / 8.0)
        elif found := _SIZE.match(text):
            self._ranks.add(int(found[1]))
            self._size_gb = float(found[2])

    def result(self) -> tuple[int | None, int, float, float, float] | None:
        """Ranks, bytes, microseconds, algorithm and bus bandwidth in GB/s (bytes); None if nothing.

        The size is what was printed; without it, duration times throughput.
        """
        if not (self._durations and self._algorithm and self._bus):
            return None
        time_s, algorithm = median(self._durations), median(self._algorithm)
        size = self._bytes(time_s, algorithm)
        return len(self._ranks) or None, size, time_s * 1e6, algorithm, median(self._bus)

    def _bytes(self, time_s: float, algorithm: float) -> int:
        if self._size_gb is not None:
            return int(self._size_gb * 1e9)
        return int(time_s * algorithm * 1e9)
