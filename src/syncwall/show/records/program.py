"""A recorded program, predicted, as plain data: seconds, bytes, FLOP.

Holds `ProgramRecord` with `program_record`.
"""

from typing_extensions import TypedDict

from syncwall.answer.priced import MFU_CONVENTION
from syncwall.answer.program import ProgramPrediction, Share
from syncwall.answer.program_changes import ProgramChange, largest_batch
from syncwall.answer.verdict import Verdict
from syncwall.cause import Cause
from syncwall.show.records.capture import NoteRecord, note_records
from syncwall.show.records.interface import record


@record
class ProgramRecord(TypedDict):
    """What is to be expected of a recorded program."""

    command: str
    """What was recorded."""
    torch: str
    """With which version of PyTorch."""
    world_size: int
    """Ranks."""
    cluster: str
    """The machine."""
    compiled: bool
    """True if memory-bound kernels are joined."""
    verdict: Verdict
    """What limits the program."""
    step_s: float
    """Median of the time of a step."""
    step_interval_s: tuple[float, float]
    """P10 and P90 of it."""
    tokens_per_s_per_gpu: float
    """Tokens a second of each GPU; 0 if the inputs are no tokens."""
    samples_per_s: float
    """Samples a second of all GPUs; 0 if nobody knows the samples of a step."""
    mfu: float
    """Model FLOPs utilization, a fraction."""
    hfu: float
    """Hardware FLOPs utilization: with what is computed twice."""
    mfu_convention: str
    """Which FLOPs are counted, over which peak."""
    fits: bool
    """True if the fullest rank has enough memory."""
    memory_bytes: float
    """Of the fullest rank."""
    memory_interval_bytes: tuple[float, float]
    """P10 and P90 of it."""
    fits_probability: float
    """How likely it fits."""
    memory_by_kind_bytes: dict[str, float]
    """What the memory is used for."""
    largest_batch: float | None
    """Times the recorded batch of a rank that fits; None if nothing grows with it."""
    ledger_s: dict[Cause, float]
    """Seconds by cause; they add up to the step."""
    exposed_s: float
    """Seconds that wait for communication."""
    model_flops: float
    """Of one step, over all GPUs."""
    parameters: float
    """Of the whole model."""
    unknown: float
    """Share that is unknown, made up or left out: of FLOPs or bytes, whichever is more."""
    by_module: list[Share]
    """Seconds of kernels by module, the longest first."""
    by_source: list[Share]
    """Seconds of kernels by the user's line, the longest first."""
    next: list[ProgramChange]
    """Single changes that help, the best first."""
    notes: list[NoteRecord]
    """What makes the recording differ from the program on GPUs, most of the step first."""


def program_record(prediction: ProgramPrediction, changes: list[ProgramChange]) -> ProgramRecord:
    """All of it."""
    program = prediction.program
    return {
        "command": program.command,
        "torch": program.torch,
        "world_size": program.world_size,
        "cluster": prediction.cluster.name,
        "compiled": prediction.compiled,
        "verdict": prediction.verdict,
        "step_s": prediction.step_s,
        "step_interval_s": prediction.step_interval_s,
        "tokens_per_s_per_gpu": prediction.tokens_per_s_per_gpu,
        "samples_per_s": prediction.samples_per_s,
        "mfu": prediction.mfu,
        "hfu": prediction.hfu,
        "mfu_convention": MFU_CONVENTION,
        "fits": prediction.fits,
        "memory_bytes": prediction.memory_bytes,
        "memory_interval_bytes": prediction.room.interval_bytes,
        "fits_probability": prediction.room.probability,
        "memory_by_kind_bytes": prediction.memory_by_kind,
        "largest_batch": largest_batch(prediction),
        "ledger_s": dict(prediction.ledger),
        "exposed_s": prediction.exposed_s,
        "model_flops": program.model_flops,
        "parameters": program.parameters,
        "unknown": prediction.unknown,
        "by_module": prediction.by_module(),
        "by_source": prediction.by_source(),
        "next": changes,
        "notes": note_records(program),
    }
