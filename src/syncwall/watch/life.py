"""The life of a job over all its restarts: where its wall time went, and when it will be done.

Holds `Attempt`, `Life` with `life_of`, `read_life`, and the kinds of lines in its file. The file is
only ever appended to, so that it survives whatever kills the job or the agent; time that no line
accounts for is idle, never lost from the sum. Causes are those of `syncwall.job`. `LifeFile`, a
listener of an agent, writes it; it follows the lowest rank of its node: ranks of a job step
together.

`Rates` with `rates_of` say how often and for how long the job was interrupted, `Rates.job_keys` in
the words of a job file; `rest_of` is the job that is left, and `outlook` simulates it with its own
steps, checkpoints, failures and repairs. A job that has seldom failed says little about its
failures: what it tells is weighed with the rate of published clusters, each by its certainty.
"""

import json
import os
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from functools import cached_property
from math import exp, inf, log1p, sqrt
from pathlib import Path
from typing import Any, Final

import numpy as np

from syncwall.cause import Cause
from syncwall.describe.job import FailureRates, Job
from syncwall.describe.lookup import failure_rates
from syncwall.job.completion import QUANTILES
from syncwall.job.job_plan import DAY_S, Failure, JobPlan
from syncwall.job.simulation import is_endless, simulate_all
from syncwall.problems import InputError
from syncwall.watch.events import Process, RankState, StepRecord
from syncwall.watch.rings import clock_s
from syncwall.watch.summary import Live

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


_EVERY_S: Final = 5.0
"""Between two lines about steps: what a kill of the agent can lose."""


class LifeFile:
    """Appends to one file, which several starts of a job share; every line is written whole."""

    def __init__(self, path: Path, since_s: float) -> None:
        """`since_s` is when this start of the job began, ranks or not."""
        self.path = path
        self._file: int | None = None
        """Opened by the agent of the first node only, when there is something to write."""
        self._pid: int | None = None
        self._rank = 0
        self._seconds: dict[Cause, float] = defaultdict(float)
        self._steps = 0
        self._written_s = self._end_s = 0.0
        self._since_s = since_s

    def round(self, live: Live) -> None:
        """Follow the lowest rank."""
        own = live.reports[0]
        if not own.ranks or own.node_rank > 0:
            return
        state = min(own.ranks, key=lambda one: one.rank)
        if self._pid is not None and state.rank < self._rank:
            self._pid, self._rank = state.pid, state.rank  # others were seen before it
        elif state.pid != self._pid:
            self._started(state, live)
        for step in live.steps:
            if step.rank == state.rank:
                self._add(step)
        if live.now_s - self._written_s >= _EVERY_S or state.process.is_over:
            self._steps_so_far()
        if state.process.is_over and self._pid is not None:
            self._ended(state, live.now_s)

    def life(self, now_s: float | None = None) -> Life:
        """What is known so far."""
        return life_of(read_life(self.path), now_s)

    def close(self) -> None:
        """Write what is left, and until when the job was watched."""
        if self._file is not None:
            self._steps_so_far()
            self._write(CLOSED, clock_s())
            os.close(self._file)
            self._file = None

    def _started(self, state: RankState, live: Live) -> None:
        if state.process.is_over:
            return
        self._steps_so_far()
        self._pid, self._rank = state.pid, state.rank
        own = live.reports[0]
        began_s = min(live.now_s, state.phase_since_s or live.now_s, self._since_s)
        self._since_s = inf
        self._write(STARTED, began_s, nodes=own.nodes, ranks=own.world)

    def _add(self, step: StepRecord) -> None:
        for cause, spent_s in step.seconds.items():
            self._seconds[cause] += spent_s
        self._steps += 1
        self._end_s = step.end_s
        if step.seconds.get(Cause.CHECKPOINT):
            self._steps_so_far(checkpoint=True)

    def _steps_so_far(self, *, checkpoint: bool = False) -> None:
        if not self._steps:
            return
        seconds = {str(cause): spent_s for cause, spent_s in self._seconds.items()}
        told: dict[str, Any] = {"steps": self._steps, "seconds": seconds}
        self._write(STEPS, self._end_s, **told, **({"checkpoint": True} if checkpoint else {}))
        self._seconds.clear()
        self._steps = 0

    def _ended(self, state: RankState, now_s: float) -> None:
        how = "finished" if state.process is Process.FINISHED else str(state.process)
        self._write(ENDED, state.changed_s or now_s, how=how)
        self._pid = None

    def _write(self, event: str, time_s: float, **told: Any) -> None:
        if self._file is None:
            self._mend()
            flags = os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC
            self._file = os.open(self.path, flags, 0o644)
        line = json.dumps({"event": event, "time_s": time_s, **told}) + "\n"
        os.write(self._file, line.encode())
        self._written_s = time_s

    def _mend(self) -> None:
        """End a line that a kill has cut off, so that the next one stands on its own."""
        text = self.path.read_bytes() if self.path.exists() else b""
        if text and not text.endswith(b"\n"):
            os.truncate(self.path, text.rfind(b"\n") + 1)


_SIMULATIONS: Final[int] = Job.model_fields["simulations"].default
_STUDY: Final = "typical"


