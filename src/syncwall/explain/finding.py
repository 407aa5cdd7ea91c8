"""One thing found in a user's files: what it is, why it matters, what to try next.

Holds `Finding`, shared by every check in `explain` that points at a setting, a link or a file.
`Rule`, `RULES`, `on` and `off`: single variables and switches that cost time when they have
a certain value. Sources: NVIDIA, NCCL user guide, "Environment Variables", whose section
"Debugging" says not to keep those in production; PyTorch, "ProcessGroupNCCL Environment Variables",
"CUDA semantics" and `DistributedDataParallel`; NVIDIA, CUDA C++ programming guide, "CUDA
environment variables"; for figures T. Lazauskas, "Anemoi on Isambard-AI" (Alan Turing Institute,
2026), and for NVLS the entry nvlink-4 of the catalogue.
"""

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Final, Literal

Severity = Literal["wrong", "suspect", "note"]
"""`wrong` costs speed for sure, `suspect` may cost speed, `note` is worth knowing."""

_ORDER: dict[Severity, int] = {"wrong": 0, "suspect": 1, "note": 2}


@dataclass(frozen=True, slots=True)
class Finding:
    """One finding; `slowdown` is step time now over step time once mended, None where unknown."""

    severity: Severity
    what: str
    """The fact, as read: "NCCL uses sockets between nodes"."""
    why: str
    """Why that matters."""
    next: str
    """What to change or to collect."""
    where: str
    """`file:line` of the evidence; a file alone where there is no line."""
    slowdown: float | None = None
    corrupts: bool = False
    """True if results are wrong, which is worse than any loss of time."""
    cause: str = ""
    """What is to blame in a few words, where findings of one kind share it."""


def worst_first(findings: Iterable[Finding]) -> tuple[Finding, ...]:
    """Sorted by severity, then by slowdown (the largest first), then by text; wrong results first."""

    def order(one: Finding) -> tuple[object, ...]:
        return not one.corrupts, _ORDER[one.severity], -(one.slowdown or 0.0), one.what, one.where

    return tuple(sorted(findings, key=order))


_FORCED: Final = "unset it outside of experiments: NCCL chooses by size and topology"


def on(value: str) -> bool:
    """True if a switch is on."""
    return value.lower() in ("1", "true", "yes", "on", "y")


def off(value: str) -> bool:
    """True if a switch is off."""
    return value.lower() in ("0", "false", "no", "off", "n")


@dataclass(frozen=True, slots=True)
class VariableRule:
    """A value of one variable that is worth a finding."""

    name: str
    applies: Callable[[str], bool]
    severity: Severity
    why: str
    next: str

    def finding(self, value: str, where: str) -> Finding:
        """The finding for this value."""
        return Finding(self.severity, f"{self.name}={str(value)[:80]}", self.why, self.next, where)


RULES: Final = (
    VariableRule(
        "CUDA_LAUNCH_BLOCKING",
        on,
        "wrong",
        "every kernel launch waits for the kernel: nothing overlaps. Left on by mistake it cost "
        "25% of a step on Isambard-AI (987 to 1,234 ms; a launch took 215 instead of 11 µs)",
        "unset CUDA_LAUNCH_BLOCKING",
    ),
    VariableRule(
        "NCCL_P2P_DISABLE",
        on,
        "wrong",
        "GPUs of a node then talk through host memory instead of NVLink or PCIe",
        "unset it; if that hangs, switch the IOMMU or PCIe ACS off instead",
    ),
    VariableRule(
        "NCCL_IB_DISABLE",
        on,
        "wrong",
        "NCCL falls back to TCP sockets between nodes",
        "unset it, and make the adapters visible in the container",
    ),
    VariableRule(
        "NCCL_SHM_DISABLE",
        on,
        "wrong",
        "GPUs without direct access then talk through the network adapter, even inside a node",
        "unset it; give the container enough shared memory (--shm-size) instead",
    ),
    VariableRule(
        "NCCL_NVLS_ENABLE",
        off,
        "suspect",
        "reductions in the NVSwitch are off: 8 H200 reach 368 instead of 482 GB/s in all-reduce",
        "unset it, unless it works around a fault",
    ),
    VariableRule(
        "NCCL_ALGO",
        bool,
        "suspect",
        "one algorithm for all sizes: rings are slow for small messages on many nodes, trees for large ones",
        _FORCED,
    ),
    VariableRule(
        "NCCL_PROTO",
        bool,
        "suspect",
        "one protocol for all sizes: LL halves the bandwidth of large messages, Simple is slow "
        "for small ones",
        _FORCED,
    ),
    VariableRule(
        "NCCL_NET_GDR_LEVEL",
        lambda value: value.upper() in ("0", "LOC"),
        "wrong",
        "GPUDirect RDMA is off: data between nodes passes host memory",
        "unset it",
    ),
    VariableRule(
        "NCCL_PXN_DISABLE",
        on,
        "suspect",
        "GPUs can then not send through the adapter of a neighbour, so traffic crosses rails",
        "unset it",
    ),
    VariableRule(
        "NCCL_MAX_NCHANNELS",
        lambda v: v.isdecimal() and 0 < int(v[:9]) < 4,
        "suspect",
        "few channels cannot fill NVLink or several adapters",
        "unset it and compare",
    ),
    VariableRule(
        "NCCL_MAX_CTAS",
        lambda v: v.isdecimal() and 0 < int(v[:9]) < 4,
        "suspect",
        "few channels cannot fill NVLink or several adapters",
        "unset it and compare",
    ),
    VariableRule(
        "NCCL_DEBUG",
        lambda value: value.upper() == "TRACE",
        "suspect",
        "a line for every call slows short collectives",
        "use NCCL_DEBUG=WARN in long runs",
    ),
    VariableRule(
        "TORCH_NCCL_BLOCKING_WAIT",
        on,
        "suspect",
        "wait() blocks the thread that launches kernels",
        "unset it; the watchdog finds timeouts",
    ),
    VariableRule(
        "TORCH_NCCL_ENABLE_TIMING",
        on,
        "note",
        "two more events a collective; small, but not free",
        "use it to debug only",
    ),
    VariableRule(
        "TORCH_DISTRIBUTED_DEBUG",
        lambda value: value.upper() == "DETAIL",
        "wrong",
        "every collective is checked among all ranks before it starts",
        "use it to debug only",
    ),
    VariableRule(
        "TORCH_NCCL_DESYNC_DEBUG",
        on,
        "note",
        "ranks report every collective to the store",
        "use it to debug only",
    ),
    VariableRule(
        "PYTORCH_NO_CUDA_MEMORY_CACHING",
        on,
        "wrong",
        "every tensor is a cudaMalloc and a cudaFree, which wait for the device",
        "unset it",
    ),
    VariableRule(
        "PYTORCH_CUDA_ALLOC_CONF",
        lambda v: "expandable_segments:false" in v.lower(),
        "note",
        "without expandable segments changing sizes fragment memory until the allocator frees all "
        "of its cache, which waits for the device",
        "compare with expandable_segments:True if the trace shows cudaFree",
    ),
    VariableRule(
        "broadcast_buffers",
        on,
        "suspect",
        "DDP broadcasts all buffers before every forward pass; on Isambard-AI that took 24 ms a "
        "step at 10 nodes and 102 ms at 100",
        "broadcast_buffers=False if buffers do not change or need not agree (no BatchNorm)",
    ),
    VariableRule(
        "find_unused_parameters",
        on,
        "suspect",
        "DDP walks the whole graph after every forward pass",
        "set it to False if all parameters are used, or use static_graph=True",
    ),
)
