"""A job as plain data: seconds, bytes, joules, US dollars.

Holds `JobRecord` with its parts, and `job_record`.
"""

from datetime import datetime

from typing_extensions import TypedDict

from syncwall.cause import Cause
from syncwall.job.changes import JobChange
from syncwall.job.completion import Completion
from syncwall.job.phases import PredictedPhase
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
class PhaseRecord(TypedDict):
    """Steps of a job that are alike: a phase, or one batch size of a phase whose batch grows."""

    phase: str
    """Its name, or its number."""
    global_batch: int
    """Sequences of one optimizer step."""
    seq: int
    """Tokens in a sequence."""
    steps: int
    tokens: int
    step_s: float
    """P50, as `predict` has it of the same run."""
    tokens_per_s_per_gpu: float
    mfu: float
    fits: bool
    """Enough memory on the fullest GPU."""
    work_s: float
    """All its steps, undisturbed."""
    gpu_hours: float
    """Of that time, without spares."""
    ledger_s: dict[Cause, float]
    """Seconds of one step by cause."""


@record
class JobRecord(TypedDict):
    """When a job is done and what it costs."""

    verdict: str
    """In one line."""
    steps: int
    """Optimizer steps."""
    phases: list[PhaseRecord]
    """In their order; empty if all steps are alike because the job has no phases."""
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
    usd_per_gpu_hour: float | None
    """Rented; null if no price is known."""
    owned_usd_per_gpu_hour: float | None
    """If the GPUs are bought: price over hours of use, and electricity; null if no price to buy one
    is known."""
    owned_cost_usd: Three | None
    """The bill if the GPUs are bought."""
    energy_j: Three | None
    """Null if no power is known."""
    carbon_kg: Three | None
    """CO2 equivalents of the energy."""
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
        "steps": completion.phases.steps,
        "phases": [_phase(one) for one in completion.phases.parts if completion.job.phases],
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
        "usd_per_gpu_hour": completion.bill.usd_per_gpu_hour,
        "owned_usd_per_gpu_hour": completion.bill.owned_usd_per_gpu_hour,
        "owned_cost_usd": completion.owned_cost_usd,
        "energy_j": completion.energy_j,
        "carbon_kg": completion.carbon_kg,
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


def _phase(one: PredictedPhase) -> PhaseRecord:
    run, found = one.stretch.run, one.prediction
    return {
        "phase": one.stretch.phase,
        "global_batch": int(run.layout.global_batch),
        "seq": int(run.seq),
        "steps": one.stretch.steps,
        "tokens": one.stretch.tokens,
        "step_s": found.step_s,
        "tokens_per_s_per_gpu": found.tokens_per_s_per_gpu,
        "mfu": found.mfu,
        "fits": found.fits,
        "work_s": one.work_s,
        "gpu_hours": one.gpu_hours,
        "ledger_s": dict(found.ledger),
    }


def _iso(date: datetime | None) -> str | None:
    return date.isoformat() if date else None
