"""A whole training job: a run, its phases, how long it goes on, and what happens on the way.

What a phase leaves out is as in the run of the job.

What is left out is off, or has a default that `syncwall.job` states with its source.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Annotated, Any, Final, Literal, Self

from pydantic import BeforeValidator, Field, ValidationError, model_validator

from syncwall.describe.base import (
    Bytes,
    BytesPerSecond,
    CatalogueEntry,
    Delay,
    Description,
    NotNegative,
    NotNegativeNumber,
    Positive,
    PositiveNumber,
    Ratio,
    Seconds,
    Seed,
    Sequences,
    SequenceTokens,
    Steps,
    Tokens,
    Usd,
    UsdPerGpuHour,
    faults,
)
from syncwall.describe.faults import faults_of
from syncwall.describe.run import Run
from syncwall.documents import KeyPath, parse_document

MOST_STRETCHES: Final = 64
"""Batch sizes of all phases of a job together."""
_ELSEWHERE: Final = ("global_batch", "seq")


class Ramp(Description):
    """A batch that grows to that of its phase, as with Megatron's --rampup-batch-size."""

    start: Sequences
    """Sequences of the first steps."""
    increment: Sequences
    """Sequences by which the batch grows; each size trains on as many tokens as the others."""


class Phase(Description):
    """A part of a job, with what is other in it than in the job's run."""

    name: str | None = Field(None, max_length=40)
    """What it is called; its number if not given."""
    tokens: Tokens | None = None
    """Tokens to train on in this phase."""
    steps: Steps | None = None
    """Optimizer steps, as another way to say how long the phase is."""
    global_batch: Sequences | None = None
    """Sequences of one optimizer step; as in the run if not given."""
    seq: SequenceTokens | None = None
    """Tokens in a sequence; as in the run if not given."""
    layout: dict[str, Any] = Field(default_factory=dict)
    """Keys of the layout that are other than in the run: {cp: 16, recompute: full}."""
    ramp: Ramp | None = None
    """The batch grows to `global_batch`, which comes with the next phase; none if not given."""

    @model_validator(mode="after")
    def _consistent(self) -> Self:
        if (self.tokens is None) == (self.steps is None):
            raise ValueError("write either `tokens` or `steps` of each phase")
        if self.ramp is not None and self.tokens is None:
            raise ValueError("write the `tokens` of a phase whose batch grows, not its steps")
        for key in _ELSEWHERE:
            if key in self.layout:
                raise ValueError(f"write `{key}` beside `layout`, not in it")
        return self


@dataclass(frozen=True, slots=True)
class Stretch:
    """Steps of a job that are all alike."""

    phase: str
    """Name of the phase that they belong to."""
    run: Run
    steps: int

    @property
    def tokens(self) -> int:
        """Tokens of all its steps."""
        return self.steps * self.run.tokens_per_step


def stretches(phases: Sequence[Phase], run: Run) -> tuple[Stretch, ...]:
    """What `phases` of a job with this `run` consist of; faults name the phase."""
    found: list[Stretch] = []
    for number, phase in enumerate(phases):
        try:
            found += _stretches(phase, run, phase.name or f"{number + 1}")
        except ValidationError as error:
            raise faults([_at(number, *fault) for fault in faults_of(error, Run)]) from None
        if len(found) > MOST_STRETCHES:
            message = f"more than {MOST_STRETCHES} batch sizes: write larger increments"
            raise faults([(("phases", number), message)])
    return tuple(found)


def _at(number: int, path: KeyPath, message: str) -> tuple[KeyPath, str]:
    """A fault of a phase's run, where the phase states it."""
    inside = path[1:] if path[-1:] == ("global_batch",) else path
    return ("phases", number, *inside), message


