"""Where time goes: every line that a ledger can have.

Holds `CauseKind`, `Cause` and `LEAST_SHARE`. A cause is its key, as in JSON, and knows what it is:
work, waiting or lost. Keys, titles, order and colours of pages and reports are written here only.
"""

from enum import StrEnum
from typing import Final

LEAST_SHARE: Final = 0.0005
"""Share of a step from which a cause has a line: less is written as 0.0%."""


class CauseKind(StrEnum):
    """What seconds of a cause are."""

    WORK = "work"
    """Something is computed."""
    WAIT = "wait"
    """The device stands still within a step."""
    LOST = "lost"
    """Time of a whole job that does not train the model."""


_WORK, _WAIT, _LOST = CauseKind


def _exposed(key: str, moved: str, colour: str = "other") -> tuple[str, CauseKind, str, str, str]:
    """A wait for communication that nothing hides."""
    return key, _WAIT, f"waiting for {moved}", colour, moved


_RARE: Final = ("reduce", "gather", "scatter")
"""Collectives that share a line."""


class Cause(StrEnum):
    """One line of a ledger; the order of definition is that of bars and tables."""

    kind: CauseKind
    title: str  # type: ignore[assignment]  # of a string it would be a method
    """The cause in plain words."""
    colour: str
    """Name of its colour: a variable of `colours.css`, a class in reports."""
    moved: str
    """The communication that is waited for, in plain words; empty for all other causes."""
    order: int

    def __new__(
        cls,
        key: str,
        kind: CauseKind = CauseKind.WORK,
        title: str = "",
        colour: str = "other",
        moved: str = "",
    ) -> "Cause":
        """A string that equals its key; without a title, the key says enough."""
        cause = str.__new__(cls, key)
        cause._value_ = key
        cause.kind, cause.title, cause.colour, cause.moved = kind, title or key, colour, moved
        cause.order = len(cls.__members__)
        return cause

    # Of a step: predicted, or measured kernel by kernel.
    GEMM = "GEMM", _WORK, "matrix multiplication", "gemm"
    ATTENTION = "attention", _WORK, "", "attention"
    ELEMENTWISE = "elementwise", _WORK, "element-wise kernels", "elementwise"
    OUTPUT_LAYER = "output layer", _WORK, "", "output-layer"
    CONVOLUTION = "convolution", _WORK, "", "gemm"
    OTHER_KERNELS = "other kernels"
    COPY = "copy", _WORK, "copies and fills", "elementwise"
    RECOMPUTE = "recompute", _WORK, "activations computed again", "recompute"
    # Of a step that a training loop measures itself.
    DATA = "data", _WORK, "loading a batch", "attention"
    FORWARD = "forward", _WORK, "forward pass", "gemm"
    BACKWARD = "backward", _WORK, "backward pass", "recompute"
    OPTIMIZER = "optimizer", _WORK, "", "optimizer"
    ACCUMULATION = "accumulation", _WORK, "adding up gradients", "accumulation"
    CONTENTION = "contention", _WORK, "computation slowed by communication", "contention"
    REST = "rest", _WORK, "rest of the step"

    HOST = "host", _WAIT, "waiting for the host", "host"
    EXPOSED_TP = _exposed("exposed TP", "tensor-parallel communication", "exposed-tp")
    EXPOSED_CP = _exposed("exposed CP", "context-parallel communication", "exposed-cp")
    EXPOSED_EP = _exposed("exposed EP", "expert-parallel communication", "exposed-ep")
    EXPOSED_GATHER = _exposed("exposed FSDP gather", "sharded weights", "exposed-gather")
    EXPOSED_DP = _exposed("exposed DP", "gradients", "exposed-dp")
    EXPOSED_PP = _exposed("exposed PP", "messages between pipeline stages", "exposed-pp")
    EXPOSED_OFFLOAD = _exposed("exposed offload", "copies to and from the host")
    LINKS = _exposed("contention on links", "links that other flows use, too", "contention")
    HOST_OPTIMIZER = "host optimizer", _WAIT, "waiting for the optimizer on the host", "optimizer"
    # A trace knows what kind of collective was waited for, not why it was sent.
    EXPOSED_ALL_REDUCE = _exposed("exposed all-reduce", "all-reduces", "exposed-dp")
    EXPOSED_ALL_GATHER = _exposed("exposed all-gather", "all-gathers", "exposed-gather")
    EXPOSED_REDUCE_SCATTER = _exposed("exposed reduce-scatter", "reduce-scatters", "exposed-tp")
    EXPOSED_ALL_TO_ALL = _exposed("exposed all-to-all", "all-to-alls", "exposed-ep")
    EXPOSED_SEND_RECEIVE = _exposed("exposed send-receive", "sends and receives", "exposed-pp")
    EXPOSED_BROADCAST = _exposed("exposed broadcast", "broadcasts", "exposed-cp")
    EXPOSED_BARRIER = _exposed("exposed barrier", "barriers", "straggler")
    EXPOSED_OTHER = _exposed("exposed other", "other communication")
    BUBBLE = "pipeline bubble", _WAIT, "waiting for other pipeline stages", "bubble"
    STRAGGLER = "straggler wait", _WAIT, "waiting for the slowest rank", "straggler"
    IDLE_PEER = "idle: peer", _WAIT, "waiting for a late rank", "straggler"
    IDLE_DATA = "idle: data", _WAIT, "waiting for the data loader", "attention"
    IDLE_SYNC = "idle: sync", _WAIT, "waiting after a synchronisation", "contention"
    IDLE_HOST = "idle: host", _WAIT, "waiting for launches by the host", "host"
    IDLE_QUEUED = "idle: between kernels", _WAIT, "gaps between queued kernels", "accumulation"
    UNEXPLAINED = "unexplained", _WAIT

    # Of a whole job.
    USEFUL = "useful", _WORK, "training", "gemm"
    EVALUATION = "evaluation", _LOST, "", "attention"
    DATA_LOADING = "data loading", _LOST, "stalls of the data loader", "host"
    STRAGGLERS = "stragglers", _LOST, "slow nodes", "straggler"
    MAINTENANCE = "maintenance", _LOST, "", "contention"
    CHECKPOINT = "checkpoint", _LOST, "writing checkpoints", "exposed-tp"
    LOST_WORK = "lost work", _LOST, "work done again after failures", "exposed-gather"
    RESTART = "restart", _LOST, "noticing failures and restarting", "exposed-dp"
    REPAIR = "waiting for repair", _LOST, "", "bubble"
    FEWER_NODES = "fewer nodes", _LOST, "training on fewer nodes", "exposed-pp"
    START_UP = "start-up", _LOST

    @classmethod
    def _missing_(cls, value: object) -> "Cause | None":
        """What results of earlier versions call otherwise."""
        return cls.OUTPUT_LAYER if value == "head" else None

    @property
    def is_wait(self) -> bool:
        """True if the device stands still."""
        return self.kind is CauseKind.WAIT

    @property
    def is_exposed(self) -> bool:
        """True if it is waiting for communication."""
        return bool(self.moved)

    @classmethod
    def exposed(cls, collective: str) -> "Cause":
        """Waiting for a kind of collective ("all-reduce", ...)."""
        return cls.EXPOSED_OTHER if collective in _RARE else cls(f"exposed {collective}")
