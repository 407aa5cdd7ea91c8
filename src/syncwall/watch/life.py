"""The life of a job over all its restarts: where its wall time went, and how much of it counted.

Holds `Attempt`, `Life` with `life_of`, `read_life`, and the kinds of lines in its file. The file is
only ever appended to, so that it survives whatever kills the job or the agent; time that no line
accounts for is idle, never lost from the sum. Causes are those of `syncwall.job`.
"""

import json
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any, Final

from syncwall.cause import Cause
from syncwall.problems import InputError

STARTED: Final = "started"
STEPS: Final = "steps"
ENDED: Final = "ended"
CLOSED: Final = "closed"
"""The command that was watched is over."""
_BESIDE: Final = {
    Cause.CHECKPOINT: Cause.CHECKPOINT,
    Cause.EVALUATION: Cause.EVALUATION,
    Cause.IDLE_DATA: Cause.DATA_LOADING,
}
"""What of a step is not training, as a job calls it."""


@dataclass(slots=True)
class Attempt:
    """From one start of the ranks to their end."""

    started_s: float
    """Since the epoch."""
    nodes: int
    ranks: int
    last_s: float = 0.0
    """The last sign of life."""
    first_step_s: float | None = None
    """When the first step began that was seen."""
    steps_end_s: float = 0.0
    steps: int = 0
    kept_steps: int = 0
    """Of them, those before the last checkpoint."""
    checkpoints: int = 0
    kept_s: dict[Cause, float] = field(default_factory=lambda: defaultdict(float))
    """Until the last checkpoint."""
    since_s: dict[Cause, float] = field(default_factory=lambda: defaultdict(float))
    """Since then."""
    how: str = ""
    """How it ended: "finished", "failed" or "dead"; empty if nobody has said so."""

    def took(self, line: Mapping[str, Any]) -> None:
        """Count steps; a checkpoint, which comes last in its line, makes them safe."""
        spent = {Cause(key): float(spent_s) for key, spent_s in line["seconds"].items()}
        if self.first_step_s is None:
            self.first_step_s = line["time_s"] - sum(spent.values())
        self.steps_end_s = line["time_s"]
        self.steps += int(line["steps"])
        for cause, spent_s in spent.items():
            self.since_s[_BESIDE.get(cause, Cause.USEFUL)] += spent_s
        if line.get("checkpoint"):
            self.keep()

    def keep(self) -> None:
        """Everything so far counts."""
        self.checkpoints += 1
        self.kept_steps = self.steps
        for cause, spent_s in self.since_s.items():
            self.kept_s[cause] += spent_s
        self.since_s.clear()


@dataclass(frozen=True)
class Life:
    """All attempts of one job."""

    attempts: tuple[Attempt, ...]
    now_s: float
    """Until when time is counted, since the epoch."""

    @property
    def wall_s(self) -> float:
        """From the first start until now."""
        return self.now_s - self.attempts[0].started_s if self.attempts else 0.0

    @property
    def failures(self) -> int:
        """Attempts that ended without being finished."""
        last = len(self.attempts) - 1
        return sum(self._is_lost(number, last) for number in range(last + 1))

    @property
    def steps(self) -> int:
        """That count: done once, and not lost."""
        last = len(self.attempts) - 1
        return sum(
            one.kept_steps if self._is_lost(number, last) else one.steps
            for number, one in enumerate(self.attempts)
        )

    @property
    def goodput(self) -> float:
        """Share of the wall time in steps that count."""
        return self.seconds[Cause.USEFUL] / self.wall_s if self.wall_s else 0.0

    @cached_property
    def seconds(self) -> dict[Cause, float]:
        """Wall time by cause; it sums to `wall_s`."""
        found = dict.fromkeys((Cause.USEFUL,), 0.0)
        last = len(self.attempts) - 1
        for number, one in enumerate(self.attempts):
            until_s = self.now_s if number == last else self.attempts[number + 1].started_s
            for cause, spent_s in self._spent(one, until_s, number=number, last=last).items():
                found[cause] = found.get(cause, 0.0) + spent_s
        return {cause: found[cause] for cause in sorted(found, key=lambda one: one.order)}

    def _is_lost(self, number: int, last: int) -> bool:
        """True if what the attempt did since its last checkpoint was thrown away."""
        how = self.attempts[number].how
        return how != "finished" and (number < last or bool(how))

    def _spent(self, one: Attempt, until_s: float, *, number: int, last: int) -> dict[Cause, float]:
        """Seconds of an attempt and of what came after it, until the next one."""
        is_lost = self._is_lost(number, last)
        found: dict[Cause, float] = defaultdict(float, one.kept_s)
        starting = Cause.RESTART if number else Cause.START_UP
        if one.first_step_s is None:
            return {starting: until_s - one.started_s}
        found[starting] += one.first_step_s - one.started_s
        for cause, spent_s in one.since_s.items():
            again = is_lost and cause is not Cause.CHECKPOINT
            found[Cause.LOST_WORK if again else cause] += spent_s
        counted_s = sum(one.kept_s.values()) + sum(one.since_s.values())
        found[Cause.REST] += one.steps_end_s - one.first_step_s - counted_s
        found[Cause.RESTART if is_lost else Cause.REST] += until_s - one.steps_end_s
        return {cause: spent_s for cause, spent_s in found.items() if spent_s}


def life_of(lines: Iterable[Mapping[str, Any]], now_s: float | None = None) -> Life:
    """What the lines of a file tell; until its last line, or until `now_s` if the job goes on."""
    attempts: list[Attempt] = []
    latest_s = 0.0
    for line in lines:
        latest_s = max(latest_s, float(line["time_s"]))
        if line["event"] == STARTED:
            attempts.append(Attempt(line["time_s"], int(line["nodes"]), int(line["ranks"])))
        elif attempts and line["event"] == STEPS:
            attempts[-1].took(line)
        elif attempts and line["event"] == ENDED:
            attempts[-1].how = str(line["how"])
        if attempts:
            attempts[-1].last_s = latest_s
    is_over = not attempts or bool(attempts[-1].how)
    return Life(tuple(attempts), latest_s if is_over or now_s is None else now_s)


def read_life(path: Path) -> list[dict[str, Any]]:
    """Lines of a file; one that a kill has cut off is left out. InputError if it is none."""
    try:
        return list(_whole(path.read_text("utf-8").splitlines(keepends=True)))
    except (OSError, ValueError) as error:
        raise InputError.of(f"{path}: no record of a job's life: {error}") from None


def _whole(lines: Iterable[str]) -> Iterator[dict[str, Any]]:
    for text in lines:
        if not text.endswith("\n"):
            continue
        line = json.loads(text)
        if not isinstance(line, dict) or not {"event", "time_s"} <= line.keys():
            raise ValueError("a line without event and time_s")
        yield line