def _stretches(phase: Phase, run: Run, name: str) -> Iterator[Stretch]:
    whole = _changed(run, phase, phase.global_batch)
    if phase.steps is not None:
        yield Stretch(name, whole, phase.steps)
        return
    assert phase.tokens is not None
    sizes = _sizes(phase.ramp, int(whole.layout.global_batch))
    for size in sizes:
        one = whole if phase.ramp is None else _changed(run, phase, size)
        tokens = phase.tokens / len(sizes)
        yield Stretch(name, one, -int(-tokens // one.tokens_per_step))


def _sizes(ramp: Ramp | None, whole: int) -> Sequence[int]:
    """Batch sizes of a phase: those below the `whole` one, if it grows."""
    if ramp is None:
        return (whole,)
    return range(ramp.start, whole, ramp.increment)[: MOST_STRETCHES + 1] or (whole,)


def _changed(run: Run, phase: Phase, global_batch: int | None) -> Run:
    """`run` with what is other in `phase`; itself if nothing is."""
    if not phase.layout and global_batch is None and phase.seq is None:
        return run
    layout = run.layout
    kept: dict[str, Any] = dict(layout) | {"dp": None}
    if layout.shard_degree == layout.dp * layout.cp:
        kept["shard_degree"] = None  # all ranks, however many they are now
    if global_batch is not None:
        kept["global_batch"] = global_batch
    return Run.model_validate(
        {
            "model": run.model,
            "cluster": run.cluster,
            "software": run.software,
            "layout": kept | phase.layout,
            "seq": run.seq if phase.seq is None else phase.seq,
        }
    )


def _read(value: Any) -> Any:
    """Phases as text, as a flag or a page gives them, are read as in a file."""
    return parse_document(value, "phases").value if isinstance(value, str) else value


Phases = Annotated[tuple[Phase, ...], BeforeValidator(_read), Field(max_length=MOST_STRETCHES)]
"""Phases of a job, in their order."""


FailureUnit = Literal["gpu", "node", "nic", "switch", "rack", "job"]
Taken = Literal["nothing", "node", "domain", "rack"]


class FailureCause(Description):
    """One reason why a job stops."""

    name: str
    """What fails."""
    per: FailureUnit
    """What there are many of: GPUs, nodes, NICs, leaf switches, racks, or the one job."""
    per_1000_days: NotNegativeNumber
    """Interruptions that 1,000 of these cause in a day."""
    takes: Taken = "nothing"
    """What must be repaired before it works again; domain: the node, or as many GPUs as
    `failures.domain_gpus` of a job says."""


class FailureRates(CatalogueEntry):
    """Rates of failures that stop a job, by cause."""

    causes: tuple[FailureCause, ...] = Field(min_length=1)
    """Every reason with its rate."""
    deviation: Annotated[float, Field(ge=0, le=3)] = 0.0
    """Standard deviation of the logarithm of the rates between clusters; 0 if this cluster is
    meant."""


Factor = Annotated[float, Field(ge=1, le=1000)]


class Checkpoints(Description):
    """How the state is saved."""

    interval_s: Seconds | None = Field(None, alias="interval")
    """Time between the end of one checkpoint and the start of the next; the best if not
    given."""
    storage_bytes_per_s: BytesPerSecond | None = Field(None, alias="storage")
    """Rate at which the whole job writes; 1 GB/s a node if not given."""
    read_bytes_per_s: BytesPerSecond | None = Field(None, alias="read")
    """Rate at which the whole job reads; as it writes if not given."""
    blocking: bool | None = None
    """Training waits until the checkpoint is written; else for a copy to host memory only, and the
    checkpoint counts once it is written. If not given, it waits below 1,000 GPUs."""
    copy_bytes_per_s: BytesPerSecond | None = Field(None, alias="copy_rate")
    """Rate of one GPU's copy to host memory, for checkpoints that do not block; 1 GB/s if not
    given."""
    size_bytes: Bytes | None = Field(None, alias="size")
    """Size of a checkpoint; weights and optimizer states of the whole model if not given."""


class Failures(Description):
    """How often the job is stopped, and for how long."""

    like: str = "typical"
    """A study in the catalogue (`syncwall show failures`), or a file."""
    per_1000_node_days: NotNegativeNumber | None = None
    """Failures that stop the job, for 1,000 nodes in a day, instead of a study."""
    deviation: Annotated[float, Field(ge=0, le=3)] | None = None
    """Standard deviation of the logarithm of the rate; that of the study if not given."""
    detection_s: Delay | None = Field(None, alias="detection")
    """From a failure until it is noticed and found; if not given 10 min, from 1,000 GPUs on 4 min."""
    restart_s: Delay | None = Field(None, alias="restart")
    """From there until the checkpoint is read, without reading; 1 min and 8.5 ms for each GPU if
    not given."""
    repair_s: Delay | None = Field(None, alias="repair")
    """Until what a failure took away is back; 1 day if not given."""
    domain_gpus: Positive | None = None
    """GPUs that one failed GPU or node takes away; those of its node (a tray of a rack) if not
    given."""
    rack_nodes: Positive | None = None
    """Nodes that a failed rack takes away; 4, or those of a scale-up domain, if not given."""
    early_factor: Factor = 1.0
    """Rate on the first day over the steady one (infant mortality)."""
    early_s: Seconds = Field(14 * 86400.0, alias="early_time")
    """Time in which what the first days have above the steady rate falls to 1/e."""


class Evaluation(Description):
    """Pauses in which the model is tested."""

    every: Positive
    """Steps between two evaluations."""
    time_s: Delay = Field(alias="time")
    """Time of one evaluation."""


class Stragglers(Description):
    """Nodes that go on, but slowly, on top of the jitter that a predicted step has in it."""

    per_1000_node_days: NotNegativeNumber
    """Nodes that become slow, of 1,000 in a day."""
    slowdown: Factor
    """Time of a step with a slow node over that without."""
    time_s: Delay = Field(alias="time")
    """Until a slow node is found and replaced, or well again."""


class Spikes(Description):
    """Jumps of the loss after which training goes back and skips data."""

    per_1000_steps: NotNegativeNumber
    """Jumps of the loss in 1,000 steps."""
    rollback: NotNegative
    """Steps before a jump of the loss to which training goes back at least."""


class Maintenance(Description):
    """Planned pauses."""

    every_s: Seconds = Field(alias="every")
    """Time between two planned pauses."""
    time_s: Delay = Field(alias="time")
    """Time of a planned pause, without the checkpoint before and the restart after."""


class Power(Description):
    """What a GPU in the job draws."""

    load: Ratio | None = None
    """Power of a GPU as a share of its TDP; 0.8 if not given."""
    host: NotNegativeNumber | None = None
    """Power of the rest of the node over that of its GPUs; 0.5 if not given."""
    pue: Factor | None = None
    """Power of the building over that of the machines; 1.2 if not given."""
    region: str | None = None
    """Country whose electricity is used, for its carbon; the world's mean if not given."""
    carbon_g_per_kwh: NotNegativeNumber | None = Field(None, alias="carbon")
    """Grams of CO2 equivalents for a kWh; that of the region if not given."""


class Owned(Description):
    """What GPUs cost that are bought, not rented."""

    price_usd: Usd | None = Field(None, alias="price")
    """To buy one GPU with its share of node, switches and cables; from the catalogue if not
    given."""
    years: PositiveNumber | None = None
    """Years of use over which the price is spread evenly; 5 if not given."""
    electricity_usd_per_kwh: NotNegativeNumber | None = Field(None, alias="electricity")
    """US dollars for a kWh; 0.0806 if not given."""


class MeasuredJob(Description):
    """What is known of a job that runs, in place of what is predicted or assumed."""

    step_s: Seconds | None = Field(None, alias="step")
    """Time of an optimizer step."""
    checkpoint_s: Delay | None = Field(None, alias="checkpoint")
    """Time for which a checkpoint stops the work."""
    restart_s: Delay | None = Field(None, alias="restart")
    """From a failure until work goes on: detection, restart and reading the checkpoint."""


class Job(Description):
    """A run that goes on until it has seen enough tokens."""

    run: Run
    """The step that is repeated."""
    tokens: Tokens | None = None
    """Tokens to train on."""
    steps: Steps | None = None
    """Optimizer steps, as another way to say how long."""
    phases: Phases = ()
    """What is trained one after the other, in place of `tokens`: [{tokens: 1T, seq: 4096}, ...]."""
    start: datetime | None = None
    """When the job starts; no dates are given without it."""
    price_usd_per_gpu_hour: UsdPerGpuHour | None = Field(None, alias="price")
    """Paid for every GPU from start to finish, for spares too; from the catalogue if not given."""
    spare_nodes: NotNegative | None = Field(None, alias="spares")
    """Spare nodes; enough that the job is seldom short of nodes if not given."""
    when_short: Literal["wait", "shrink"] = "wait"
    """If no spare is left: wait for a repair, or go on with fewer replicas."""
    startup_s: Delay | None = Field(None, alias="startup")
    """From the start until the first step; as a restart if not given."""
    data_stall: NotNegativeNumber = 0.0
    """Waiting for data, over the time of a step."""
    checkpoints: Checkpoints = Field(default_factory=Checkpoints)
    """How the state is saved."""
    failures: Failures = Field(default_factory=Failures)
    """How often the job is stopped, and for how long."""
    evaluation: Evaluation | None = None
    """Pauses in which the model is tested."""
    stragglers: Stragglers | None = None
    """Nodes that go on, but slowly."""
    spikes: Spikes | None = None
    """Jumps of the loss after which training goes back."""
    maintenance: Maintenance | None = None
    """Planned pauses."""
    power: Power = Field(default_factory=Power)
    """What a GPU in the job draws."""
    owned: Owned = Field(default_factory=Owned)
    """What its GPUs cost if they are bought, beside what they cost rented."""
    measured: MeasuredJob = Field(default_factory=MeasuredJob)
    """What is known of the job while it runs; `predict --life FILE` takes it from there."""
    simulations: Annotated[int, Field(ge=100, le=1_000_000)] = 1000
    """Jobs that are played through."""
    seed: Seed = 0
    """Of the random numbers; the same seed gives the same answer."""

    @model_validator(mode="after")
    def _one_length(self) -> Self:
        if self.phases:
            self._check_phases()
        elif (self.tokens is None) == (self.steps is None):
            raise ValueError("write either `tokens` or `steps`")
        return self

    def _check_phases(self) -> None:
        if self.tokens is not None or self.steps is not None:
            raise ValueError("the phases say how long the job is: leave out `tokens` and `steps`")
        if self.measured.step_s is not None:
            raise ValueError("`measured.step` is one step, those of phases differ: leave it out")
        stretches(self.phases, self.run)  # raises what is wrong with them

    @property
    def stretches(self) -> tuple[Stretch, ...]:
        """Steps that are alike, in their order: one stretch if the job has no phases."""
        if self.phases:
            return stretches(self.phases, self.run)
        return (Stretch("", self.run, self._steps),)

    @property
    def total_steps(self) -> int:
        """Optimizer steps of the job."""
        return sum(one.steps for one in self.stretches)

    @property
    def _steps(self) -> int:
        if self.steps is not None:
            return self.steps
        assert self.tokens is not None
        return -int(-self.tokens // self.run.tokens_per_step)


__all__ = [
    "Checkpoints",
    "Evaluation",
    "FailureRates",
    "Failures",
    "Job",
    "Maintenance",
    "MeasuredJob",
    "Owned",
    "Power",
    "Spikes",
    "Stragglers",
]
