"""The same job played through plainly: one at a time, event by event, checkpoint by checkpoint."""

from math import ceil
from random import Random

from syncwall.job.job_plan import JobPlan


def played(plan: JobPlan, random: Random) -> tuple[float, float]:
    """Time from start to end and time without enough nodes of one job; no early failures."""
    now, ready, saved, waited = 0.0, plan.startup_s, 0.0, 0.0
    away: list[tuple[float, int]] = []
    while True:
        now += random.expovariate(plan.rate_per_s)
        left = plan.run_s - saved
        end = ready + left + ceil(left / plan.every_s) * plan.blocking_s + plan.written_s
        if end <= now:
            return end, waited
        saved, reached = _saved(plan, saved, ready, now)
        cause = random.choices(plan.causes, [cause.per_s for cause in plan.causes])[0]
        while cause.rollback_s and saved > 0 and saved > reached - cause.rollback_s:
            saved = max(saved - plan.every_s, 0.0)
        away = [(back, nodes) for back, nodes in away if back > now]
        away.append((now + plan.repair_s, cause.nodes))
        noticed = now + plan.detection_s
        enough = max(noticed, _enough(away, plan.spares, now))
        again = max(ready, enough + plan.restart_s)
        waited += min(enough - noticed, again - max(ready, now))
        ready = again


def _saved(plan: JobPlan, saved: float, begin: float, now: float) -> tuple[float, float]:
    """Work that counts and work that was reached if a job that begins at `begin` stops at `now`."""
    at, reached, counted = begin, saved, saved
    pending: list[tuple[float, float]] = []
    while at + plan.every_s + plan.blocking_s <= now:
        at += plan.every_s + plan.blocking_s
        reached += plan.every_s
        pending.append((at + plan.written_s, reached))
    for written, work in pending:
        counted = work if written <= now else counted
    return counted, reached + min(max(now - at, 0.0), plan.every_s)


def _enough(away: list[tuple[float, int]], spares: int, now: float) -> float:
    """When no more nodes are away than there are spares."""
    missing = sum(nodes for _, nodes in away) - spares
    for back, nodes in sorted(away):
        if missing <= 0:
            return now
        missing -= nodes
        now = back
    return now
