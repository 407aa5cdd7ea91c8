"""A log with one line a step: `step,seconds,loss`.

Finds steps that take much longer than most, and how regularly they come.
"""

import csv
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from statistics import median

from syncwall.explain.finding import Finding
from syncwall.explain.readers import FilesRequest, Reader
from syncwall.problems import InputError

LONG = 1.5
"""Times the median from which a step is long."""


@dataclass(frozen=True)
class StepLog:
    """Seconds of steps by their numbers, and where they stand."""

    source: str
    seconds: dict[int, float]
    lines: dict[int, int]

    @property
    def median_s(self) -> float:
        """Of all steps."""
        return median(self.seconds.values())

    @property
    def long(self) -> list[int]:
        """Numbers of the steps that take much longer than most."""
        return [step for step, s in self.seconds.items() if s > LONG * self.median_s]


def read(path: Path) -> Iterator[StepLog]:
    """The steps in the file at `path`; what is wrong with it, by line."""
    seconds: dict[int, float] = {}
    lines: dict[int, int] = {}
    with path.open(newline="") as file:
        for line, row in enumerate(csv.DictReader(file), 2):
            try:
                seconds[int(row["step"])] = float(row["seconds"])
                lines[int(row["step"])] = line
            except (TypeError, ValueError):
                message = "a line needs the number of a step and its seconds"
                raise InputError.of(message, file=str(path), line=line, column=1) from None
    if not seconds:
        raise InputError.of("holds no step", file=str(path))
    yield StepLog(str(path), seconds, lines)


def says(log: StepLog) -> str:
    """As in "200 steps, median 0.52 s"."""
    return f"{len(log.seconds)} steps, median {log.median_s:.3g} s"


def findings(log: StepLog, question: FilesRequest) -> Iterator[Finding]:
    """Long steps, and what they cost."""
    long = log.long
    if long:
        lost_s = sum(log.seconds[step] - log.median_s for step in long)
        share = lost_s / sum(log.seconds.values())
        apart = {second - first for first, second in pairwise(long)}
        every = f", one every {apart.pop()} steps" if len(apart) == 1 else ""
        yield Finding(
            "suspect",
            f"{len(long)} steps take over {LONG} times the median{every}: {share:.1%} of all time",
            "steps that come regularly are checkpoints, evaluation or garbage collection",
            "write checkpoints asynchronously; call gc.disable() and collect every 1,000 steps",
            f"{log.source}:{log.lines[long[0]]}",
        )


STEP_LOG = Reader(
    read=read,
    says=says,
    findings=findings,
    recognise=lambda head: head.startswith(b"step,seconds"),
)
