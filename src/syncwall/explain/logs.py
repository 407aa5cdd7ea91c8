"""NCCL logs and nsys summaries, and what they show that costs time.

Each check looks at one fact of the `NcclLog`; its cost comes from `price`, which the caller builds
on the predictor if it knows the run, and is unknown otherwise. Rules with one condition on one
variable are in `explain.finding`; here are those that need more: processors, adapters, a run.

With `CUDA_LAUNCH_BLOCKING=1` a launch returns when its kernel has ended, so that launches together
last about as long as kernels do and the host hides nothing.
"""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace

from syncwall.answer.prediction import predict
from syncwall.answer.pricing import with_nics, with_scale_up
from syncwall.describe import Run
from syncwall.describe.layout import Shard
from syncwall.explain.finding import RULES, Finding, Severity, on, worst_first
from syncwall.explain.remedies import price_for, slowdown
from syncwall.read.nccl_facts import NcclLog
from syncwall.read.nsys_stats import NsysRow, NsysStats


def check_environment(
    settings: Mapping[str, str],
    *,
    where: str = "environment",
    cpus: int | None = None,
    processes: int | None = None,
    run: Run | None = None,
) -> tuple[Finding, ...]:
    """What in `settings` (variables and DDP's arguments, by name) costs time, the worst first.

    `cpus` and `processes` are those of a host. `run` prices what the model can price.
    """
    found = [
        replace(rule.finding(settings[rule.name], where), slowdown=_price(rule.name, run))
        for rule in RULES
        if rule.name in settings and rule.applies(str(settings[rule.name]).strip())
    ]
    found += _threads(settings, where, cpus, processes)
    found += _buckets(settings, where, run)
    found += _interfaces(settings, where, run)
    return worst_first(found)


def _price(name: str, run: Run | None) -> float | None:
    """Predicted cost of a switch; None where the model has no term for it."""
    if run is None:
        return None
    if name == "NCCL_P2P_DISABLE":
        return slowdown(run, with_scale_up(run, 0.0))
    if name == "NCCL_IB_DISABLE":
        return slowdown(run, with_nics(run, transport="tcp"))
    return None


def _threads(
    settings: Mapping[str, str], where: str, cpus: int | None, processes: int | None
) -> Iterator[Finding]:
    """OMP_NUM_THREADS against the processors of the host."""
    text = str(settings.get("OMP_NUM_THREADS", "")).strip()
    share = cpus // processes if cpus and processes else None
    if not text:
        if share is not None and processes is not None and processes > 1:
            yield Finding(
                "suspect",
                f"OMP_NUM_THREADS is not set, {processes} processes share {cpus} processors",
                "torchrun then sets it to 1, which slows data loading and optimizers on the CPU; "
                "other launchers leave it to OpenMP, and every process starts a thread for each "
                "processor",
                f"export OMP_NUM_THREADS={max(share, 1)} or less, and measure",
                where,
            )
        return
    if not text.isdecimal() or share is None or processes is None:
        return
    if len(text) > 9 or int(text) > max(share, 1):
        yield Finding(
            "wrong",
            f"OMP_NUM_THREADS={text[:9]} for {processes} processes on {cpus} processors",
            "threads of all processes hold up each other and the thread that launches kernels",
            f"export OMP_NUM_THREADS={max(share, 1)} or less",
            where,
        )


def _buckets(settings: Mapping[str, str], where: str, run: Run | None) -> Iterator[Finding]:
    """DDP's bucket size against the number of GPUs."""
    text = str(settings.get("bucket_cap_mb", "")).strip()
    try:
        size = float(text[:20]) if text else 25.0
    except ValueError:
        return
    gpus = run.gpus if run else 0
    stated = "bucket_cap_mb" in settings
    cost = _bucket_cost(run, size)
    if 0 < size < 25 and stated:
        yield Finding(
            "suspect",
            f"DDP's buckets have {size:g} MB, less than the usual 25",
            "every bucket is an all-reduce of its own: small ones pay latency instead of bandwidth",
            "try bucket_cap_mb=100 and compare the exposed communication",
            where,
            cost,
        )
    elif stated and size <= 25 and gpus >= 64:
        yield Finding(
            "note",
            f"DDP's buckets have {size:g} MB on {gpus} GPUs",
            "an all-reduce's latency grows with the ranks while its bucket does not; PyTorch's own "
            "issue 118421 calls 25 MB very small. On Isambard-AI 100 MB did not help, so measure",
            "try bucket_cap_mb=100",
            where,
            cost,
        )


