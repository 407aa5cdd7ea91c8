"""Many jobs simulated at once, failure by failure, with NumPy.

Failures are points in wall-clock time, drawn from the seed alone: candidates come at the highest
rate of all plans, and each has a mark that says whether it happens at a plan's own. So plans that
are played together meet the same failures, one with a higher rate meets these and more, and what
differs between them is the plan, not luck.

A job is a position in its work and the time from which on it can go on (`ready`). Between two
failures it works in whole intervals, each followed by a checkpoint; a failure takes it back to the
last checkpoint written, and takes nodes away until they are repaired.

Every repair takes equally long, so nodes come back in the order in which they failed, and the one
to wait for is found by counting: with s spares, the oldest failure after which no more than s nodes
were taken away must be repaired.
"""

from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from math import exp
from statistics import NormalDist
from typing import Any, Final

import numpy as np

from syncwall.cause import Cause
from syncwall.job.job_plan import CLIP, DAY_S, JobPlan, Numbers, slow_down
from syncwall.problems import InputError

GIVEN_UP = 5.0
"""A job that takes so many times as long as its work and checkpoints is given up."""
ACCOUNTS = (
    Cause.CHECKPOINT,
    Cause.LOST_WORK,
    Cause.RESTART,
    Cause.REPAIR,
    Cause.FEWER_NODES,
)


