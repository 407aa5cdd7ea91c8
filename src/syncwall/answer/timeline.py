"""The intervals of a predicted step, and their export.

Holds `timeline` (the last micro batch of the last pipeline rank and its optimizer step, in time, a
`Timeline` with its `Span`s, which writes itself as a Chrome trace: one track a stream, no overlap
on a track), `interval_count` and `facts`.
"""

import json
from dataclasses import dataclass, fields, replace
from pathlib import Path
from typing import Any

from syncwall.answer.priced import Priced
from syncwall.documents import write_whole
from syncwall.public import Answer
from syncwall.records import plain
from syncwall.timeline.ledger import Ledger
from syncwall.timeline.segments import segments
from syncwall.timeline.step import reduction_window
from syncwall.timeline.streams import Clock, Interval, Record
from syncwall.work.block import AnyTask, Block, StepPhase, Stream
from syncwall.work.operations import Group


@dataclass(frozen=True, slots=True)
class Span:
    """One part of a micro batch on the compute stream, seconds from the start."""

    phase: StepPhase
    start_s: float
    end_s: float


@dataclass(frozen=True)
class Timeline(Answer):
    """One micro batch and the optimizer step, as one rank sees them."""

    intervals: list[Interval]
    waits: list[Interval]
    """Where computation stands still: together with the intervals of the compute stream they fill
    the time from the start to the end."""
    spans: tuple[Span, ...]
    """Forward, backward (with recomputation) and the optimizer, one after the other."""
    ledger: Ledger
    earlier_s: float = 0.0
    """How much earlier gradients leave because a rank has several virtual stages: beside other
    micro batches; what left before the start is not among the intervals."""
    title: str = ""
    """Of whom it is."""

    @property
    def end_s(self) -> float:
        """When the last stream is free."""
        return self.spans[-1].end_s

    def __repr__(self) -> str:
        return f"<Timeline {self.title}: {len(self.intervals)} operations in {self.end_s:.4g} s>"

    def save(self, path: str | Path) -> None:
        """Write the trace to `path`; open it at ui.perfetto.dev or in chrome://tracing."""
        write_whole(Path(path), json.dumps(self.trace()))

    def to_dict(self) -> dict[str, Any]:
        """The same as `trace`, as plain data."""
        found: dict[str, Any] = plain(self.trace())
        return found

    def trace(self) -> dict[str, Any]:
        """The intervals as a Chrome trace; waits of computation have a track of their own."""
        streams: dict[str, int] = {}
        events: list[dict[str, Any]] = []
        known: dict[int, dict[str, Any]] = {}
        for interval in self.intervals:
            what = interval.what
            assert what is not None
            if id(what) not in known:
                known[id(what)] = operation_facts(what)
            track = streams.setdefault(interval.stream, len(streams))
            events.append(_event(interval, interval.name, track, known[id(what)]))
        for wait in self.waits:
            track = streams.setdefault("waits", len(streams))
            events.append(_event(wait, f"waits for {wait.name}", track, {}))
        names = [
            {"name": "thread_name", "ph": "M", "pid": 0, "tid": track, "args": {"name": stream}}
            for stream, track in streams.items()
        ]
        process = {"name": "process_name", "ph": "M", "pid": 0, "args": {"name": self.title}}
        return {"traceEvents": [process, *names, *events]}


