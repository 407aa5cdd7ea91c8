"""A training program as it was recorded: every kernel, collective and wait of one step.

Holds `Program`, `RankProgram` (what one class of equal ranks does), `Call`, `Place`, `Held`,
`ShardedUnit` and `Note`. A description becomes a `Work` of repeated blocks for any layout; a
program is one list of calls on named streams for the layout that it was recorded in. Nothing here
needs PyTorch.
"""

from collections.abc import Iterator
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any

from syncwall.public import Answer, Late, published
from syncwall.work.block import AnyTask, Phase
from syncwall.work.operations import CoreAttention

COMPUTE_STREAM = "compute"
"""The stream that everything runs on if the program names no other."""


@dataclass(frozen=True, slots=True)
class Place:
    """Where in the user's program a call comes from."""

    module: str = ""
    """Name of the module, as `named_modules` has it; empty outside of all."""
    source: str = ""
    """`train.py:41`, the innermost line that is the user's own; empty if there is none."""


NOWHERE = Place()


@dataclass(frozen=True, slots=True)
class Call:
    """One kernel, collective or message, or the host waiting for the device."""

    name: str
    """As PyTorch calls it: `aten.mm`, `c10d.allgather_base`."""
    what: AnyTask | None
    """None where the host waits, and nothing runs."""
    stream: str = COMPUTE_STREAM
    """Calls of a stream run in order. A collective has the stream of its process group."""
    after: tuple[int, ...] = ()
    """Calls whose end it waits for, besides the call before it on its stream."""
    phase: Phase = Phase.FORWARD
    place: Place = NOWHERE
    reads: tuple[int, ...] = ()
    """Numbers of the tensors that it reads; of views, that of the tensor they show."""
    writes: tuple[int, ...] = ()
    host_waits: bool = False
    """The host goes on only when all calls in `after` have ended (`.item()`, `synchronize`)."""
    micro_batch: int = 0
    """Of gradient accumulation, or of a pipeline: which one it belongs to."""


class HeldKind(StrEnum):
    """What bytes on a device are for."""

    WEIGHTS = "weights"
    GRADIENTS = "gradients"
    OPTIMIZER = "optimizer"
    ACTIVATIONS = "activations"
    """Kept from the forward pass for the backward pass."""
    GATHERED = "unsharded weights"
    OTHER = "other"
    """Inputs, temporary tensors."""


@dataclass(frozen=True, slots=True)
class Held:
    """Bytes on the device at the moment when they are most."""

    kind: HeldKind
    module: str
    bytes: float


class NoteKind(StrEnum):
    """What a reader of the answer has to know of a program."""

    UNKNOWN = "unknown operation"
    """Its FLOPs are not known: priced by the bytes that it moves."""
    PLACEHOLDER = "placeholder"
    """A value that only real data would give was made up."""
    CPU_ONLY = "differs on CUDA"
    """On a GPU other kernels do it."""
    PADDED = "padding"
    """A sharded parameter is padded: `bytes` are sent, `useful_bytes` of them are its own."""
    NOT_RECORDED = "not recorded"
    """Something that the program does and the recording leaves out."""


@dataclass(frozen=True, slots=True)
class Note:
    """Something that makes the recording differ from the program on GPUs."""

    kind: NoteKind
    """Why."""
    what: str
    """The operation, the parameter or the value."""
    place: Place = NOWHERE
    count: int = 1
    """How often."""
    flops: float = 0.0
    bytes: float = 0.0
    useful_bytes: float = 0.0