class SimulationState:
    """Jobs of one plan or of several, all at once."""

    def __init__(self, plan: Numbers, goal_s: Any) -> None:
        jobs = len(goal_s)
        self.plan = plan
        self.active = np.ones(jobs, dtype=bool)
        self._goal, self._saved = goal_s, np.zeros(jobs)
        self._ready = plan.startup_s.copy()
        self._speed, self._full_at = np.ones(jobs), np.full(jobs, np.inf)
        self._spent = {account: np.zeros(jobs) for account in ACCOUNTS}
        self._stopped = np.zeros(jobs)
        saving_s = np.ceil(goal_s / plan.every_s) * plan.blocking_s
        self._limit = plan.startup_s + GIVEN_UP * (goal_s + saving_s) + DAY_S
        self.finish_s = np.full(jobs, np.inf)
        self.interruptions = np.zeros(jobs)
        self.ledger_s = {account: np.zeros(jobs) for account in ACCOUNTS}

    def keep_active(self) -> Any:
        """Forget jobs that are over; returns which were kept."""
        kept = self.active
        for name in ("_goal", "_saved", "_ready", "_speed", "_full_at", "_stopped", "_limit"):
            setattr(self, name, getattr(self, name)[kept])
        self.plan.keep(kept)
        self._spent = {account: spent[kept] for account, spent in self._spent.items()}
        self.active = np.ones(len(self._goal), dtype=bool)
        return kept

    def give_up(self, hopeless: Any) -> None:
        """End jobs that will not come to an end."""
        ended = self.active & hopeless
        if ended.any():
            self._close(ended, np.full(len(ended), np.inf))

    def run_until(self, now_s: Any) -> None:
        """Let every job work until `now_s`; those that reach their goal before are over."""
        if self.plan.shrinks:
            self._finish(np.minimum(now_s, self._full_at))
            self._grow(now_s)
        self._finish(now_s)

    def strike(self, struck: Any, now_s: Any, rollback_s: Any, back_s: Any, missing: Any) -> None:
        """Stop the jobs in `struck`; nodes are back at `back_s`, until then `missing` are away."""
        plan, spent = self.plan, self._spent
        run_s = np.where(struck, np.maximum(now_s - self._ready, 0.0), 0.0)
        rounds = np.floor(np.maximum(run_s - plan.written_s, 0.0) / plan.whole_s)
        self._save(rounds, rounds * plan.every_s)
        beyond_s = run_s - rounds * plan.whole_s
        spent[Cause.LOST_WORK] += beyond_s
        if np.any(rollback_s):
            self._roll_back(np.where(struck, rollback_s, 0.0) - beyond_s)
        self._stopped += struck
        noticed_s = now_s + plan.detection_s
        begin_s = np.maximum(noticed_s, back_s)
        if plan.shrinks:
            lost = np.ceil(missing / plan.replica_nodes) * plan.replica_nodes
            smaller = (lost < plan.nodes) & (plan.shrink > 0)
            smaller &= back_s > noticed_s + plan.restart_s
            begin_s = np.where(smaller, noticed_s, begin_s)
            self._speed = np.where(struck, np.where(smaller, 1.0 - lost / plan.nodes, 1.0), self._speed)
            self._full_at = np.where(struck, np.where(smaller, back_s, np.inf), self._full_at)
        ready_s = np.where(struck, np.maximum(self._ready, begin_s + plan.restart_s), self._ready)
        more_s = np.where(struck, ready_s - np.maximum(self._ready, now_s), 0.0)
        waited_s = np.minimum(np.where(struck, begin_s - noticed_s, 0.0), more_s)
        spent[Cause.REPAIR] += waited_s
        spent[Cause.RESTART] += more_s - waited_s
        self._ready = ready_s
        self.give_up(self._ready > self._limit)

    def _save(self, checkpoints: Any, run_s: Any) -> None:
        """Count `run_s` of work with `checkpoints` checkpoints as done."""
        self._saved += run_s * self._speed
        self._spent[Cause.FEWER_NODES] += run_s * (1.0 - self._speed)
        self._spent[Cause.CHECKPOINT] += checkpoints * self.plan.blocking_s

    def _roll_back(self, wanted_s: Any) -> None:
        """Go back at least `wanted_s` before the last checkpoint, to an earlier one."""
        pieces = np.ceil(np.maximum(wanted_s, 0.0) / self.plan.every_s)
        thrown_s = np.minimum(pieces * self.plan.every_s, self._saved)
        self._saved -= thrown_s
        self._spent[Cause.LOST_WORK] += thrown_s

    def _finish(self, now_s: Any) -> None:
        plan = self.plan
        left_s = (self._goal - self._saved) / self._speed
        checkpoints = np.ceil(left_s / plan.every_s)
        end_s = self._ready + left_s + checkpoints * plan.blocking_s + plan.written_s
        done = self.active & (end_s <= now_s)
        if done.any():
            self._save(np.where(done, checkpoints, 0.0), np.where(done, left_s, 0.0))
            self._spent[Cause.CHECKPOINT] += np.where(done, plan.written_s, 0.0)
            self._close(done, end_s)

    def _grow(self, now_s: Any) -> None:
        """Let nodes that are back join: a checkpoint, a restart, full speed."""
        plan = self.plan
        joins = self.active & (self._full_at <= now_s)
        if not joins.any():
            return
        run_s = np.where(joins, np.maximum(self._full_at - self._ready, 0.0), 0.0)
        rounds = np.floor(run_s / plan.whole_s)
        worked_s = np.minimum(run_s - rounds * plan.whole_s, plan.every_s)
        rest_s = run_s - rounds * plan.whole_s - worked_s
        self._save(rounds, rounds * plan.every_s + worked_s)
        pause_s = plan.blocking_s + plan.written_s
        self._spent[Cause.CHECKPOINT] += np.where(joins, rest_s + pause_s, 0.0)
        self._spent[Cause.RESTART] += np.where(joins, plan.restart_s, 0.0)
        at_s = np.maximum(self._full_at, self._ready) + pause_s + plan.restart_s
        self._ready = np.where(joins, at_s, self._ready)
        self._speed = np.where(joins, 1.0, self._speed)
        self._full_at = np.where(joins, np.inf, self._full_at)

    def _close(self, over: Any, end_s: Any) -> None:
        jobs = self.plan.number[over]
        self.finish_s[jobs] = end_s[over]
        self.interruptions[jobs] = self._stopped[over]
        for account, spent in self._spent.items():
            self.ledger_s[account][jobs] = spent[over]
        self.active = self.active & ~over


