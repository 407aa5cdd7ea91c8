"""The mode that sees every operation of PyTorch and writes it down.

Holds `OperationMode` and `moves_nothing`. The mode stands above the fake tensors and below
autograd, so it sees what would become kernels.
"""

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any, Final

import torch
from torch._subclasses import FakeTensor
from torch.utils._python_dispatch import TorchDispatchMode

from syncwall.capture.collectives import (
    NAMESPACES,
    Communication,
    communication,
    group_description,
)
from syncwall.capture.constants import Constants
from syncwall.capture.kernels import tasks, tensors, traffic
from syncwall.capture.places import Places
from syncwall.capture.storages import Storages
from syncwall.capture.tape import Tape
from syncwall.work.block import AnyTask, StepPhase
from syncwall.work.operations import Collective, Elementwise, Gemm, Group, GroupAxis, Message
from syncwall.work.program import HeldKind, NoteKind, SourceLocation

_ALLOCATES: Final = frozenset(
    f"aten::{name}"
    for name in (
        "empty",
        "empty_like",
        "empty_strided",
        "new_empty",
        "new_empty_strided",
        "detach",
        "alias",
        "lift_fresh",
        "lift",
        "set_",
        "resize_",
        "is_pinned",
        "_pin_memory",
        "is_same_size",
        "empty_permuted",
        "_nested_tensor_size",
        "item",
        "_has_compatible_shallow_copy_type",
        "_local_scalar_dense",
        "equal",
        "_unsafe_view",
        "_reshape_alias",
        "record_stream",
    )
)
_UNKNOWN_FLOPS: Final = (
    "aten._fft",
    "aten.linalg_lu",
    "aten.linalg_q",
    "aten.linalg_inv",
    "aten.linalg_chol",
    "aten._linalg",
    "aten.cholesky",
    "aten._cdist",
    "aten.geqrf",
    "aten.ormqr",
    "aten.triangular_solve",
)
_OTHER_ON_CUDA: Final = ("aten.mkldnn", "mkldnn", "aten._thnn_fused")
_KNOWN_NAMESPACES: Final = ("aten", "fsdp", "prims")
_SIZE: Final = "size that only data would give"
_PLAIN: Final = (torch.Tensor, torch.nn.Parameter, FakeTensor)


def moves_nothing(func: Any) -> bool:
    """True if an operation only takes memory, or shows in another way what is there."""
    name = func._schema.name
    return name in _ALLOCATES or func.is_view or name.startswith("prim")