def _bucket_cost(run: Run | None, megabytes: float) -> float | None:
    """Predicted step with buckets of so many MiB over that with 100 MiB; None without DDP."""
    if run is None or run.layout.shard != Shard.DDP or not 0 < megabytes < 1e6:
        return None
    seconds = []
    for size in (megabytes, 100.0):
        layout = run.layout.model_copy(update={"bucket_bytes": size * 2**20})
        seconds.append(predict(run.model_copy(update={"layout": layout})).step_s)
    return seconds[0] / seconds[1]


def _interfaces(settings: Mapping[str, str], where: str, run: Run | None) -> Iterator[Finding]:
    """NCCL_SOCKET_IFNAME and NCCL_IB_HCA that leave nothing fast."""
    names = str(settings.get("NCCL_SOCKET_IFNAME", "")).strip()
    first = names.lstrip("=").split(",")[0]
    if names and not names.startswith("^") and first == "lo" and (run is None or run.nodes > 1):
        yield Finding(
            "wrong",
            f"NCCL_SOCKET_IFNAME={names} names the loopback interface",
            "no other host can be reached through it",
            "name the interface that the other hosts are on, or unset it",
            where,
        )
    elif first.startswith(("docker", "virbr", "veth")):
        yield Finding(
            "wrong",
            f"NCCL_SOCKET_IFNAME={names} names a virtual interface",
            "bootstrap, and all data where NCCL has no RDMA, go through a software bridge",
            "name the interface of the training network, or exclude this one with ^",
            where,
        )
    listed = str(settings.get("NCCL_IB_HCA", "")).strip()
    built = run.cluster.node.nics.count if run and run.cluster.node.nics else None
    named = [name for name in listed.lstrip("=").split(",") if name]
    exact = listed.startswith("=") or all(":" in name for name in named)
    if listed and not listed.startswith("^") and built and exact and len(named) < built:
        yield Finding(
            "wrong",
            f"NCCL_IB_HCA names {len(named)} of {built} adapters",
            "the others stay idle",
            "name all adapters for training, or unset it",
            where,
            slowdown(run, with_nics(run, count=len(named))) if run else None,
        )


Price = Callable[[str, NcclLog], float | None]
"""Slowdown of a finding, given its key (socket, gdr-off, rails, ...) and the log, or None."""
_Hint = tuple[str, Severity, str, str, str, int]
"""Key, severity, what, why, next, line."""
_VIRTUAL = ("docker", "virbr", "veth", "br-", "cni", "lo")
_NVLS_SINCE = (2, 18)
"""NCCL 2.12 brought PXN, 2.17 NVLink multicast (NVLS), 2.18 NVLS over nodes: NCCL release notes."""
_MESSAGES = 5


def nccl_findings(log: NcclLog, price: Price | None = None, run: Run | None = None) -> tuple[Finding, ...]:
    """Findings of one log, the worst first; priced with `run` where no `price` is given."""
    price = price or (price_for(run) if run is not None else None)
    hints = [hint for check in _CHECKS for hint in check(log)]
    found = [
        Finding(
            severity,
            what,
            why,
            after,
            f"{log.source}:{line}" if line else log.source,
            price(key, log) if price is not None else None,
        )
        for key, severity, what, why, after, line in hints
    ]
    for name, setting in log.environment.items():
        where = f"{log.source}:{setting.line}"
        found += check_environment({name: setting.value}, where=where, run=run)
    return worst_first(found)