class Repairs:
    """What was taken away from each of many jobs, failure by failure."""

    def __init__(self, plan: Numbers, candidates_per_s: float) -> None:
        self.plan, jobs = plan, len(plan.number)
        expected = candidates_per_s * float(plan.repair_s.max())
        self._size = int(expected + 8.0 * expected**0.5 + 16.0)
        """Failures that are remembered; all earlier ones are repaired."""
        self._times = np.zeros((self._size, jobs))
        self._taken = np.zeros((self._size, jobs), dtype=np.int64)
        self._total = np.zeros(jobs, dtype=np.int64)
        self._awaited = np.zeros(jobs, dtype=np.int64)
        self._oldest = np.zeros(jobs, dtype=np.int64)
        self._returned = np.zeros(jobs, dtype=np.int64)
        self._number = 0

    def keep(self, kept: Any) -> None:
        """Forget all jobs but those where `kept` is true."""
        for name in ("_total", "_awaited", "_oldest", "_returned"):
            setattr(self, name, getattr(self, name)[kept])
        self._times, self._taken = self._times[:, kept], self._taken[:, kept]

    def take(self, nodes: Any, now_s: Any) -> tuple[Any, Any]:
        """Take `nodes` away from each job at `now_s`.

        Returns when no more nodes are away than there are spares (minus infinity if so now), and
        how many are missing until then.
        """
        self._total += nodes
        slot = self._number % self._size
        self._times[slot], self._taken[slot] = now_s, self._total
        needed = self._total - self.plan.spares
        self._number += 1
        if not np.any(needed > 0):
            return np.full(len(needed), -np.inf), np.zeros(len(needed))
        first = self._number - self._size
        short = np.flatnonzero(needed > 0)
        self._awaited[short] = np.maximum(self._awaited[short], first)
        behind = short
        while behind.size:
            rows = self._awaited[behind] % self._size
            behind = behind[self._taken[rows, behind] < needed[behind]]
            self._awaited[behind] += 1
        back_s = np.full(len(needed), -np.inf)
        back_s[short] = self._times[self._awaited[short] % self._size, short]
        back_s[short] += self.plan.repair_s[short]
        back_s[back_s <= now_s] = -np.inf
        missing = self._missing(now_s, first) if self.plan.shrinks else np.zeros(len(needed))
        return back_s, missing

    def _missing(self, now_s: Any, first: int) -> Any:
        """Nodes that the job lacks right now."""
        self._oldest = np.maximum(self._oldest, first)
        back = np.arange(len(self._oldest))
        while back.size:
            rows = self._oldest[back] % self._size
            repaired_s = self._times[rows, back] + self.plan.repair_s[back]
            returned = (self._oldest[back] < self._number) & (repaired_s <= now_s[back])
            back, rows = back[returned], rows[returned]
            self._returned[back] = self._taken[rows, back]
            self._oldest[back] += 1
        return np.maximum(self._total - self._returned - self.plan.spares, 0)


CHUNK = 5000
"""Jobs that are played through together."""
BLOCK = 32
"""Failures of each that are drawn at once."""

Progress = Callable[[float], None]


@dataclass(frozen=True)
class SimulatedJobs:
    """What became of every job; arrays with one number for each."""

    finish_s: Any
    """From the start until the last checkpoint is written; infinity if it was given up."""
    interruptions: Any
    ledger_s: dict[Cause, Any]
    """Seconds by cause; they add up to `finish_s` where that is finite."""

    @property
    def finished(self) -> Any:
        """True for each job that came to its end."""
        return np.isfinite(self.finish_s)


def simulate_all(
    plans: Sequence[JobPlan],
    count: int = 1000,
    seed: int = 0,
    *,
    workers: int = 1,
    progress: Progress | None = None,
) -> list[SimulatedJobs]:
    """Play each of `plans` through `count` times, all with the same failures."""
    sizes = [min(CHUNK, count - begun) for begun in range(0, count, CHUNK)]
    tasks = [(plans, size, (seed, number)) for number, size in enumerate(sizes)]
    if workers > 1 and len(tasks) > 1:
        with ProcessPoolExecutor(workers) as pool:
            parts = list(pool.map(_chunk, *zip(*tasks, strict=True)))
    else:
        parts = []
        for number, task in enumerate(tasks):
            share = _shared(progress, number, len(tasks))
            parts.append(_chunk(*task, share))
    return [_joined([part[number] for part in parts]) for number in range(len(plans))]