class OperationMode(TorchDispatchMode):  # type: ignore[misc]
    """Writes down what each operation does on the device."""

    def __init__(self, tape: Tape, places: Places, storages: Storages, rank: int) -> None:
        super().__init__()
        self.tape, self.places, self.storages, self.rank = tape, places, storages, rank
        self.data_parallel: GroupAxis | None = None
        """What a group without a name is for."""
        self.mesh_names: dict[str, str] = {}
        """Dimension of a mesh by the name of its process group."""
        self.renamed: dict[str, str] = {}
        self.answers: Callable[..., Any] = lambda *_: NotImplemented
        """Gives values that only real data would have; the recorder sets it."""
        self.pending: dict[int, int] = {}
        """Collectives by the storage that they fill, until somebody waits for it."""
        self.issued: list[int] = []
        """Numbers of communication since whoever reads it emptied it."""
        self.makes_on_host = False
        """Whether a tensor that is made from nothing is in the host's memory."""
        self.labels: dict[int, tuple[int, StepPhase]] = {}
        """Micro batch and phase of messages, by the storage that they send or fill."""
        self.constants = Constants(storages)
        self.made_up_sizes: dict[int, int] = {}
        """Sizes that only data would give, of tensors that have them, by their storage."""
        self._groups: dict[str, Group] = {}
        self._products: dict[int, tuple[int, int, int]] = {}
        self._new_names: dict[int, dict[str, str]] = {}

    def __torch_dispatch__(
        self, func: Any, types: Any, args: Any = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        """Run an operation on fake tensors, and write it down."""
        kwargs = kwargs or {}
        if func is torch.ops.prim.device.default:
            return func(*args, **kwargs)
        if any(kind not in _PLAIN for kind in types):
            return NotImplemented
        if func is torch.ops._c10d_functional.wait_tensor.default:
            if not self.tape.pauses:
                self._await(args[0])
            return args[0]  # fake tensors would give another one
        answer = self.answers(func, args, kwargs)
        out = func(*args, **kwargs) if answer is NotImplemented else answer
        if not self.tape.pauses:
            self._record(func, args, kwargs, out)
        return out

    def _record(self, func: Any, args: Any, kwargs: dict[str, Any], out: Any) -> None:
        if func.namespace in NAMESPACES:
            self._record_communication(func, args, kwargs, out)
            return
        name = func._schema.name
        if moves_nothing(func):
            made = self._number(tensors(out), *self.places.now()[::-1])
            if self.makes_on_host and not any(True for _ in tensors(args)):
                self.storages.host.update(made)
            return
        read, written = traffic(func, args, kwargs, out)
        if any(tensor.device.type == "meta" for tensor in written):
            return
        phase, place = self.places.now()
        reads = self._number(read, place, phase)
        writes = self._number(written, place, phase)
        self.constants.notice("" if kwargs.keys() & {"alpha", "rounding_mode"} else name, args, written)
        if not written or (not _changes(func) and set(writes) <= set(reads)):
            return  # a view by another name
        if self._is_on_host(reads, writes, makes=not _changes(func)) or (
            self.places.finishing and all(tensor.dim() == 0 for tensor in written)
        ):
            return  # optimizers count their steps on the host
        short = func._schema.name.replace("::", ".")
        is_sized = self._has_made_up_size(reads, () if _changes(func) else written)
        for what in tasks(func, args, kwargs, out):
            refined = self._refined(what, phase, reads)
            self.tape.add(
                self._name(short, phase),
                refined,
                phase=phase,
                place=place,
                reads=reads,
                writes=writes,
                micro_batch=self.places.micro_batch,
            )
            if isinstance(refined, Gemm) and refined.is_weight_gradient:
                self.storages.kinds[writes[0]] = HeldKind.GRADIENTS
            flops = float(getattr(what, "flops", 0.0))
            moved = float(getattr(what, "hbm_bytes", 0.0))
            if is_sized:
                self.tape.note(NoteKind.PLACEHOLDER, _SIZE, place, flops=flops, moved_bytes=moved)
            elif short.startswith(_OTHER_ON_CUDA):
                self.tape.note(NoteKind.CPU_ONLY, short, place, flops=flops, moved_bytes=moved)
            elif short.startswith(_UNKNOWN_FLOPS) or func.namespace not in _KNOWN_NAMESPACES:
                self.tape.note(NoteKind.UNKNOWN, short, place, moved_bytes=moved)

    def _has_made_up_size(self, reads: Sequence[int], made: Sequence[torch.Tensor]) -> bool:
        """Whether it works on a size that was made up; what it makes with it has that, too."""
        sizes = {self.made_up_sizes[one] for one in reads if one in self.made_up_sizes}
        for tensor in made if sizes else ():
            if isinstance(tensor, FakeTensor) and (found := sizes & set(tensor.shape)):
                self.made_up_sizes[self.storages.number(tensor)] = max(found)
        return bool(sizes)

    def _number(self, of: Any, place: SourceLocation, phase: StepPhase) -> list[int]:
        return [
            self.storages.number(tensor, place.module, phase)
            for tensor in of
            if isinstance(tensor, FakeTensor) and tensor.device.type != "meta"
        ]

    def _is_on_host(self, reads: Sequence[int], writes: Sequence[int], makes: bool) -> bool:
        """Nothing of it is on the device; what it makes is on the host, too."""
        host = self.storages.host
        if not reads and makes and self.makes_on_host:
            host.update(writes)
        if not reads or not all(number in host for number in reads):
            return bool(writes) and not reads and all(number in host for number in writes)
        host.update(writes)
        return True

    def _refined(self, what: AnyTask, phase: StepPhase, reads: Sequence[int]) -> AnyTask:
        """With what only the rest of the program says of it."""
        if isinstance(what, Elementwise) and phase is StepPhase.FINISH:
            return replace(what, kind="optimizer")
        if isinstance(what, Elementwise) and phase is StepPhase.BACKWARD and what.kind:
            return replace(what, kind=f"{what.kind} backward")
        if isinstance(what, Gemm) and what.count == 1:
            return self._gemm(what, phase, reads)
        return what

    def _gemm(self, gemm: Gemm, phase: StepPhase, reads: Sequence[int]) -> Gemm:
        """Mark the gradient of a weight: it contracts over the rows of the forward product."""
        node = self.places.node()
        if phase is not StepPhase.BACKWARD:
            self._products[node] = (int(gemm.m), int(gemm.n), reads[-1] if reads else -1)
            return gemm
        rows, columns, weight = self._products.get(node, (-1, -1, -1))
        if gemm.k == rows and (rows != columns or weight not in reads):
            return replace(gemm, is_weight_gradient=True)
        return gemm

    def _name(self, name: str, phase: StepPhase) -> str:
        """As the operation is called on CUDA."""
        node = self.places.node()
        if phase is StepPhase.BACKWARD:
            return self._new_names.get(node, {}).get(name, name)
        if self.renamed:
            self._new_names[node] = self.renamed
        return self.renamed.get(name, name)

    def _record_communication(self, func: Any, args: Any, kwargs: dict[str, Any], out: Any) -> None:
        phase, place = self.places.now()
        sent = communication(func, [*args, *kwargs.values()], out)
        if sent is None:
            return
        stream = f"nccl:{sent.group.group_name}"
        if sent.peer is not None:  # both directions between two ranks run at the same time
            stream += f":{sent.kind} {sent.peer}"
        reads = self._number(sent.reads, place, phase)
        writes = self._number(sent.writes, place, phase)
        self.constants.sent(sent.reads, sent.writes)
        chunk = self.places.micro_batch
        if sent.peer is not None:
            chunk, phase = self.labels.get((reads + writes)[0], (chunk, phase))
        self.tape.wait(self.tape.queued(), stream)
        number = self.tape.add(
            func._schema.name.replace("::", ".").removesuffix("_"),
            self._task(sent),
            phase=phase,
            place=place,
            reads=reads,
            writes=writes,
            stream=stream,
            micro_batch=chunk,
        )
        self.issued.append(number)
        if _is_awaited(func, args):
            self.tape.wait({number})
        else:
            self.pending.update(dict.fromkeys(writes, number))

    def _task(self, sent: Communication) -> AnyTask:
        if sent.peer is not None:
            ends = (self.rank, sent.peer) if sent.kind == "send" else (sent.peer, self.rank)
            return Message(sent.bytes, *ends)
        name = str(sent.group.group_name)
        if name not in self._groups:
            self._groups[name] = group_description(sent.group, self.tape, self.mesh_names, self.data_parallel)
        return Collective(sent.kind, sent.bytes, self._groups[name])  # type: ignore[arg-type]

    def _await(self, tensor: torch.Tensor) -> None:
        """The current stream waits for the collective that fills a tensor."""
        number = self.pending.pop(self.storages.number(tensor), None)
        if number is not None:
            self.tape.wait({number})


def _changes(func: Any) -> bool:
    """Whether an operation writes to one of its arguments; one of FSDP's does not say so."""
    return bool(func._schema.is_mutable) or func._schema.name == "fsdp::all_gather_copy_in"


def _is_awaited(func: Any, args: Sequence[Any]) -> bool:
    """Whether the current stream waits for a collective at once (`async_op=False`)."""
    names = [argument.name for argument in func._schema.arguments]
    at = names.index("async_op") if "async_op" in names else len(args)
    return at < len(args) and not args[at]