def _sockets(log: NcclLog) -> Iterator[_Hint]:
    line = log.first_seen.get("NET/Socket", log.first_seen.get("socket-list", 0))
    if log.inter_node != "Socket":
        return
    fast = [nic.name for nic in log.nics if nic.link in ("IB", "RoCE")]
    disabled = log.environment.get("NCCL_IB_DISABLE")
    if disabled is not None and on(disabled.value):
        pass  # The environment's own finding says so.
    elif fast:
        yield (
            "socket",
            "wrong",
            f"NCCL uses TCP sockets although {', '.join(fast)} exist",
            "RDMA is not used; every byte goes through the kernel and host memory",
            "check NCCL_NET, NCCL_IB_HCA and the network plugin",
            line,
        )
    else:
        yield (
            "socket",
            "suspect",
            "NCCL uses TCP sockets between nodes",
            "no RDMA device was found; sockets reach only part of the link's rate",
            "check that the container sees /dev/infiniband, or add the vendor's plugin",
            line,
        )
    virtual = [nic.name for nic in log.nics if nic.link == "Socket" and _is_virtual(nic.name)]
    if virtual:
        yield (
            "wrong-nic",
            "wrong",
            f"sockets run over {', '.join(virtual)}",
            "a virtual or loopback interface is not the network between nodes",
            "set NCCL_SOCKET_IFNAME to the interface of the cluster network",
            line,
        )


def _is_virtual(name: str) -> bool:
    return name == "lo" or name.startswith(tuple(word for word in _VIRTUAL if word != "lo"))


def _gdr(log: NcclLog) -> Iterator[_Hint]:
    if log.gdr is not False or log.inter_node == "Socket":
        return
    some = log.gdr_connections > 0
    share = log.net_connections - log.gdr_connections
    yield (
        "gdr-off",
        "wrong" if some else "suspect",
        f"{share:,} of {log.net_connections:,} network connections have no GPUDirect RDMA",
        "data is copied through host memory; that takes PCIe and memory bandwidth twice",
        "load nvidia-peermem or use DMA-BUF, check NCCL_NET_GDR_LEVEL; GPU and NIC should share "
        "a PCIe switch",
        log.first_seen.get("gdr-off", 0),
    )


def _rails(log: NcclLog) -> Iterator[_Hint]:
    world, used = log.world, len(log.nics_used)
    if world is None or not used or log.inter_node == "Socket":
        return
    expected = min(len(log.nics), world.local_ranks or 0)
    line = min((n for key, n in log.first_seen.items() if key.startswith("NET/")), default=0)
    if used < expected:
        yield (
            "rails",
            "suspect",
            f"{used} of {len(log.nics)} network devices are used",
            f"{world.local_ranks} GPUs a node could drive {expected}; at best {used}/{expected} "
            "of the network rate is reached",
            "compare nvidia-smi topo -m; check NCCL_IB_HCA, NCCL_CROSS_NIC, NCCL_TOPO_FILE",
            line,
        )
    if world.coll_channels and world.coll_channels < expected and (world.nodes or 1) > 1:
        yield (
            "channels",
            "suspect",
            f"{world.coll_channels} channels for {expected} network devices a node",
            "a channel uses one device at a time: the others stay idle",
            "unset NCCL_MAX_NCHANNELS / NCCL_MAX_CTAS; else try NCCL_MIN_NCHANNELS",
            line,
        )


def _inside_node(log: NcclLog) -> Iterator[_Hint]:
    shared, direct = log.transports.get("SHM", 0), any(t.startswith("P2P") for t in log.transports)
    if shared or "p2p-off" in log.first_seen:
        yield (
            "p2p-off",
            "suspect" if direct else "wrong",
            f"{shared:,} connections inside a node go through host memory (SHM)",
            "GPUs do not reach each other over NVLink or PCIe directly",
            "check nvidia-smi topo -p2p, NCCL_P2P_DISABLE, ACS and IOMMU settings",
            log.first_seen.get("SHM", log.first_seen.get("p2p-off", 0)),
        )
    if log.nvls is False and "NCCL_NVLS_ENABLE" not in log.environment:
        yield (
            "nvls-off",
            "note",
            "NVLink multicast (NVLS) is not available",
            "no NVSwitch with multicast, or the fabric manager or driver does not offer it",
            "on machines with NVSwitch 3 or later check nvidia-fabricmanager and the driver",
            log.first_seen.get("nvls-off", 0),
        )