@dataclass(frozen=True, slots=True)
class ShardedUnit:
    """Parameters that FSDP gathers, and reduces the gradients of, together."""

    parameters: tuple[tuple[int, int], ...]
    """Of each: its size along the dimension that is sharded, and elements for each step along it.
    """

    def shard_elements(self, ranks: float) -> float:
        """Elements on the first of so many ranks."""
        return float(sum(-(-size // ranks) * each for size, each in self.parameters))

    def padded_elements(self, ranks: float) -> float:
        """Elements that are sent: as many for each rank."""
        return ranks * self.shard_elements(ranks)


@published(
    "rank alike operations host_waits model_flops recompute_flops memory_traffic_bytes",
    "communication held_bytes held=held_by_every_kind",
)
@dataclass(frozen=True)
class RankProgram:
    """What one class of equal ranks does in a step."""

    communication = Late("work.recorded:sent")
    memory_traffic_bytes = Late("work.recorded:memory_traffic_bytes")
    rank: int
    """The rank that was recorded."""
    alike: int
    """Ranks that do the same, this one among them."""
    calls: tuple[Call, ...]
    tensor_bytes: tuple[float, ...] = ()
    """Bytes of each tensor that calls read or write, by its number."""
    held: tuple[Held, ...] = ()
    """All that is on the device when it is fullest."""
    kept: frozenset[int] = field(default_factory=frozenset)
    """Tensors that outlive the step, or are kept from the forward pass for the backward pass:
    whatever fuses kernels, they are written to memory."""
    buffers: tuple[tuple[int, ShardedUnit], ...] = ()
    """Tensors that FSDP gathers weights into, or reduces gradients from, with what is in them."""

    def __iter__(self) -> Iterator[Call]:
        return iter(self.calls)

    @property
    def operations(self) -> int:
        """Kernels."""
        return sum(hasattr(call.what, "hbm_bytes") for call in self)

    @property
    def host_waits(self) -> int:
        """Times that the host waits for the device, such as for `.item()`."""
        return sum(call.host_waits for call in self)

    @property
    def held_by_every_kind(self) -> dict[str, float]:
        """By what it is for: weights, gradients, optimizer, activations, ..."""
        return dict.fromkeys(map(str, HeldKind), 0.0) | self.held_by_kind

    @property
    def held_bytes(self) -> float:
        """Bytes on the device when it is fullest."""
        return sum(one.bytes for one in self.held)

    @property
    def held_by_kind(self) -> dict[str, float]:
        """The same by what they are for; only what there is."""
        found: dict[str, float] = {}
        for one in self.held:
            found[one.kind] = found.get(one.kind, 0.0) + one.bytes
        return found

    @property
    def model_flops(self) -> float:
        """FLOP of the mathematics on this rank."""
        return sum(_model_flops(call) for call in self.calls if call.phase is not Phase.RECOMPUTE)

    @property
    def recompute_flops(self) -> float:
        """FLOP done a second time."""
        return sum(_model_flops(call) for call in self.calls if call.phase is Phase.RECOMPUTE)


def _model_flops(call: Call) -> float:
    if isinstance(call.what, CoreAttention):
        return float(call.what.model_flops)
    return float(getattr(call.what, "flops", 0.0))


@dataclass(frozen=True, repr=False)
class Program(Answer):
    """One optimizer step of a user's own program, recorded without a GPU."""

    world_size: int
    """Ranks of the job."""
    ranks: tuple[RankProgram, ...]
    """One for each class of equal ranks: the stages of a pipeline, else one."""
    command: str = ""
    """What was run."""
    torch: str = ""
    """Version of PyTorch."""
    samples: float = 0.0
    """Samples of the step, all ranks together; 0 if nobody knows."""
    tokens: float = 0.0
    """Tokens of the step, all ranks together; 0 if the inputs are no tokens."""
    parameters: float = 0.0
    """Of the whole model."""
    notes: tuple[Note, ...] = ()
    compiled: bool = False
    """The program asks for `torch.compile`; it was recorded eagerly all the same."""
    noted = Late("work.recorded:noted_shares")
    _captured = Late("work.recorded:CapturedStep")

    def view(self, **how: Any) -> Any:
        """The blocks of what was recorded."""
        return self._captured.view(**how)

    def to_dict(self) -> dict[str, Any]:
        """What was recorded as plain data."""
        found: dict[str, Any] = self._captured.to_dict()
        return found

    def __repr__(self) -> str:
        calls = sum(len(one.calls) for one in self.ranks)
        return f"Program({self.command!r}, world_size={self.world_size}, calls={calls})"

    @property
    def model_flops(self) -> float:
        """FLOP of the mathematics, all ranks together."""
        return sum(one.model_flops * one.alike for one in self.ranks)

    @property
    def recompute_flops(self) -> float:
        """FLOP done a second time, all ranks together."""
        return sum(one.recompute_flops * one.alike for one in self.ranks)