def _shared(progress: Progress | None, number: int, count: int) -> Progress | None:
    """`progress` for one of `count` equal parts."""
    return progress and (lambda share: progress((number + share) / count))


def _joined(parts: list[SimulatedJobs]) -> SimulatedJobs:
    return SimulatedJobs(
        np.concatenate([part.finish_s for part in parts]),
        np.concatenate([part.interruptions for part in parts]),
        {cause: np.concatenate([part.ledger_s[cause] for part in parts]) for cause in parts[0].ledger_s},
    )


def _chunk(
    plans: Sequence[JobPlan], count: int, seed: tuple[int, int], progress: Progress | None = None
) -> list[SimulatedJobs]:
    random = np.random.default_rng(seed)
    step, cluster = _normal(random, count), np.clip(_normal(random, count), -CLIP, CLIP)
    steps = [np.exp(plan.step_deviation * step) for plan in plans]
    factor = np.concatenate([np.exp(plan.rate_deviation * cluster) for plan in plans])
    numbers = Numbers(plans, count)
    goals = [plan.run_s * step for plan, step in zip(plans, steps, strict=True)]
    state = SimulationState(numbers, np.concatenate(goals))
    expected = slow_down(
        numbers.every_s,
        numbers.blocking_s,
        numbers.rate_per_s * factor,
        numbers.down_s,
        numbers.written_s,
    )
    state.give_up(expected > GIVEN_UP * numbers.whole_s / numbers.every_s)
    _play(plans, state, random, factor, progress)
    state.run_until(np.full(len(numbers.number), np.inf))
    return [
        _outcome(plan, steps[number], state, slice(number * count, (number + 1) * count))
        for number, plan in enumerate(plans)
    ]


def _outcome(plan: JobPlan, step: Any, state: SimulationState, jobs: slice) -> SimulatedJobs:
    ledger = {Cause.USEFUL: plan.work_s * step}
    ledger |= {cause: share * plan.work_s * step for cause, share in plan.beside.items()}
    ledger |= {account: seconds[jobs] for account, seconds in state.ledger_s.items()}
    ledger[Cause.START_UP] = np.full(len(step), plan.startup_s)
    return SimulatedJobs(state.finish_s[jobs], state.interruptions[jobs], ledger)


def _normal(random: Any, count: int) -> Any:
    """Standard normal numbers, one from each of `count` equal parts of the distribution."""
    normal = NormalDist()
    each = np.array([normal.inv_cdf((number + 0.5) / count) for number in range(count)])
    return random.permutation(each)


def _play(
    plans: Sequence[JobPlan],
    state: SimulationState,
    random: Any,
    factor: Any,
    progress: Progress | None,
) -> None:
    """Let failures happen until every job is over."""
    ceiling = max(plan.rate_per_s * plan.early_factor for plan in plans)
    if ceiling <= 0:
        return
    numbers, count = state.plan, len(factor) // len(plans)
    repairs = Repairs(numbers, ceiling * float(factor.max()))
    causes = _Causes(plans)
    now_s, gap_s, begun = np.zeros(len(factor)), 1.0 / (factor * ceiling), len(factor)
    for gap, mark, kind in _draws(random, count):
        if np.count_nonzero(state.active) < 0.8 * len(numbers.number):
            kept = state.keep_active()
            repairs.keep(kept)
            now_s, gap_s = now_s[kept], gap_s[kept]
            if progress is not None:
                progress(1.0 - len(now_s) / begun)
        if not len(now_s):
            return
        now_s = now_s + gap[numbers.job] * gap_s
        state.run_until(now_s)
        likely = numbers.rate_per_s / ceiling
        if numbers.early:
            more = (numbers.early_factor - 1.0) * np.exp(-now_s / numbers.early_s)
            likely = likely * (1.0 + more)
        struck = state.active & (mark[numbers.job] < likely)
        nodes, rollback_s = causes.of(kind[numbers.job], numbers.plan)
        back_s, missing = repairs.take(np.where(struck, nodes, 0), now_s)
        state.strike(struck, now_s, rollback_s, back_s, missing)


