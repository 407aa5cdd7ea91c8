"""Tables of operations of made-up jobs, with start times from a 1F1B schedule.

The schedule is computed here one operation at a time, independently of `explain.replay`.
"""

import csv
import io
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import pytest

MEASURED = Path(__file__).parents[4] / "shared" / "data" / "measured" / "04_traces"
JOBS = MEASURED / "bytedance_stragglers"
"""Three published jobs; not everybody has them."""
needs_jobs = pytest.mark.skipif(not JOBS.is_dir(), reason="needs the traces in ../shared")

COLUMNS = (
    "dp_rank",
    "stage",
    "rank",
    "step",
    "optype",
    "start_ts",
    "duration",
    "seq_id",
    "mc",
    "mb_id",
    "gmc",
)
Seconds = Callable[[str, int, int, int, int], float]
"""Duration by (kind, dp rank, stage, sequence, step)."""


@dataclass(frozen=True)
class Shape:
    dp: int = 1
    stages: int = 1
    microbatches: int = 1
    steps: int = 1


def schedule(stage: int, shape: Shape) -> list[tuple[str, int]]:
    """Forward and backward passes of one stage in the order of 1F1B."""
    warm = min(shape.stages - stage, shape.microbatches)
    order = [("forward", m) for m in range(warm)]
    for backward in range(shape.microbatches):
        order.append(("backward", backward))
        if warm + backward < shape.microbatches:
            order.append(("forward", warm + backward))
    return order


class _Step:
    """Start and end of every operation of one step, found by asking what it waits for."""

    def __init__(self, shape: Shape, seconds: Seconds, step: int) -> None:
        self.shape, self.seconds, self.step = shape, seconds, step
        self.computed = cache(self._computed)
        self.moved = cache(self._moved)
        self.rows: list[dict[str, Any]] = []

    def _takes(self, kind: str, dp: int, stage: int, number: int) -> float:
        return self.seconds(kind, dp, stage, number, self.step)

    def gathered(self, stage: int) -> list[float]:
        return [self._takes("params-all-gather", dp, stage, 0) for dp in range(self.shape.dp)]

    def _computed(self, what: str, dp: int, stage: int, number: int) -> tuple[float, float]:
        order = schedule(stage, self.shape)
        place = order.index((what, number))
        start = 0.0
        if place:
            start = self.computed(order[place - 1][0], dp, stage, order[place - 1][1])[1]
        elif what == "forward":
            start = self.gathered(stage)[dp]
        first = stage == 0 if what == "forward" else stage == self.shape.stages - 1
        if not first:
            start = max(start, self.moved(what, dp, stage, number)["recv"][1])
        return start, start + self._takes(f"{what}-compute", dp, stage, number)

    def _moved(self, what: str, dp: int, stage: int, number: int) -> dict[str, tuple[float, float]]:
        """Both ends of the transfer to `stage`."""
        sender = stage - 1 if what == "forward" else stage + 1
        sent = self.computed(what, dp, sender, number)[1]
        received = self.computed(what, dp, stage, number - 1)[1] if number else 0.0
        if number:
            before = self.moved(what, dp, stage, number - 1)
            sent, received = max(sent, before["send"][1]), max(received, before["recv"][1])
        elif what == "backward":
            order = schedule(stage, self.shape)
            if (first := order.index(("backward", 0))) >= 2:
                received = self.computed(*_at(order[first - 2], dp, stage))[1]
        both = max(sent, received)
        return {
            "send": (sent, both + self._takes(f"{what}-send", dp, sender, number)),
            "recv": (received, both + self._takes(f"{what}-recv", dp, stage, number)),
        }

    def record(self) -> list[dict[str, Any]]:
        shape = self.shape
        reduced: dict[tuple[int, int], float] = {}
        for stage in range(shape.stages):
            last = [self.computed(*_at(schedule(stage, shape)[-1], dp, stage))[1] for dp in range(shape.dp)]
            for dp in range(shape.dp):
                self._record_passes(dp, stage)
                self._row("params-all-gather", dp, stage, 0, (0.0, self.gathered(stage)[dp]), mc=0)
                end = max(last) + self._takes("grads-reduce-scatter", dp, stage, 0)
                self._row("grads-reduce-scatter", dp, stage, 0, (last[dp], end), mc=0)
                reduced[dp, stage] = end
        clipped = max(reduced.values())
        for (dp, stage), start in reduced.items():
            end = clipped + self._takes("optimizer-clip-main-grad", dp, stage, 0)
            self._row("optimizer-clip-main-grad", dp, stage, 0, (start, end))
            done = end + self._takes("optimizer", dp, stage, 0)
            self._row("optimizer", dp, stage, 0, (end, done))
        return self.rows

    def _record_passes(self, dp: int, stage: int) -> None:
        for what, number in schedule(stage, self.shape):
            span = self.computed(what, dp, stage, number)
            ids = {"mc": 0, "mb_id": number, "gmc": stage}
            self._row(f"{what}-compute", dp, stage, number, span, **ids)
            after, before = (1, -1) if what == "forward" else (-1, 1)
            if 0 <= stage + before < self.shape.stages:
                span = self.moved(what, dp, stage, number)["recv"]
                self._row(f"{what}-recv", dp, stage, number, span)
            if 0 <= stage + after < self.shape.stages:
                span = self.moved(what, dp, stage + after, number)["send"]
                self._row(f"{what}-send", dp, stage, number, span)

    def _row(
        self, kind: str, dp: int, stage: int, number: int, span: tuple[float, float], **ids: int
    ) -> None:
        cells = dict.fromkeys(("mc", "mb_id", "gmc"), -1) | ids
        self.rows.append(
            {
                "dp_rank": dp,
                "stage": stage,
                "rank": stage * self.shape.dp + dp,
                "step": self.step,
                "optype": kind,
                "start_ts": span[0],
                "duration": span[1] - span[0],
                "seq_id": number,
                **cells,
            }
        )


def _at(place: tuple[str, int], dp: int, stage: int) -> tuple[str, int, int, int]:
    return place[0], dp, stage, place[1]


def rows(shape: Shape, seconds: Seconds) -> list[dict[str, Any]]:
    """Operations of all steps."""
    return [row for step in range(shape.steps) for row in _Step(shape, seconds, step).record()]


def text(table: list[dict[str, Any]]) -> str:
    """The table as CSV."""
    stream = io.StringIO()
    writer = csv.DictWriter(stream, COLUMNS, lineterminator="\n")
    writer.writeheader()
    writer.writerows(table)
    return stream.getvalue()


def written(path: Path, shape: Shape, seconds: Seconds) -> Path:
    """A file `path` with the table."""
    path.write_text(text(rows(shape, seconds)))
    return path


def simple(kind: str, *_: int) -> float:
    """Forward 1 s, backward 2 s, the rest next to nothing."""
    return {"forward-compute": 1.0, "backward-compute": 2.0, "optimizer": 0.5}.get(kind, 0.0)
