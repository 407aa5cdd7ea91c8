"""Benchmarks of collectives, links and kernels: are they as fast as the machine should be?"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from math import log
from pathlib import Path
from statistics import median
from typing import Any, Final

import numpy as np
from pydantic import ValidationError

from syncwall.cost.calibration import calibration
from syncwall.cost.compute import gemm_alone_seconds
from syncwall.cost.measured import GemmPoint, MachineMeasurements
from syncwall.describe import Cluster, Device
from syncwall.describe.reading import validated
from syncwall.documents import read_document
from syncwall.explain.collective_benchmarks import (
    SMALL_MOST,
    CollectiveBenchmark,
    FaultKind,
    Judgement,
    judged,
    of_measured,
    of_nccl_tests,
)
from syncwall.explain.finding import Finding
from syncwall.explain.machines import Recognised, Sighting, recognised
from syncwall.measure.calibrate import measured_of
from syncwall.measure.links import LinkRow
from syncwall.measure.result import Result
from syncwall.measure.suspects import EXPECTED, SLOW, SlowComponent
from syncwall.problems import InputError
from syncwall.read.detect import FileKind
from syncwall.read.link_rates import LinkReading
from syncwall.read.nccl_facts import NcclLog
from syncwall.read.nccl_tests import NcclTests
from syncwall.units import plural
from syncwall.work.operations import Gemm

_LARGE: Final = 1024
"""Least dimension of a multiplication that fills a device."""
SLOW_FROM: Final = 1.15
"""Median of measured over expected time; of 23 files of kernels on 8 devices (aiconfigurator) it
lies between 0.93 and 1.07. The calibrations have seen these kernels."""
ONE_SLOW_FROM: Final = 1.5
"""The same of few shapes: 1% of single ones are slower."""
_FEW: Final = 5


@dataclass(frozen=True, slots=True)
class GemmJudgement:
    """Multiplications beside what the device should do."""

    source: str
    device: str
    count: int
    """Shapes that fill the device."""
    flop_per_s: float
    """Of the fastest of them."""
    expected_flop_per_s: float
    """What the same one should reach."""
    ratio: float
    """Median of measured over expected time."""

    @property
    def is_slow(self) -> bool:
        """True if the device is slower than others of its kind."""
        return self.ratio > (SLOW_FROM if self.count >= _FEW else ONE_SLOW_FROM)


def judged_gemms(points: Sequence[GemmPoint], device: Device, source: str) -> GemmJudgement | None:
    """The large ones of `points` on `device`; None if there are none, or it has no such peak."""
    large = [p for p in points if min(p.m, p.n, p.k) >= _LARGE and p.dtype in device.peak_flop_per_s]
    if not large:
        return None
    fit = calibration(device).gemm
    shapes = [Gemm(p.m, p.n, p.k, p.dtype, is_weight_gradient=p.is_weight_gradient) for p in large]
    expected = np.array([float(gemm_alone_seconds(one, device, fit)) for one in shapes])
    seconds, flops = np.array([p.seconds for p in large]), np.array([g.flops for g in shapes])
    best = int(np.argmax(flops / seconds))
    return GemmJudgement(
        source,
        device.name,
        len(large),
        float(flops[best] / seconds[best]),
        float(flops[best] / expected[best]),
        float(np.median(seconds / expected)),
    )


NEXT: Final = {
    FaultKind.NIC: "ibstat (or rdma link) on every host: is a port down? NCCL_DEBUG=INFO, and "
    "`syncwall explain` that log: how many NICs are used",
    FaultKind.TCP: "run it with NCCL_DEBUG=INFO: NET/Socket says that the plugin or libibverbs was "
    "not found; unset NCCL_IB_DISABLE, mount the plugin into the container",
    FaultKind.NVLINK: "nvidia-smi nvlink -s on the host: links that are down; Xid 74 in dmesg, a "
    "stopped nvidia-fabricmanager",
    FaultKind.NVLS: "unset NCCL_NVLS_ENABLE; NCCL_DEBUG=INFO: does the log speak of NVLS? It needs "
    "nvidia-fabricmanager (a fabric state of Completed in nvidia-smi -q) and a NCCL from 2.18 on",
    FaultKind.PCIE: "nvidia-smi topo -m: NV# between all GPUs? unset NCCL_P2P_DISABLE, start "
    "nvidia-fabricmanager",
    FaultKind.RANK: "`syncwall measure links` on the same hosts names the rank; nvidia-smi -q -d "
    "PERFORMANCE shows a throttled GPU",
}
_FAST: Final = 0.8
"""Share of the least healthy time below which the machine is a faster one than was said."""


def judge_collectives(
    benchmarks: Sequence[CollectiveBenchmark], machines: Sequence[Cluster]
) -> tuple[Judgement, ...]:
    """Each on the machine of `machines` that speaks best for it; none if it fits none of them."""
    found = []
    for one in benchmarks:
        said = [known for machine in machines if (known := judged(one, machine))]
        if said:
            best = min(said, key=_unlike)
            slow = tuple(known.machine.name for known in said if known.is_slow)
            found.append(replace(best, slow_on=() if best.is_slow else slow))
    return tuple(found)


def _unlike(said: Judgement) -> tuple[bool, float]:
    """How much speaks against a machine; most if it was faster than that machine can be."""
    rate = said.rate or 1.0
    return rate < _FAST * said.limits.least, abs(log(rate))


def told_by_log(said: Judgement, log: NcclLog) -> Judgement:
    """`said` with what a log of the same job knows: which transport, and how many NICs."""
    causes = list(said.faults)
    if log.inter_node == "Socket" and said.benchmark.nodes != 1:
        causes = [FaultKind.TCP]
    elif log.inter_node is not None:
        causes = [one for one in causes if one is not FaultKind.TCP]
    if log.nics_used and len(log.nics_used) < len(log.nics):
        causes = list(dict.fromkeys([FaultKind.NIC, *causes]))
    return replace(said, faults=tuple(causes)) if said.is_slow else said


def collective_findings(said: Judgement, machines: Sequence[Cluster]) -> Iterator[Finding]:
    """Slow, unsteady, or too fast to be that machine."""
    if said.is_slow:
        yield _slow(said, machines)
    elif said.is_unsteady:
        yield Finding(
            "suspect",
            f"{_what(said)}, but smaller sizes are as fast as they should be",
            "a fault slows all large sizes down; single ones suffer from other jobs on the network",
            "run it again, alone or at another hour, with more iterations (-n 100)",
            said.benchmark.source,
        )
    elif said.is_late:
        table = said.benchmark
        yield Finding(
            "suspect",
            f"small sizes of {table.kind} of {plural(table.ranks, 'rank')} take {said.small:.2g} times as "
            f"long as they should on {said.machine.name}",
            f"each call waits, whatever it moves; on healthy machines at most {SMALL_MOST:.2g} times as long",
            "NCCL_DEBUG=INFO: NET/Socket, or processes that are not pinned beside their GPU; other programs "
            "on the host's cores; then run it again with more iterations (-n 100)",
            table.source,
        )
    elif said.rate is not None and said.rate < _FAST * said.limits.least and len(machines) == 1:
        yield Finding(
            "suspect",
            f"{_what(said)}: {1 / said.rate:.2f} times as fast",
            "no fault makes a machine faster: it is another one than was said",
            "name the right one: --cluster (syncwall show clusters lists them)",
            said.benchmark.source,
        )


def gemm_findings(said: GemmJudgement) -> Iterator[Finding]:
    """A device that multiplies slower than others of its kind."""
    if said.is_slow:
        yield Finding(
            "wrong",
            f"matrix multiplications take {said.ratio:.2f} times as long as on other {said.device}",
            f"the fastest of {plural(said.count, 'large shape')} reaches "
            f"{said.flop_per_s / 1e12:.0f} TFLOP/s; {said.expected_flop_per_s / 1e12:.0f} usual",
            "nvidia-smi -q -d CLOCK,POWER,PERFORMANCE: a power cap, heat, or clocks that were set; "
            "then `syncwall measure matmul` again",
            said.source,
        )


def _slow(said: Judgement, machines: Sequence[Cluster]) -> Finding:
    assert said.rate is not None
    assert said.slow_sizes is not None
    causes = "of no known cause"
    if said.faults:
        others = said.faults[1:]
        causes = f"likely {said.faults[0]}" + (f" (or {' or '.join(others)})" if others else "")
    beside = [one.name for one in machines if one.name != said.machine.name]
    every = f"; slower than on {', '.join(beside[:3])}, too" if beside else ""
    spread = f"{said.limits.most - 1:.0%}"
    return Finding(
        "wrong",
        f"{_what(said)}: {causes}",
        f"large sizes ({_size(said.slow_sizes[0])} to {_size(said.slow_sizes[1])}) take "
        f"{said.rate:.3g} times as long as expected, healthy machines at most {spread} more"
        f"{_small(said)}{every}",
        "; ".join(NEXT[fault] for fault in said.faults[:2] or (FaultKind.RANK,)),
        said.benchmark.source,
    )


def _small(said: Judgement) -> str:
    return "" if said.small is None else f"; small ones {said.small:.2g} times"


def _what(said: Judgement) -> str:
    size, reached, expected, least = said.largest
    found = said.benchmark
    hosts = f" on {plural(found.nodes, 'host')}" if found.nodes else ""
    return (
        f"{found.kind} of {plural(found.ranks, 'rank')}{hosts} reaches {_rate(reached)} busbw at "
        f"{_size(size)}, {said.machine.name} {_rate(expected)} (healthy: {_rate(least)} or more)"
    )


def _rate(bytes_per_s: float) -> str:
    return f"{bytes_per_s / 1e9:.3g} GB/s"


def _size(size_bytes: float) -> str:
    for unit, name in ((2**30, "GiB"), (2**20, "MiB"), (2**10, "KiB")):
        if size_bytes >= unit:
            return f"{size_bytes / unit:.3g} {name}"
    return f"{size_bytes:.0f} B"


_TIMED = ("collectives", "matmul")


@dataclass(frozen=True)
class MeasuredFile:
    """One result of `syncwall measure`, or a calibration made of several."""

    source: str
    kind: str
    device: str
    """Name of the accelerator, or cpu."""
    hosts: tuple[str, ...]
    """By rank."""
    times: MachineMeasurements
    """Of collectives and kernels."""
    links: tuple[LinkRow, ...] = ()
    suspects: tuple[SlowComponent, ...] = ()
    """Ranks and links that were slow beside the others."""
    result: Result | None = None
    """None of a calibration."""

    @property
    def says(self) -> str:
        """In a few words."""
        held = {
            "collective": self.times.collectives,
            "matrix product": self.times.gemm,
            "link": self.links,
        }
        what = ", ".join(plural(len(all_), one) for one, all_ in held.items() if all_)
        return f"{self.kind} on {self.device or '?'}, {plural(len(self.hosts), 'rank')}: {what}"


def read_measured_file(path: Path | str) -> MeasuredFile:
    """The file at `path`; raises `InputError` if it is not whole."""
    document = read_document(Path(path))
    keys = document.value if isinstance(document.value, dict) else {}
    if "kind" not in keys or "job" not in keys:
        times = validated(document, MachineMeasurements)
        return MeasuredFile(str(path), "calibration", times.device, times.hosts, times)
    result = validated(document, Result)
    try:
        return _of(result, str(path))
    except (ValidationError, TypeError) as error:
        message = f"is not a whole result of measure {result.kind}: {str(error)[:120]}"
        raise InputError.of(message, file=str(path)) from None


def _of(result: Result, source: str) -> MeasuredFile:
    data, links = result.data, result.kind == "links"
    return MeasuredFile(
        source,
        result.kind,
        result.job.device,
        result.job.hosts,
        measured_of(result, source) if result.kind in _TIMED else MachineMeasurements(),
        links=tuple(map(LinkRow.model_validate, data.get("rows") or ())) if links else (),
        suspects=tuple(map(SlowComponent.model_validate, data.get("suspects") or ())) if links else (),
        result=result,
    )


_REACHED: Final = 0.9
"""Share of the line rate below which perftest is slow: 46 to 49 of 50 GB/s are usual on NDR (NCCL
maintainers in nccl-tests issue 290; nccl issue 2409: 392 of 400 Gb/s)."""
_ONE_STREAM: Final = 20e9 / 8
"""Bytes/s that one TCP connection reaches on one core of a server; more needs several."""
_MANY_AGAIN: Final = 100.0
"""Segments of each GB sent again, about one in 10,000, from which the path loses packets."""


def link_findings(rates: Sequence[LinkReading], machine: Cluster | None) -> Iterator[Finding]:
    """Links that are slower than their adapter, or than the other links in the same files."""
    nics = machine.node.nics if machine else None
    line = nics.rate_bytes_per_s if nics else None
    for one in rates:
        if line is not None and machine is not None:
            yield from _against_line(one, line, machine.name)
        yield from _lost(one)
    for tool in dict.fromkeys(one.tool for one in rates):
        yield from _against_others([one for one in rates if one.tool == tool])


def suspect_findings(found: MeasuredFile) -> Iterator[Finding]:
    """Ranks and links that were slow beside the others."""
    for one in found.suspects:
        yield Finding(
            "wrong",
            one.what,
            "a collective over all ranks runs at the pace of its slowest link",
            f"take {one.host} out of the job, or compare its cables, PCIe link and clocks with "
            "those of another host: nvidia-smi topo -m, ibstat, ethtool",
            found.source,
        )


def _against_line(one: LinkReading, line: float, name: str) -> Iterator[Finding]:
    is_tcp = one.tool == "iperf3"
    share = EXPECTED if is_tcp else _REACHED
    expected = min(line, one.streams * _ONE_STREAM) if is_tcp else line
    if one.bytes_per_s >= share * expected:
        return
    half = "; half of it: one of two ports, or a link that trained down" * (
        0.4 < one.bytes_per_s / line < 0.6
    )
    yield Finding(
        "wrong",
        f"{one.who} reaches {_gb(one.bytes_per_s)} of {_gb(line)} ({one.tool})",
        f"an adapter of {name} should give {_gb(share * expected)} or more{half}",
        "ethtool or ibstat: speed and state of the port; MTU on both ends; "
        + ("more streams (iperf3 -P 8)" if is_tcp else "NUMA node of the test (numactl)"),
        one.source,
    )


def _lost(one: LinkReading) -> Iterator[Finding]:
    """Packets that had to be sent again."""
    if (one.retransmits_per_gb or 0.0) > _MANY_AGAIN:
        yield Finding(
            "suspect",
            f"{one.who}: {one.retransmits_per_gb:,.0f} segments of each GB were sent again",
            "a path that loses packets slows TCP down, and RDMA much more",
            "read drops and pause frames: ethtool -S, the switch's counters",
            one.source,
        )


def _against_others(rates: Sequence[LinkReading]) -> Iterator[Finding]:
    """The slowest beside the middle of at least three."""
    if len(rates) < 3:
        return
    usual = median(one.bytes_per_s for one in rates)
    for one in sorted(rates, key=lambda one: one.bytes_per_s)[:5]:
        if one.bytes_per_s < SLOW * usual:
            yield Finding(
                "wrong",
                f"{one.who} reaches {_gb(one.bytes_per_s)}, the others {_gb(usual)}",
                "a collective over all of them runs at the pace of the slowest",
                "swap cable and port with a good host's, and measure again",
                one.source,
            )


def _gb(bytes_per_s: float) -> str:
    return f"{bytes_per_s * 8e-9:.3g} Gb/s"


@dataclass(frozen=True)
class MachineCheck:
    """What benchmarks reached, beside what the machine should give."""

    collectives: tuple[Judgement, ...] = ()
    gemms: tuple[GemmJudgement, ...] = ()
    recognised: Recognised | None = None
    """What the machine was taken for; None if it was named, or nothing fits."""
    findings: tuple[Finding, ...] = ()


Files = Mapping[str, Sequence[Any]]


def check_machine(read: Files, machine: Cluster | None, seen: Sequence[Sighting]) -> MachineCheck:
    """Every benchmark of `read` on `machine`, or on what the files were seen to be from."""
    tables = tables_of(read)
    guess = None if machine is not None or not tables else _guess(tables, seen)
    machines = (machine,) if machine is not None else guess.machines if guess else ()
    collectives = judge_collectives(tables, machines)
    logs = [one.what for one in read.get(FileKind.NCCL_LOG, ())]
    if len(logs) == 1:
        collectives = tuple(told_by_log(said, logs[0]) for said in collectives)
    gemms = tuple(_gemms(read, machines))
    found = tuple(_findings(read, machines, collectives, gemms))
    return MachineCheck(collectives, gemms, guess, found)


def _findings(
    read: Files,
    machines: Sequence[Cluster],
    collectives: Sequence[Judgement],
    gemms: Sequence[GemmJudgement],
) -> Iterator[Finding]:
    for said in collectives:
        yield from collective_findings(said, machines)
    for gemm in gemms:
        yield from gemm_findings(gemm)
    rates = [one.what for kind in (FileKind.IPERF3, FileKind.PERFTEST) for one in read.get(kind, ())]
    yield from link_findings(rates, machines[0] if len(machines) == 1 else None)
    for one in read.get(FileKind.MEASURED, ()):
        yield from suspect_findings(one.what)


def tables_of(read: Files) -> list[CollectiveBenchmark]:
    """Every benchmark of a collective that says what it is."""
    return list(_tables(read))


def _tables(read: Files) -> Iterator[CollectiveBenchmark]:
    for one in read.get(FileKind.NCCL_TESTS, ()):
        if (table := of_nccl_tests(one.what)) is not None:
            yield table
    for one in read.get(FileKind.MEASURED, ()):
        yield from of_measured(one.what.times)


def corruption_findings(run: NcclTests) -> Iterator[Finding]:
    """Results that nccl-tests checked and found to be wrong."""
    sizes = run.corrupt_sizes
    if not sizes and not run.out_of_bounds:
        return
    where = f" from {_size(sizes[0])} to {_size(sizes[-1])}" if sizes else ""
    many = f"{plural(run.out_of_bounds, 'value')} out of bounds" if run.out_of_bounds else "#wrong above 0"
    yield Finding(
        "wrong",
        f"{run.collective or 'the collective'} returns wrong results{where}: {many}",
        "training on it would corrupt gradients without an error",
        "take these hosts out of the job; run it on each pair of them to find the bad one, then look at "
        "ECC and Xid errors (nvidia-smi -q -d ECC, dmesg), cables, versions of NCCL and its plugin",
        run.source,
        corrupts=True,
    )


def _gemms(read: Files, machines: Sequence[Cluster]) -> Iterator[GemmJudgement]:
    if len({machine.device.name for machine in machines}) != 1:
        return
    for one in read.get(FileKind.MEASURED, ()):
        said = judged_gemms(one.what.times.gemm, machines[0].device, one.what.source)
        if said is not None:
            yield said


def _guess(tables: Sequence[CollectiveBenchmark], seen: Sequence[Sighting]) -> Recognised | None:
    """Machines with room for the largest table."""
    nodes = max(table.nodes or 1 for table in tables)
    each = max(-(-table.ranks // (table.nodes or 1)) for table in tables)
    return recognised(seen, each, nodes)
