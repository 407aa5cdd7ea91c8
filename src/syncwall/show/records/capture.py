"""What was recorded of a program as plain data.

Holds `CaptureRecord` with `capture_record`, and `NoteRecord` with `note_records`.
"""

from typing_extensions import TypedDict

from syncwall.show.records.interface import record
from syncwall.work.program import HeldKind, NoteKind, Program, RankProgram
from syncwall.work.recorded import memory_traffic_bytes, noted_shares, sent


@record
class SentRecord(TypedDict):
    """Equal communication of one rank."""

    kind: str
    """all-gather, reduce-scatter, ..., or message."""
    axis: str
    """What its group is for: tp, shard, dp, ..."""
    ranks: float
    """Ranks of the group."""
    calls: int
    """In the step."""
    bytes: float
    """Together: the size that nccl-tests prints, summed."""


@record
class RecordedRankRecord(TypedDict):
    """What one class of equal ranks does in a step."""

    rank: int
    """The rank that was recorded."""
    alike: int
    """Ranks that do the same, this one among them."""
    operations: int
    """Kernels."""
    host_waits: int
    """Times that the host waits for the device, such as for `.item()`."""
    model_flops: float
    """Of the mathematics on this rank."""
    recompute_flops: float
    """Done a second time."""
    memory_traffic_bytes: float
    """That all kernels together read and write."""
    communication: list[SentRecord]
    """Collectives and messages by kind and group, most bytes first."""
    held_bytes: float
    """On the device when it is fullest."""
    held: dict[str, float]
    """The same by what it is for: weights, gradients, optimizer, activations, ..."""


@record
class NoteRecord(TypedDict):
    """Something that makes the recording differ from the program on GPUs."""

    kind: NoteKind
    """Why."""
    what: str
    """The operation, the parameter or the value."""
    module: str
    """Name of the module; empty outside of all."""
    source: str
    """File and line of the user's program; empty if there is none."""
    count: int
    """How often."""
    flops_share: float
    """Of the FLOPs of a step."""
    bytes_share: float
    """Of the memory traffic of a step; of padding, of what is sent in a step."""


@record
class CaptureRecord(TypedDict):
    """One optimizer step of a user's own program."""

    command: str
    """What was run."""
    torch: str
    """Version of PyTorch."""
    compiled: bool
    """The program asks for `torch.compile`."""
    world_size: int
    """Ranks of the job."""
    parameters: float
    """Of the whole model."""
    samples: float
    """Of the step, all ranks together; 0 if nobody knows."""
    tokens: float
    """Of the step, all ranks together; 0 if the inputs are no tokens."""
    model_flops: float
    """Of the step, all ranks together."""
    ranks: list[RecordedRankRecord]
    """One for each class of equal ranks."""
    notes: list[NoteRecord]
    """What the recording does not know exactly, most of the step first."""
    file: str
    """Where it was written; empty if nowhere."""
    seconds: float | None
    """That recording took; null if nobody measured it."""


def capture_record(program: Program, file: str = "", seconds: float | None = None) -> CaptureRecord:
    """All of it."""
    return {
        "command": program.command, "torch": program.torch, "compiled": program.compiled,
        "world_size": program.world_size,
        "parameters": program.parameters, "samples": program.samples, "tokens": program.tokens,
        "model_flops": program.model_flops, "ranks": [_rank(one) for one in program.ranks],
        "notes": note_records(program), "file": file, "seconds": seconds,
    }  # fmt: skip


def _rank(one: RankProgram) -> RecordedRankRecord:
    communication: list[SentRecord] = [
        {"kind": row.kind, "axis": row.axis, "ranks": row.ranks, "calls": row.calls,
         "bytes": row.bytes}
        for row in sent(one)
    ]  # fmt: skip
    held = dict.fromkeys(map(str, HeldKind), 0.0) | one.held_by_kind
    return {
        "rank": one.rank, "alike": one.alike,
        "operations": sum(hasattr(call.what, "hbm_bytes") for call in one),
        "host_waits": sum(call.host_waits for call in one), "model_flops": one.model_flops,
        "recompute_flops": one.recompute_flops, "memory_traffic_bytes": memory_traffic_bytes(one),
        "communication": communication, "held_bytes": one.held_bytes, "held": held,
    }  # fmt: skip


def note_records(program: Program) -> list[NoteRecord]:
    """All notes of a program, those about the most of it first."""
    return [
        {
            "kind": one.note.kind, "what": one.note.what, "module": one.note.place.module,
            "source": one.note.place.source, "count": one.note.count, "flops_share": one.flops,
            "bytes_share": one.bytes,
        }
        for one in noted_shares(program)
    ]  # fmt: skip