class _Causes:
    """Causes of several plans in one table, from which a number between 0 and 1 chooses."""

    def __init__(self, plans: Sequence[JobPlan]) -> None:
        most = max(len(plan.causes) for plan in plans)
        rates, nodes, rollback = np.zeros((3, len(plans), most))
        for row, plan in enumerate(plans):
            for column, cause in enumerate(plan.causes):
                rates[row, column] = cause.per_s
                nodes[row, column], rollback[row, column] = cause.nodes, cause.rollback_s
        whole = np.maximum(rates.sum(axis=1, keepdims=True), 1e-300)
        shares = np.minimum(np.cumsum(rates / whole, axis=1), 1.0) + np.arange(len(plans))[:, None]
        self._shares = shares.ravel()
        self._nodes, self._rollback_s = nodes.ravel().astype(np.int64), rollback.ravel()
        self._last = np.arange(len(plans)) * most + most - 1

    def of(self, chosen: Any, plan: Any) -> tuple[Any, Any]:
        """Nodes that the chosen cause takes away, and work that it throws away."""
        which = np.searchsorted(self._shares, chosen + plan, side="right")
        which = np.minimum(which, self._last[plan])
        return self._nodes[which], self._rollback_s[which]


def _draws(random: Any, count: int) -> Iterator[tuple[Any, Any, Any]]:
    """Gap to the next candidate in mean gaps, its mark, and the number that chooses its cause."""
    while True:
        gaps = random.standard_exponential((BLOCK, count))
        marks = random.random((BLOCK, count))
        kinds = random.random((BLOCK, count))
        yield from zip(gaps, marks, kinds, strict=True)


MOST_STOPS: Final = 20_000
"""Interruptions of one job, or in the time of a repair, that are played through."""


def refuse_endless(plan: JobPlan) -> None:
    """InputError if `plan` is interrupted so often that playing it through would take minutes."""
    for often, when in _stops(plan):
        if often > MOST_STOPS:
            raise InputError.of(
                f"up to {often:,.0f} interruptions {when}: more than the {MOST_STOPS:,} that are "
                "played through: write fewer tokens, or rarer failures"
            )


def is_endless(plan: JobPlan) -> bool:
    """True for what `refuse_endless` refuses."""
    return any(often > MOST_STOPS for often, _ in _stops(plan))


def _stops(plan: JobPlan) -> tuple[tuple[float, str], ...]:
    """The most interruptions to expect, and when."""
    spread = exp(CLIP * plan.rate_deviation)
    factors = np.geomspace(1.0 / spread, spread, 31)
    often_per_s = plan.rate_per_s * plan.early_factor * factors
    return (
        (float(np.max(often_per_s * _length_s(plan, factors))), "in the job"),
        (float(often_per_s[-1]) * plan.repair_s, "during one repair"),
    )


def _length_s(plan: JobPlan, factors: Any) -> Any:
    """How long jobs are about played on clusters that fail so many times as often as usual."""
    rates = plan.rate_per_s * factors
    slow = slow_down(plan.every_s, plan.blocking_s, rates, plan.down_s, plan.written_s)
    away = sum(cause.per_s * cause.nodes for cause in plan.causes) * plan.repair_s * factors
    long = (away > plan.spares) | (plan.early_factor > 1)
    most = GIVEN_UP * plan.whole_s / plan.every_s
    about_s = plan.run_s * np.minimum(slow, most)
    length_s = np.where(long, plan.run_s * most + DAY_S, about_s)
    return np.where(slow > most, 0.0, plan.startup_s + length_s)
