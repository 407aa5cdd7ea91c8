"""Many ranks out of one real trace: `Copies` writes traces as the ranks of a larger job would.

All ranks do the work of the trace, one of them slower, and meet in its collectives: a collective
begins when a rank arrives and ends when the last has arrived and the bytes are moved. Each rank has
a little noise and a clock of its own.
"""

import gzip
import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

SLOW, NOISE, CLOCK_US = 1.10, 0.002, 5000.0
_PLACE = "\0"
"""Stands for a time in the text; JSON cannot hold it."""


@dataclass(frozen=True)
class Copies:
    """One trace, ready to be written for any of `ranks`."""

    head: dict[str, Any]
    pieces: list[str]
    """Text between the times of the events."""
    start_us: Any
    length_us: Any
    collective: Any
    """Number of the collective that an event is, -1 for others."""
    on_device: Any
    ranks: int
    slow: int

    @classmethod
    def of(cls, path: Path, ranks: int, slow: int) -> "Copies":
        """Read the trace at `path`."""
        with gzip.open(path, "rt", encoding="utf-8") as stream:
            head = json.load(stream)
        events = [event for event in head.pop("traceEvents") if event.get("ph") == "X"]
        start = np.array([float(event["ts"]) for event in events])
        length = np.array([float(event.get("dur", 0)) for event in events])
        kernel = np.array([event.get("cat") == "kernel" for event in events])
        meets = kernel & ["nccl" in event["name"].lower() for event in events]
        collective = np.full(len(events), -1)
        order = np.flatnonzero(meets)[np.argsort(start[meets], kind="stable")]
        collective[order] = np.arange(len(order))
        for event in events:
            event["ts"] = event["dur"] = _PLACE
        pieces = ",\n".join(json.dumps(event) for event in events).split(json.dumps(_PLACE))
        assert len(pieces) == 2 * len(events) + 1
        names = ("kernel", "gpu_memcpy", "gpu_memset")
        device = np.array([event.get("cat") in names for event in events])
        return cls(head, pieces, start, length, collective, device, ranks, slow)

    def factors(self) -> Any:
        """How much longer each rank takes for everything."""
        factors = 1.0 + NOISE * np.random.default_rng(1).standard_normal(self.ranks)
        factors[self.slow] = SLOW
        return factors

    def _in_order(self) -> Any:
        """Places of the collectives, the first one first."""
        return np.argsort(self.collective, kind="stable")[np.sum(self.collective < 0) :]

    def meetings(self) -> tuple[Any, Any, Any]:
        """By collective and rank: when it arrives, and when it goes on; by collective: its end."""
        order = self._in_order()
        begin, length = self.start_us[order], self.length_us[order]
        factors, first = self.factors(), float(self.start_us.min())
        at, now = np.full(self.ranks, first), first
        arrives, goes_on, ends = [], [], []
        for start, taken in zip(begin.tolist(), length.tolist(), strict=True):
            arrival = at + factors * (start - now)
            end = float(arrival.max()) + taken
            now = start + taken
            beside = self.on_device & (self.collective < 0)
            beside &= (self.start_us < now) & (self.start_us + self.length_us > now)
            at = np.full(self.ranks, end)
            if beside.any():  # what it computes beside takes longer, too
                at = np.maximum(end, arrival + factors * taken)
            arrives.append(arrival)
            goes_on.append(at)
            ends.append(end)
        return np.array(arrives), np.array(goes_on), np.array(ends)

    def write(self, folder: Path, rank: int, meetings: tuple[Any, Any, Any]) -> int:
        """Write the trace of `rank`; its size before it is packed."""
        arrives, goes_on, ends = (one[:, rank] if one.ndim > 1 else one for one in meetings)
        factor, order, first = self.factors()[rank], self._in_order(), float(self.start_us.min())
        clock = float(np.random.default_rng(2 + rank).uniform(-CLOCK_US, CLOCK_US))
        begin, finish = self.start_us[order], self.start_us[order] + self.length_us[order]
        known = np.concatenate([[first], np.stack([begin, finish], axis=1).ravel()])
        shown = np.concatenate([[first], np.stack([arrives, goes_on], axis=1).ravel()])

        def moved(time: Any) -> Any:
            last = np.maximum(np.searchsorted(known, time, side="right") - 1, 0)
            until = np.append(shown, np.inf)[last + 1]
            return np.minimum(shown[last] + factor * (time - known[last]), until)

        start = moved(self.start_us)
        waited = moved(self.start_us + self.length_us) - start
        length = np.where(self.on_device, factor * self.length_us, waited)
        met = self.collective >= 0
        start[met] = arrives[self.collective[met]]
        length[met] = ends[self.collective[met]] - start[met]
        info = dict(self.head.get("distributedInfo", {}), rank=rank, world_size=self.ranks)
        head = json.dumps({**self.head, "distributedInfo": info, "host_name": f"n{rank // 8}"})
        times = np.stack([start + clock, length], axis=1).ravel().tolist()
        parts = [f"{piece}{time:.3f}" for piece, time in zip(self.pieces, times, strict=False)]
        body = "".join(parts) + self.pieces[-1]
        text = f'{head[:-1]}, "traceEvents": [{body}]}}'.encode()
        (folder / f"rank{rank}.json.gz").write_bytes(gzip.compress(text, compresslevel=1))
        return len(text)
