"""A job as plain data: seconds, bytes, joules, US dollars.

Holds `JobRecord` and `job_record`.
"""

from datetime import datetime

from typing_extensions import TypedDict

from syncwall.cause import Cause
from syncwall.job.changes import JobChange
from syncwall.job.completion import Completion
from syncwall.show.records.interface import record
from syncwall.show.words.job import verdict

Three = tuple[float | None, float | None, float | None]
"""P10, P50 and P90; null for what never ends."""


@record
class CheckpointRecord(TypedDict):
    """How the job saves its state."""

    bytes: float
    """Of one checkpoint."""
    blocking_s: float
    """Seconds for which training stops."""
    written_s: float
    """Seconds until it is on storage after that."""
    interval_s: float
    """Between two checkpoints, as planned."""
    best_interval_s: float
    """Between two checkpoints, where least time is lost."""
    young_s: float | None
    """Young's interval; null if nothing fails."""
    daly_s: float | None
    """Daly's interval; null if nothing fails."""


@record
class InputRecord(TypedDict):
    """A value that the plan rests on."""

    name: str
    value: float
    """In SI units."""
    trust: str
    """given, computed, measured, fitted, datasheet or assumed."""
    source: str | None


@record
class JobChangeRecord(TypedDict):
    """One thing done otherwise."""

    change: str
    """In the words of the job's keys."""
    gained_s: float | None
    """Of the P50 from start to end; null if the job ends only with it."""
    saved_usd: float | None
    """Of the P50 of the bill; negative if it costs more."""
    effective_training_time: float
    """Share of the time that is then useful."""


@record
class JobRecord(TypedDict):
    """When a job is done and what it costs."""

    verdict: str
    """In one line."""
    steps: int
    """Optimizer steps."""
    finish_s: Three
    """From start to end."""
    finish_dates: list[str | None] | None
    """The same as dates (ISO 8601), if the job has a start."""
    finished_share: float
    """Share of simulated jobs that come to their end."""
    without_interruptions_s: float
    """The same if nothing failed."""
    interruptions: Three
    """That nobody planned."""
    mean_between_interruptions_s: float | None
    """Null if nothing fails."""
    effective_training_time: float
    """Share of the time that is useful."""
    ledger_s: dict[Cause, float]
    """Seconds by cause, a mean over the jobs that end."""
    mean_s: float
    """What they add up to."""
    cost_usd: Three | None
    """Null if no price is known."""
    energy_j: Three | None
    """Null if no power is known."""
    gpus_paid: int
    """With spare ones."""
    spare_nodes: int
    nodes_taken_by_a_failure: int
    checkpoint: CheckpointRecord
    causes_per_day: dict[str, float]
    """Interruptions a day by cause."""
    inputs: list[InputRecord]
    """What all this rests on."""
    simulations: int
    """Jobs played through."""
    seed: int
    """Of the random numbers."""
    next: list[JobChangeRecord]
    """Single changes, the one that gains most first."""


def job_record(completion: Completion, changes: list[JobChange]) -> JobRecord:
    """The job with what would change it."""
    dates, settled, plan = completion.finish_dates, completion.settled, completion.settled.plan
    return {
        "verdict": verdict(completion),
        "steps": completion.job.total_steps,
        "finish_s": completion.finish_s,
        "finish_dates": None if dates is None else [_iso(date) for date in dates],
        "finished_share": completion.finished_share,
        "without_interruptions_s": plan.run_s,
        "interruptions": completion.interruptions,
        "mean_between_interruptions_s": completion.mean_between_s,
        "effective_training_time": completion.effective,
        "ledger_s": dict(completion.ledger),
        "mean_s": completion.mean_s,
        "cost_usd": completion.cost_usd,
        "energy_j": completion.energy_j,
        "gpus_paid": completion.bill.gpus,
        "spare_nodes": plan.spares,
        "nodes_taken_by_a_failure": settled.domain_nodes,
        "checkpoint": {
            "bytes": settled.checkpoint_bytes,
            "blocking_s": plan.blocking_s,
            "written_s": plan.written_s,
            "interval_s": plan.interval_s,
            "best_interval_s": settled.best_interval_s,
            "young_s": completion.young_s,
            "daly_s": completion.daly_s,
        },
        "causes_per_day": {cause.name: cause.per_s * 86400.0 for cause in plan.causes},
        "inputs": [
            {"name": i.name, "value": i.value, "trust": i.trust, "source": i.source or None}
            for i in completion.inputs
        ],
        "simulations": completion.job.simulations,
        "seed": int(completion.job.seed),
        "next": [
            {
                "change": one.what,
                "gained_s": one.gained_s,
                "saved_usd": one.saved_usd,
                "effective_training_time": one.completion.effective,
            }
            for one in changes
        ],
    }


def _iso(date: datetime | None) -> str | None:
    return date.isoformat() if date else None
