"""Phases of a job: stretches of training that differ in batch, sequence length or layout.

Holds `Phase`, its `Ramp` (a batch that grows), and `stretches`, which makes of the phases of a job
runs whose steps are all alike: `Stretch`. What a phase leaves out is as in the run of the job.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Annotated, Any, Final, Self

from pydantic import BeforeValidator, Field, ValidationError, model_validator

from syncwall.describe.base import Description, Sequences, SequenceTokens, Steps, Tokens, faults
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
    return Run.model_validate({
        "model": run.model, "cluster": run.cluster, "software": run.software,
        "layout": kept | phase.layout, "seq": run.seq if phase.seq is None else phase.seq,
    })  # fmt: skip


def _read(value: Any) -> Any:
    """Phases as text, as a flag or a page gives them, are read as in a file."""
    return parse_document(value, "phases").value if isinstance(value, str) else value


Phases = Annotated[tuple[Phase, ...], BeforeValidator(_read), Field(max_length=MOST_STRETCHES)]
"""Phases of a job, in their order."""
