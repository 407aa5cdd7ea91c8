"""What watching cannot tell in a run, and why.

Holds `NoteKind` and `NOTES`. A trainer names a note by its number, as its marks are small.
"""

from enum import IntEnum
from typing import Final


class NoteKind(IntEnum):
    """Numbers of notes; part of the format of marks."""

    NO_DATA_LOADER = 1
    NO_BACKWARD = 2
    NO_OPTIMIZER_HOOKS = 3
    NO_GRAD_SCALER = 4
    NO_LAST_GRADIENT = 5
    NO_WAITS = 6
    NO_EVALUATION = 7
    NO_SAVES = 8
    FSDP_WAITS = 9
    DEVICE_COMMUNICATION = 10
    OLD_FSDP = 11
    NO_FUNCTIONAL_WAITS = 12
    NO_GRADIENT_NORM = 13


_HIDES_OWN: Final = "stragglers are not judged by own time"
NOTES: Final = {
    NoteKind.NO_DATA_LOADER: "this PyTorch has no torch.utils.data.dataloader._BaseDataLoaderIter: "
    "waiting for data counts as idle",
    NoteKind.NO_BACKWARD: "torch.autograd.backward is missing: backward counts as forward",
    NoteKind.NO_OPTIMIZER_HOOKS: "this PyTorch has no global optimizer hooks: steps are not seen",
    NoteKind.NO_GRAD_SCALER: "torch.amp.GradScaler is missing: skipped steps are not seen",
    NoteKind.NO_LAST_GRADIENT: "DistributedDataParallel could not be hooked: waiting for gradients "
    f"counts as backward, {_HIDES_OWN}",
    NoteKind.NO_WAITS: f"torch.distributed could not be hooked: {_HIDES_OWN}",
    NoteKind.NO_EVALUATION: "torch.nn.Module.eval is missing: evaluations count as forward",
    NoteKind.NO_SAVES: "torch.save is missing: checkpoints count as idle",
    NoteKind.FSDP_WAITS: "FSDP's wait for its weights could not be hooked: it counts as "
    f"computation, {_HIDES_OWN}",
    NoteKind.DEVICE_COMMUNICATION: "some communication has a CUDA stream of its own: waiting for "
    f"it cannot be told apart from computation, {_HIDES_OWN}",
    NoteKind.OLD_FSDP: "FullyShardedDataParallel (FSDP1) waits inside of streams: it counts as "
    f"computation, {_HIDES_OWN}",
    NoteKind.NO_FUNCTIONAL_WAITS: "functional collectives could not be hooked: their waits count "
    f"as computation, {_HIDES_OWN}",
    NoteKind.NO_GRADIENT_NORM: "torch.nn.utils.clip_grad_norm_ is missing: no gradient norm",
}
"""What each note says."""

HIDES_OWN_TIME: Final = frozenset(kind for kind, said in NOTES.items() if said.endswith(_HIDES_OWN))
"""Notes after which a rank's own time is not known."""
