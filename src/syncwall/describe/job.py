"""A whole training job: a run, how long it goes on, and what happens on the way.

Holds `Job` with its parts `Checkpoints`, `Failures`, `Evaluation`, `Stragglers`, `Spikes`,
`Maintenance` and `Power`; and how often machines fail, as somebody counted it: `FailureRates`
(one study of one cluster) and `FailureCause` (one line of it). What is left out is off, or has a
default that `syncwall.job` states with its source.
"""

from datetime import datetime
from typing import Annotated, Literal, Self

from pydantic import Field, model_validator

from syncwall.describe.base import (
    Bytes,
    BytesPerSecond,
    Description,
    Entry,
    NotNegative,
    Positive,
    Ratio,
    Seconds,
    Tokens,
    UsdPerGpuHour,
)
from syncwall.describe.run import Run

Part = Literal["gpu", "node", "nic", "switch", "rack", "job"]
Taken = Literal["nothing", "node", "domain", "rack"]


class FailureCause(Description):
    """One reason why a job stops."""

    name: str
    per: Part
    """What there are many of: GPUs, nodes, NICs, leaf switches, racks, or the one job."""
    per_1000_days: Annotated[float, Field(ge=0)]
    """Interruptions that 1,000 of these cause in a day."""
    takes: Taken = "nothing"
    """What must be repaired before it works again; domain: the node, or all nodes of its scale-up
    domain where that is larger."""


class FailureRates(Entry):
    """Rates of failures that stop a job, by cause."""

    causes: tuple[FailureCause, ...] = Field(min_length=1)
    deviation: Annotated[float, Field(ge=0, le=3)] = 0.0
    """Standard deviation of the logarithm of the rates between clusters; 0 if this cluster is
    meant."""


Share = Annotated[float, Field(ge=0, lt=1)]
Factor = Annotated[float, Field(ge=1, le=1000)]
Rate = Annotated[float, Field(ge=0)]


class Checkpoints(Description):
    """How the state is saved."""

    interval_s: Seconds | None = Field(None, alias="interval", gt=0)
    """Time between the end of one checkpoint and the start of the next; None for the best."""
    storage_bytes_per_s: BytesPerSecond | None = Field(None, alias="storage", gt=0)
    """Rate at which the whole job writes."""
    read_bytes_per_s: BytesPerSecond | None = Field(None, alias="read", gt=0)
    """Rate at which the whole job reads; as it writes if not given."""
    blocking: bool = True
    """True if training waits until the checkpoint is written; else it waits for a copy to host
    memory only, and the checkpoint counts once it is written."""
    copy_bytes_per_s: BytesPerSecond | None = Field(None, alias="copy_rate", gt=0)
    """Rate of one GPU's copy to host memory, for checkpoints that do not block."""
    size_bytes: Bytes | None = Field(None, alias="size", gt=0)
    """Of one checkpoint; weights and optimizer states of the whole model if not given."""


class Failures(Description):
    """How often the job is stopped, and for how long."""

    like: str = "typical"
    """A study in the catalogue (`syncwall show failures`), or a file."""
    per_1000_node_days: Rate | None = None
    """Failures that stop the job, for 1,000 nodes in a day, in place of a study."""
    deviation: Annotated[float, Field(ge=0, le=3)] | None = None
    """Standard deviation of the logarithm of the rate; that of the study if not given."""
    detection_s: Seconds | None = Field(None, alias="detection")
    """From the failure until somebody or something notices."""
    restart_s: Seconds | None = Field(None, alias="restart")
    """From there until the checkpoint is read; reading comes on top."""
    repair_s: Seconds | None = Field(None, alias="repair")
    """Until what was taken away is back."""
    domain_gpus: Positive | None = None
    """GPUs that one failed GPU or node takes away; its scale-up domain if not given."""
    rack_nodes: Positive | None = None
    """Nodes that a failed rack takes away."""
    early_factor: Factor = 1.0
    """Rate on the first day over the steady one (infant mortality)."""
    early_s: Seconds = Field(14 * 86400.0, alias="early_time", gt=0)
    """Time in which what is above the steady rate falls to 1/e."""


class Evaluation(Description):
    """Pauses in which the model is tested."""

    every: Positive
    """Steps between two evaluations."""
    time_s: Seconds = Field(alias="time")
    """Of one evaluation."""


class Stragglers(Description):
    """Nodes that go on, but slowly, on top of the jitter that a predicted step has in it."""

    per_1000_node_days: Rate
    """Nodes that become slow, of 1,000 in a day."""
    slowdown: Factor
    """Time of a step with such a node over that without."""
    time_s: Seconds = Field(alias="time")
    """Until it is found and replaced, or well again."""


class Spikes(Description):
    """Jumps of the loss after which training goes back and skips data."""

    per_1000_steps: Rate
    """Of these."""
    rollback: NotNegative
    """Steps before the spike to which training goes back at least."""


class Maintenance(Description):
    """Planned pauses."""

    every_s: Seconds = Field(alias="every", gt=0)
    """Between two of them."""
    time_s: Seconds = Field(alias="time")
    """Of one, without the checkpoint before and the restart after."""


class Power(Description):
    """What a GPU in the job draws."""

    load: Ratio | None = None
    """Share of the device's TDP."""
    host: Rate | None = None
    """Power of the rest of the node over that of its GPUs."""
    pue: Factor | None = None
    """Power of the building over that of the machines."""


class Job(Description):
    """A run that goes on until it has seen enough tokens."""

    run: Run
    tokens: Tokens | None = None
    steps: Positive | None = None
    """Optimizer steps, as another way to say how long."""
    start: datetime | None = None
    price_usd_per_gpu_hour: UsdPerGpuHour | None = Field(None, alias="price")
    """Paid for every GPU from start to finish, for spares too; from the catalogue if not given."""
    spare_nodes: NotNegative | None = Field(None, alias="spares")
    """Nodes that stand by; None for so many that the job is seldom short of nodes."""
    when_short: Literal["wait", "shrink"] = "wait"
    """If no spare is left: wait for a repair, or go on with fewer replicas."""
    startup_s: Seconds | None = Field(None, alias="startup")
    """From the start until the first step."""
    data_stall: Share = 0.0
    """Waiting for data, over the time of a step."""
    checkpoints: Checkpoints = Checkpoints()
    failures: Failures = Failures()
    evaluation: Evaluation | None = None
    stragglers: Stragglers | None = None
    spikes: Spikes | None = None
    maintenance: Maintenance | None = None
    power: Power = Power()
    simulations: Annotated[int, Field(ge=100, le=10_000_000)] = 1000
    """Jobs that are played through."""
    seed: NotNegative = 0

    @model_validator(mode="after")
    def _one_length(self) -> Self:
        if (self.tokens is None) == (self.steps is None):
            raise ValueError("write either `tokens` or `steps`")
        if self.tokens is not None and self.tokens <= 0:
            raise ValueError("a job needs at least one token")
        return self

    @property
    def total_steps(self) -> int:
        """Optimizer steps of the job."""
        if self.steps is not None:
            return self.steps
        assert self.tokens is not None
        return -int(-self.tokens // self.run.tokens_per_step)


__all__ = [
    "Checkpoints", "Evaluation", "FailureRates", "Failures", "Job", "Maintenance", "Power",
    "Spikes", "Stragglers",
]  # fmt: skip
