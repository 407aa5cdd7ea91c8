"""What would make a job end sooner: each change is the job played through again.

Holds `JobChange`, `changes` and `tried`. All are played with the seed of the job itself, so that
they meet the same failures.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from syncwall.catalogue import searched_first
from syncwall.describe import Job
from syncwall.describe.base import Description
from syncwall.job.completion import Completion, finish_all
from syncwall.job.defaults import QUICK_DETECTION_S
from syncwall.job.endless import is_endless
from syncwall.job.settled import settle
from syncwall.job.simulation import Progress
from syncwall.public import Endless, published

FASTER_STORAGE = 4.0


@published("change=what gained_s saved_usd effective_training_time=completion.effective")
@dataclass(frozen=True)
class JobChange:
    """One change, and what it is computed to bring."""

    what: str
    """In the words of the job's keys."""
    completion: Completion
    gained_s: Endless
    """Of the P50 from start to end; infinite if the job ends only with it."""
    saved_usd: float | None
    """Of the P50 of the bill; negative if it costs more."""


def changes(completion: Completion, progress: Progress | None = None) -> list[JobChange]:
    """Single changes of the job, the one that gains most first."""
    with searched_first(completion.prediction.pricing.catalogue):
        return _changes(completion, progress)


def _changes(completion: Completion, progress: Progress | None) -> list[JobChange]:
    prediction, phases = completion.prediction, completion.phases
    others = [
        one for one in tried(completion) if not is_endless(settle(one[1], prediction, phases).plan)
    ]
    if not others:
        return []
    played = finish_all([job for _, job in others], prediction, phases, progress=progress)
    found = [
        JobChange(what, other, *_gains(completion, other))
        for (what, _), other in zip(others, played, strict=True)
    ]
    return sorted(found, key=lambda change: -change.gained_s)


def _gains(before: Completion, after: Completion) -> tuple[float, float | None]:
    neither = before.finish_s[1] == after.finish_s[1] == float("inf")
    gained = 0.0 if neither else before.finish_s[1] - after.finish_s[1]
    costs = before.cost_usd, after.cost_usd
    if costs[0] is None or costs[1] is None or not abs(gained) < float("inf"):
        return gained, None
    return gained, costs[0][1] - costs[1][1]


def tried(completion: Completion) -> Iterator[tuple[str, Job]]:
    """Jobs that differ from this one in a single thing, and what that is."""
    job, settled = completion.job, completion.settled
    plan, run = settled.plan, completion.prediction.run
    if plan.rate_per_s <= 0:
        return
    saving, known = job.checkpoints, job.measured
    if saving.interval_s is not None:
        yield "checkpoints.interval best", _with(job, "checkpoints", interval_s=None)
    if saving.blocking:
        copied = _with(job, "measured", checkpoint_s=None)
        yield "checkpoints.blocking false", _with(copied, "checkpoints", blocking=False)
    written_s = plan.written_s or plan.blocking_s
    rate = FASTER_STORAGE * settled.checkpoint_bytes / max(written_s, 1e-9)
    faster = _with(job, "checkpoints", storage_bytes_per_s=rate)
    yield "storage 4 times as fast", _with(faster, "measured", checkpoint_s=None)
    if plan.detection_s > QUICK_DETECTION_S:
        quick = _with(job, "failures", detection_s=QUICK_DETECTION_S)
        yield "failures.detection 30 s", quick
    half_s = float(_input(completion, "restart")) / 2
    part = "failures" if known.restart_s is None else "measured"
    yield "restart in half the time", _with(job, part, restart_s=half_s)
    more = max(settled.domain_nodes, plan.spares // 2)
    yield (
        f"{more} more spare node{'s' * (more > 1)}",
        job.model_copy(update={"spare_nodes": plan.spares + more}),
    )
    if settled.domain_nodes > 1:
        gpus = int(run.cluster.gpus_per_node)
        one = _with(job, "failures", domain_gpus=gpus)
        yield f"failures.domain_gpus {gpus} (one node, not {settled.domain_nodes})", one
    if job.when_short == "wait":
        yield "when_short shrink", job.model_copy(update={"when_short": "shrink"})


def _with(job: Job, part: str, **fields: Any) -> Job:
    """`job` with other values in one of its parts."""
    before: Description = getattr(job, part)
    return job.model_copy(update={part: before.model_copy(update=fields)})


def _input(completion: Completion, name: str) -> float:
    return next(i.value for i in completion.inputs if i.name == name)
