"""A small job, made up: ranks that load, compute and meet in an all-reduce, on their own clocks."""

import gzip
import json
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from syncwall.read.trace import Category, Step, Trace, TracedCollective

NAMES = ["ProfilerStep", "enumerate(DataLoader)#x", "aten::mm", "gloo:all_reduce", "Python GC"]
LOADER, WORK, MEETING, COLLECTION = 1, 2, 3, 4
_CATEGORY = {
    LOADER: Category.ANNOTATION,
    WORK: Category.OPERATOR,
    MEETING: Category.ANNOTATION,
    COLLECTION: Category.ANNOTATION,
}


@dataclass
class Job:
    """Seconds are of a step; by rank where there are several."""

    ranks: int = 4
    steps: int = 8
    compute_s: float = 0.1
    data_s: float = 0.002
    transfer_s: float = 0.01
    size_bytes: float = 1e7
    meetings: int = 1
    """All-reduces of a step, one after the other; they share `transfer_s`."""
    pieces: int = 10
    """Operators of a step."""
    slower: dict[int, float] = field(default_factory=dict)
    """Factor on the computation of a rank."""
    loading: dict[int, float] = field(default_factory=dict)
    """Seconds that a rank's loader takes longer."""
    collecting: dict[int, float] = field(default_factory=dict)
    more_pieces: dict[int, int] = field(default_factory=dict)
    in_turn: tuple[int, ...] = ()
    """Ranks that are 30% slower, one in each step."""
    hosts: int = 2
    offset_s: dict[int, float] = field(default_factory=dict)
    drift: dict[int, float] = field(default_factory=dict)
    extra_first: tuple[int, ...] = ()
    """Ranks that recorded an earlier step, too."""
    noise: float = 0.002
    seed: int = 0

    def traces(self) -> list[Trace]:
        """One for each rank."""
        random = np.random.default_rng(self.seed)
        events: list[list[tuple[int, float, float]]] = [[] for _ in range(self.ranks)]
        bounds: list[list[tuple[float, float]]] = [[] for _ in range(self.ranks)]
        now = np.full(self.ranks, 1.0)
        for number in range(self.steps + 1):
            begun, arrived = now.copy(), np.zeros(self.ranks)
            for rank in range(self.ranks):
                time = now[rank]
                for what, seconds in self._parts(rank, number, random):
                    events[rank].append((what, time, seconds))
                    time += seconds
                arrived[rank] = time
            end = arrived.max() + self.transfer_s
            for rank in range(self.ranks):
                each = self.transfer_s / self.meetings
                first_end = arrived.max() + each
                events[rank].append((MEETING, arrived[rank], first_end - arrived[rank]))
                for later in range(1, self.meetings):
                    events[rank].append((MEETING, arrived.max() + later * each, each))
                bounds[rank].append((begun[rank], end))
            now[:] = end
        return [self._trace(rank, events[rank], bounds[rank]) for rank in range(self.ranks)]

    def _parts(self, rank: int, number: int, random: np.random.Generator):
        yield LOADER, self.data_s + self.loading.get(rank, 0.0)
        if rank in self.collecting:
            yield COLLECTION, self.collecting[rank]
        factor = self.slower.get(rank, 1.0) * (1 + self.noise * random.standard_normal())
        if self.in_turn and self.in_turn[number % len(self.in_turn)] == rank:
            factor *= 1.3
        pieces = self.pieces + self.more_pieces.get(rank, 0)
        for _ in range(pieces):
            yield WORK, self.compute_s * factor / self.pieces

    def _trace(self, rank, events, bounds) -> Trace:
        first = 0 if rank in self.extra_first else 1
        events = [one for one in events if one[1] >= bounds[first][0]]
        shown = lambda time: time * (1 + self.drift.get(rank, 0.0)) + self.offset_s.get(rank, 0.0)  # noqa: E731
        start = np.array([round(shown(time) * 1e9) for _, time, _ in events])
        end = np.array([round(shown(time + taken) * 1e9) for _, time, taken in events])
        what = np.array([kind for kind, _, _ in events], dtype=np.int32)
        base = int(start.min())
        ranges = [(shown(a), shown(b)) for a, b in bounds[first:]]
        steps = [
            Step(n, round(a * 1e9) - base, round(b * 1e9) - base)
            for n, (a, b) in enumerate(ranges, start=first)
        ]
        zeros = np.zeros(len(events), dtype=np.int64)
        met = TracedCollective("all-reduce", bytes=self.size_bytes, dtype="float")
        return Trace(
            source=f"rank{rank}.json",
            names=NAMES,
            name=what,
            category=np.array([_CATEGORY[kind] for kind in what.tolist()], dtype=np.int8),
            start_ns=start - base,
            duration_ns=end - start,
            thread=zeros,
            stream=zeros - 1,
            correlation=zeros,
            collectives={int(n): met for n in np.flatnonzero(what == MEETING)},
            steps=tuple(steps),
            base_ns=base,
            rank=rank,
            world_size=self.ranks,
            host=f"h{rank * self.hosts // self.ranks}",
        )


def written(trace: Trace, path: Path) -> Path:
    """`trace` as PyTorch's profiler would write it."""
    cats = {Category.ANNOTATION: "user_annotation", Category.OPERATOR: "cpu_op"}
    base_us = trace.base_ns // 1000
    events: list[dict[str, Any]] = [
        {
            "ph": "X",
            "cat": cats[Category(trace.category[n])],
            "name": NAMES[trace.name[n]],
            "pid": 1,
            "tid": 2 if n in trace.collectives else 1,
            "ts": base_us + trace.start_ns[n] / 1e3,
            "dur": trace.duration_ns[n] / 1e3,
            "args": {},
        }
        for n in range(len(trace))
    ]
    for event in events:
        if event["name"] == NAMES[MEETING]:
            size = next(iter(trace.collectives.values())).bytes or 0.0
            event["args"] = {"Input Dims": [[round(size / 4)]], "Input type": ["float"]}
    events += [
        {
            "ph": "X",
            "cat": "user_annotation",
            "name": f"ProfilerStep#{step.number}",
            "pid": 1,
            "tid": 1,
            "ts": base_us + step.start_ns / 1e3,
            "dur": (step.end_ns - step.start_ns) / 1e3,
        }
        for step in trace.steps
    ]
    info = {"backend": "gloo", "rank": trace.rank, "world_size": trace.world_size}
    head = {"schemaVersion": 1, "distributedInfo": info, "syncwall_host": trace.host}
    path.write_bytes(gzip.compress(json.dumps({**head, "traceEvents": events}).encode()))
    return path