@dataclass(frozen=True, slots=True)
class Rates:
    """What the life of a job says about its future."""

    step_s: float
    """Of training alone."""
    beside: dict[Cause, float]
    """Evaluation and waiting for data, as shares of training."""
    checkpoint_s: float
    interval_s: float | None
    """Training between two checkpoints; None if there was none."""
    startup_s: float
    restart_s: float
    """From a failure until the first step of the next attempt."""
    failures: int
    node_days: float
    per_1000_node_days: float
    """Failures, weighed with those of published clusters."""
    deviation: float
    """Of the logarithm of that rate."""
    nodes: int

    def job_keys(self) -> dict[str, str]:
        """What of this is known of the rest of the job, by the keys of a job file ("startup",
        "failures.repair"): with them `syncwall predict --tokens` answers as `outlook` does.
        """
        keys = {
            "startup": "0 s",
            "measured.step": _seconds(self.step_s),
            "measured.checkpoint": _seconds(self.checkpoint_s),
            "measured.restart": _seconds(self.restart_s),
            "failures.per_1000_node_days": repr(self.per_1000_node_days),
            "failures.deviation": repr(self.deviation),
            "failures.repair": "0 s",
            "data_stall": repr(self.beside.get(Cause.DATA_LOADING, 0.0)),
        }
        if self.interval_s is not None:
            keys["checkpoints.interval"] = _seconds(self.interval_s)
        if evaluated := self.beside.get(Cause.EVALUATION):
            keys["evaluation.every"] = "1"
            keys["evaluation.time"] = _seconds(evaluated * self.step_s)
        return keys


def _seconds(value: float) -> str:
    return f"{value!r} s"


def rates_of(life: Life) -> Rates | None:
    """None before the first step that counts."""
    spent, steps = life.seconds, life.steps
    if not steps or not spent[Cause.USEFUL]:
        return None
    useful_s = spent[Cause.USEFUL]
    checkpoints = sum(one.checkpoints for one in life.attempts)
    trained_s = useful_s + spent.get(Cause.LOST_WORK, 0.0)
    stood_s = [
        after.first_step_s - before.steps_end_s
        for before, after in zip(life.attempts, life.attempts[1:], strict=False)
        if after.first_step_s is not None and before.first_step_s is not None
    ]
    first = life.attempts[0]
    startup_s = 0.0 if first.first_step_s is None else first.first_step_s - first.started_s
    nodes, ranks = life.attempts[-1].nodes, life.attempts[-1].ranks
    node_days = sum(one.nodes * (one.last_s - one.started_s) / DAY_S for one in life.attempts)
    rate, deviation = _weighed(life.failures, node_days, max(ranks // nodes, 1))
    beside = (Cause.EVALUATION, Cause.DATA_LOADING)
    return Rates(
        step_s=useful_s / steps,
        beside={cause: spent[cause] / useful_s for cause in beside if spent.get(cause)},
        checkpoint_s=spent.get(Cause.CHECKPOINT, 0.0) / checkpoints if checkpoints else 0.0,
        interval_s=trained_s / checkpoints if checkpoints else None,
        startup_s=startup_s,
        restart_s=float(np.mean(stood_s)) if stood_s else startup_s,
        failures=life.failures,
        node_days=node_days,
        per_1000_node_days=rate,
        deviation=deviation,
        nodes=nodes,
    )


def _weighed(failures: int, node_days: float, gpus_per_node: int) -> tuple[float, float]:
    """Rate for 1,000 node-days and the deviation of its logarithm: a gamma distribution with mean
    and spread of published clusters, after so many failures in so many days.
    """
    study = failure_rates(_STUDY)
    usual = _per_1000_node_days(study, gpus_per_node)
    shape = 1.0 / (exp(study.deviation**2) - 1.0)
    days = shape / (usual / 1000.0)
    rate = (shape + failures) / (days + node_days) * 1000.0
    return rate, sqrt(log1p(1.0 / (shape + failures)))


def _per_1000_node_days(study: FailureRates, gpus_per_node: int) -> float:
    parts = {"gpu": gpus_per_node, "nic": gpus_per_node, "node": 1}
    return sum(cause.per_1000_days * parts.get(cause.per, 0) for cause in study.causes)


def rest_of(job: Job, life: Life) -> Job:
    """What is left of `job` after `life`; InputError if nothing is."""
    if job.phases:
        raise InputError.of(
            "the life of a job is one step repeated: write what is left as phases, without --life"
        )
    left = job.total_steps - life.steps
    if left <= 0:
        raise InputError.of(f"the job is done: {life.steps:,} of {job.total_steps:,} steps")
    saving, step_s = job.checkpoints, job.measured.step_s
    if saving.interval_s is None and step_s and not any(one.checkpoints for one in life.attempts):
        saving = saving.model_copy(update={"interval_s": left * step_s})  # it saves at the end only
    now = datetime.fromtimestamp(life.now_s, UTC)
    return job.model_copy(update={"steps": left, "tokens": None, "start": now, "checkpoints": saving})


def outlook(rates: Rates, steps_left: int, seed: int = 0) -> tuple[float, float, float]:
    """P10, P50 and P90 of the time from now to the end; infinity for never."""
    if steps_left <= 0:
        return 0.0, 0.0, 0.0
    work_s = steps_left * rates.step_s
    per_s = rates.per_1000_node_days / 1000.0 / DAY_S * rates.nodes
    plan = JobPlan(
        work_s=work_s,
        beside=rates.beside,
        interval_s=rates.interval_s or work_s,
        blocking_s=rates.checkpoint_s,
        causes=(Failure("failure", per_s),),
        rate_deviation=rates.deviation,
        restart_s=rates.restart_s,
        nodes=rates.nodes,
    )
    if is_endless(plan):
        return float("inf"), float("inf"), float("inf")
    (played,) = simulate_all([plan], _SIMULATIONS, seed)
    low, half, high = np.quantile(played.finish_s, QUANTILES, method="inverted_cdf")
    return float(low), float(half), float(high)