def _version(log: NcclLog) -> Iterator[_Hint]:
    parts = tuple(int(part) for part in (log.version or "").split(".")[:2] if part.isdecimal())
    if parts and parts < _NVLS_SINCE:
        yield (
            "version",
            "note",
            f"NCCL {log.version} is old",
            "before 2.12 there is no PXN, before 2.18 no NVLS over nodes",
            "use the NCCL of a current framework release",
            0,
        )


def _switch_reductions(log: NcclLog) -> Iterator[_Hint]:
    world = log.world
    offered = sum(nic.sharp for nic in log.nics)
    if offered and world and (world.nodes or 1) > 1 and "COLLNET" not in log.transports:
        yield (
            "sharp-off",
            "note",
            f"{offered} network devices offer SHARP; it is not used",
            "reductions in the switch halve the traffic of an all-reduce",
            "try NCCL_COLLNET_ENABLE=1 with the SHARP plugin",
            0,
        )


def _one_thread(log: NcclLog) -> Iterator[_Hint]:
    setting = log.environment.get("OMP_NUM_THREADS")
    if setting is not None and setting.value == "1":
        yield (
            "cpu-threads",
            "note",
            "OMP_NUM_THREADS=1",
            "torchrun sets it where nothing is set: work on the CPU, such as loading data, uses one core",
            "set it to cores per node / processes per node",
            setting.line,
        )


def _messages(log: NcclLog) -> Iterator[_Hint]:
    for message in log.timeouts[:_MESSAGES]:
        yield (
            "timeout",
            "wrong",
            f"timeout: {message.text[:120]}",
            "a collective did not end: a rank is missing, ahead, or the network failed",
            "collect flight recorder dumps of all ranks (TORCH_NCCL_DUMP_ON_TIMEOUT=1)",
            message.line,
        )
    for message in log.warnings[:_MESSAGES]:
        yield (
            "warning",
            "suspect",
            f"NCCL warns ({message.count}x): {message.text[:120]}",
            "NCCL prints a warning where a call failed or a setting cannot be followed",
            "read the lines around it",
            message.line,
        )
    for comm in log.communicators:
        if comm.complete < comm.started:
            open_ranks = comm.started - comm.complete
            yield (
                "init",
                "wrong",
                f"{open_ranks} of {comm.started} ranks did not finish initialising {comm.name}",
                "the job hangs or died there",
                "look at those ranks' hosts and warnings",
                0,
            )


_CHECKS: tuple[Callable[[NcclLog], Iterator[_Hint]], ...] = (
    _sockets,
    _gdr,
    _rails,
    _inside_node,
    _version,
    _switch_reductions,
    _one_thread,
    _messages,
)


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


def launch_facts(stats: NsysStats, steps: int) -> Launches | None:
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
    found = launch_facts(stats, step.count) if step else None
    if step is None or found is None:
        return None
    other_step = step_of(normal) if normal else None
    other = launch_facts(normal, other_step.count) if normal and other_step else None
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
        found.append(
            Finding(
                "wrong" if block.slowdown and block.slowdown > 1.05 else "suspect",
                f"a kernel launch takes {block.launches.mean_s * 1e6:.0f} µs, "
                f"{block.launches.per_step:,.0f} launches a step",
                "launches last as long as their kernels, as with CUDA_LAUNCH_BLOCKING=1: the host "
                "cannot run ahead",
                "unset CUDA_LAUNCH_BLOCKING and compare; else profile with fewer, larger kernels",
                stats.source,
                block.slowdown,
            )
        )
    buffers = buffer_broadcast(stats)
    if buffers is not None:
        found.append(
            Finding(
                "suspect" if buffers.slowdown > 1.02 else "note",
                f"broadcasts take {buffers.per_step_s * 1e3:.1f} ms a step "
                f"({buffers.calls_per_step:.1f} calls)",
                "DDP sends the module's buffers to all ranks before each forward pass",
                "DistributedDataParallel(..., broadcast_buffers=False) if no buffer must stay equal",
                stats.source,
                buffers.slowdown,
            )
        )
    return tuple(found)