def timeline(priced: Priced, title: str = "") -> Timeline:
    """Every operation and wait of the last micro batch, forward and backward, and the optimizer.

    Gradients of several micro batches are added up elsewhere; the ledger here is without that. A
    recorded program has all of its step.
    """
    if (played := priced.timed.played) is not None:
        phases = tuple(_phases(played.intervals))
        return Timeline(played.intervals, played.waits, phases, priced.ledger, title=title)
    record = Record()
    clock = Clock(record=record)
    spans: list[Span] = []
    earlier_s = 0.0
    for phase, blocks in _parts(priced):
        record.phase = phase
        before, begun = clock.copy(), float(clock.free[Stream.COMPUTE])
        for block in blocks:
            record.block = block.name
            clock.run(segments(block, priced.prices), block.rounds)
        if phase is StepPhase.BACKWARD:
            earlier_s = _leave_earlier(clock, before, priced)
        ended = clock.free[Stream.COMPUTE] if phase is StepPhase.FORWARD else clock.join()
        spans.append(Span(phase, begun, float(ended)))
    return Timeline(record.intervals, record.waits, tuple(spans), clock.ledger, earlier_s, title)


def _phases(intervals: list[Interval]) -> list[Span]:
    """The phases of a recorded program on the compute stream, one after the other."""
    found: list[Span] = []
    for interval in sorted(intervals, key=lambda one: one.start_s):
        phase = StepPhase(interval.phase)
        phase = StepPhase.BACKWARD if phase is StepPhase.RECOMPUTE else phase
        if not found or (found[-1].phase is not phase and interval.stream == "compute"):
            found.append(Span(phase, interval.start_s, interval.end_s))
        else:
            found[-1] = replace(found[-1], end_s=max(found[-1].end_s, interval.end_s))
    return found


def _leave_earlier(clock: Clock, before: Clock, priced: Priced) -> float:
    """Let gradients leave beside other micro batches, as `timeline.step` does; seconds gained."""
    assert isinstance(clock.record, Record)
    work, prices = priced.work, priced.prices
    window = float(reduction_window(work))
    if window <= 0:
        return 0.0
    before.record = None
    begun = before.free[Stream.COMPUTE]
    for block in work.stages[-1].backward:
        before.run(segments(block, prices), block.rounds)
    late = float(clock.free[Stream.REDUCE])
    clock.move_earlier(Stream.REDUCE, (before.next_micro_batch() - begun) * window)
    earlier_s = late - float(clock.free[Stream.REDUCE])
    clock.record.moved(Stream.REDUCE, earlier_s)
    return earlier_s


def interval_count(priced: Priced) -> int:
    """How many intervals `timeline` would have."""
    seconds = priced.prices.seconds
    return sum(
        round(float(block.rounds)) * sum(bool(seconds(op.what) > 0) for op in block.operations)
        for _, blocks in _parts(priced)
        for block in blocks
    )


def operation_facts(what: AnyTask) -> dict[str, Any]:
    """FLOP, bytes and dimensions of an operation, as plain data."""
    named = [field.name for field in fields(what)] + ["flops", "hbm_bytes"]
    values = {name: getattr(what, name, None) for name in named if name != "eager"}
    group = values.pop("group", None)
    if isinstance(group, Group):
        values |= {field.name: getattr(group, field.name) for field in fields(group)}
    return {
        name: value if isinstance(value, str | bool) else float(value)
        for name, value in values.items()
        if value is not None and value != ""
    }


def _event(interval: Interval, name: str, track: int, more: dict[str, Any]) -> dict[str, Any]:
    return {
        "name": name,
        "cat": interval.cause,
        "ph": "X",
        "pid": 0,
        "tid": track,
        "ts": round(interval.start_s * 1e6, 3),
        "dur": round((interval.end_s - interval.start_s) * 1e6, 3),
        "args": {
            "cause": interval.cause,
            "phase": interval.phase,
            "block": interval.block,
            "round": interval.round,
            **more,
        },
    }


def _parts(priced: Priced) -> list[tuple[StepPhase, list[Block]]]:
    """The blocks that are run at all, by phase."""
    stage = priced.work.stages[-1]
    parts = [
        (StepPhase.FORWARD, stage.forward),
        (StepPhase.BACKWARD, stage.last_backward),
        (StepPhase.FINISH, stage.finish),
    ]
    return [(phase, [block for block in blocks if block.rounds > 0]) for phase, blocks in parts]
