"""Two costs that a summary of nsys shows: blocking launches, and DDP's broadcast of buffers.

Holds `launches`, `blocking`, `buffer_broadcast` and what they give. With `CUDA_LAUNCH_BLOCKING=1` a
launch returns when its kernel has ended, so that launches together last about as long as kernels do
and the host hides nothing.
"""

from dataclasses import dataclass

from syncwall.explain.finding import Finding
from syncwall.read.nsys_stats import NsysRow, NsysStats

_LAUNCHES = ("cudaLaunchKernel", "cuLaunchKernel", "hipLaunchKernel")
_SYNCHRONISES = ("cudaStreamSynchronize", "cudaDeviceSynchronize", "cudaEventSynchronize")
_BROADCAST = ("ncclDevKernel_Broadcast", "ncclKernel_Broadcast")
_SHARE = 0.5
"""Launch time over kernel time above which launches block. Anemoi on Isambard-AI: 0.02 to 0.11 in
18 reports without, 0.70 with (3,128 launches of 215 µs against 0.955 s of kernels)."""


@dataclass(frozen=True, slots=True)
class Launches:
    """Kernel launches of one run."""

    per_step: float
    mean_s: float
    share: float
    """Time inside launches over time of kernels."""
    waits_s: float
    """Time inside calls that wait for the device, whole run."""
    total_s: float


@dataclass(frozen=True, slots=True)
class Blocking:
    """Whether launches block, and what it costs."""

    seen: bool
    launches: Launches
    step_s: float
    """Median step."""
    normal_mean_s: float | None = None
    """Mean launch of the run compared with."""
    normal_step_s: float | None = None

    @property
    def slowdown(self) -> float | None:
        """Step over the step of the run compared with."""
        return self.step_s / self.normal_step_s if self.normal_step_s else None


@dataclass(frozen=True, slots=True)
class BufferBroadcast:
    """DDP's broadcast of module buffers before the forward pass."""

    per_step_s: float
    """Mean time of its kernels a step, waiting for peers included."""
    calls_per_step: float
    step_s: float
    """Mean step."""

    @property
    def slowdown(self) -> float:
        """At most: the step over the step without it, as if nothing of it were hidden."""
        return self.step_s / max(self.step_s - self.per_step_s, 1e-12)


def step_of(stats: NsysStats, name: str = "step") -> NsysRow | None:
    """The NVTX range of a training step."""
    return stats.row("nvtx_sum", name) or stats.row("nvtx_pushpop_sum", name)


def launches(stats: NsysStats, steps: int) -> Launches | None:
    """What the run says of its launches; None without a table of the CUDA API or of kernels."""
    calls = stats.tables.get("cuda_api_sum", ())
    kernels_s = sum(row.total_s for row in stats.tables.get("cuda_gpu_kern_sum", ()))
    found = [row for row in calls if row.name == _LAUNCHES[0]] or [
        row for row in calls if row.name.startswith(_LAUNCHES)
    ]
    count, total_s = sum(row.count for row in found), sum(row.total_s for row in found)
    if not count or kernels_s <= 0 or steps < 1:
        return None
    waits_s = sum(row.total_s for row in calls if row.name in _SYNCHRONISES)
    return Launches(count / steps, total_s / count, total_s / kernels_s, waits_s, total_s)


def blocking(stats: NsysStats, normal: NsysStats | None = None) -> Blocking | None:
    """Do launches wait for their kernels? Compared with `normal` where given; None if unknown."""
    step = step_of(stats)
    found = launches(stats, step.count) if step else None
    if step is None or found is None:
        return None
    other_step = step_of(normal) if normal else None
    other = launches(normal, other_step.count) if normal and other_step else None
    return Blocking(
        seen=found.share >= _SHARE and found.total_s > found.waits_s,
        launches=found,
        step_s=step.median_s or step.mean_s,
        normal_mean_s=other.mean_s if other else None,
        normal_step_s=(other_step.median_s or other_step.mean_s) if other_step else None,
    )


def buffer_broadcast(stats: NsysStats) -> BufferBroadcast | None:
    """The cost of `broadcast_buffers`; None if no broadcast comes back every step."""
    step = step_of(stats)
    rows = [r for r in stats.tables.get("cuda_gpu_kern_sum", ()) if r.name.startswith(_BROADCAST)]
    count = sum(row.count for row in rows)
    if step is None or count < step.count:
        return None
    total_s = sum(row.total_s for row in rows)
    return BufferBroadcast(total_s / step.count, count / step.count, step.mean_s)


def nsys_findings(stats: NsysStats, normal: NsysStats | None = None) -> tuple[Finding, ...]:
    """What a summary shows, as findings."""
    found = []
    block = blocking(stats, normal)
    if block is not None and block.seen:
        found.append(Finding(
            "wrong" if block.slowdown and block.slowdown > 1.05 else "suspect",
            f"a kernel launch takes {block.launches.mean_s * 1e6:.0f} µs, "
            f"{block.launches.per_step:,.0f} launches a step",
            "launches last as long as their kernels, as with CUDA_LAUNCH_BLOCKING=1: the host "
            "cannot run ahead",
            "unset CUDA_LAUNCH_BLOCKING and compare; else profile with fewer, larger kernels",
            stats.source, block.slowdown))  # fmt: skip
    buffers = buffer_broadcast(stats)
    if buffers is not None:
        found.append(Finding(
            "suspect" if buffers.slowdown > 1.02 else "note",
            f"broadcasts take {buffers.per_step_s * 1e3:.1f} ms a step "
            f"({buffers.calls_per_step:.1f} calls)",
            "DDP sends the module's buffers to all ranks before each forward pass",
            "DistributedDataParallel(..., broadcast_buffers=False) if no buffer must stay equal",
            stats.source, buffers.slowdown))  # fmt: skip
    return tuple(found)
