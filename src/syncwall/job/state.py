"""Where many jobs stand, and where their time went.

Holds `State`: arrays with one number for each job, changed in place by `run_until` (work) and
`strike` (a failure).
"""

from typing import Any

import numpy as np

from syncwall.cause import Cause
from syncwall.job.plan import DAY_S, Numbers

GIVEN_UP = 5.0
"""A job that takes so many times as long as its work is given up."""
ACCOUNTS = (
    Cause.CHECKPOINT, Cause.LOST_WORK, Cause.RESTART, Cause.REPAIR, Cause.FEWER_NODES,
)  # fmt: skip


class State:
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
        self._limit = plan.startup_s + GIVEN_UP * goal_s + DAY_S
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
            self._speed = np.where(
                struck, np.where(smaller, 1.0 - lost / plan.nodes, 1.0), self._speed
            )
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
