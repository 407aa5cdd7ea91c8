"""A step of reinforcement learning as plain data.

Holds `RlRecord` with its parts, and `rl_record`.
"""

from typing import Annotated, Any

from typing_extensions import TypedDict

from syncwall.answer.rl_step import (
    PUBLISHED_ERRORS,
    PUBLISHED_SOURCE,
    PUBLISHED_STEPS,
    RlPart,
    RlPhase,
    RlPrediction,
)
from syncwall.cause import Cause
from syncwall.describe.rl import RlStep
from syncwall.show.records.description import record as described
from syncwall.show.records.interface import DescribedAs, plain, record
from syncwall.show.records.prediction import RunFields, StepRecord, step_record

RlFields = Annotated[dict[str, Any], DescribedAs(RlStep)]
"""What is generated and how often it is read again."""


@record
class RlPhaseRecord(TypedDict):
    """A phase of the step."""

    phase: RlPart
    seconds: float
    share: float
    """Of the step; phases that run beside each other have more than one in all."""
    gpus: int
    """That are busy with it."""
    is_predicted: bool
    """False for generation: its rate is stated."""
    as_published_s: tuple[float, float] | None
    """Seconds if the prediction is as far off as that of published steps; null if not known."""
    ledger_s: dict[Cause, float] | None
    """Seconds by cause; null for what is stated or one transfer."""


@record
class PublishedErrorsRecord(TypedDict):
    """How far such predictions were off."""

    steps: int
    """Published steps that were predicted."""
    source: str
    """Where they are published."""
    errors: dict[RlPart, tuple[float, float]]
    """Predicted over measured seconds, less one: the lowest and the highest, by phase."""


@record
class RlRecord(TypedDict):
    """A step of reinforcement learning."""

    step_s: float
    """All phases, one after the other unless `one_step_off`."""
    as_published_s: tuple[float, float]
    """The step if training and log-probabilities are as far off as those of published steps."""
    gpus: int
    """With those that only generate."""
    idle: float
    """Share of the time of all GPUs in which they wait for the others' phase."""
    tokens_per_s_per_gpu: float
    """Tokens of prompts and responses, over all GPUs."""
    fits: bool
    """True if training has enough memory; that of the generator is not counted."""
    phases: list[RlPhaseRecord]
    published: PublishedErrorsRecord
    rl: RlFields
    update: StepRecord
    """One optimizer update, as `predict` has it for `run`."""
    run: RunFields
    """The run of an update: its batch is the samples of one, packed."""


def rl_record(found: RlPrediction) -> RlRecord:
    """The step with its update."""
    errors = dict(PUBLISHED_ERRORS)
    return {
        "step_s": found.step_s,
        "as_published_s": found.as_published_s,
        "gpus": found.gpus,
        "idle": found.idle,
        "tokens_per_s_per_gpu": found.tokens_per_s_per_gpu,
        "fits": found.fits,
        "phases": [_phase(one, found.step_s) for one in found.phases],
        "published": {"steps": PUBLISHED_STEPS, "source": PUBLISHED_SOURCE, "errors": errors},
        "rl": plain(found.rl),
        "update": step_record(found.update),
        "run": described(found.update.run),
    }


def _phase(one: RlPhase, step_s: float) -> RlPhaseRecord:
    return {
        "phase": one.part,
        "seconds": one.seconds,
        "share": one.seconds / step_s,
        "gpus": one.gpus,
        "is_predicted": one.part is not RlPart.GENERATION,
        "as_published_s": one.as_published_s,
        "ledger_s": None if one.ledger is None else dict(one.ledger),
    }
