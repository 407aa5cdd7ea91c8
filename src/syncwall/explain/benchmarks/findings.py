"""What benchmarks say of a machine, as findings.

Holds `judge_collectives`, which takes the machine that was named or those that were recognised,
`told_by_log`, `collective_findings`, `gemm_findings` and `NEXT`, what to do about each fault.
"""

from collections.abc import Iterator, Sequence
from dataclasses import replace
from math import log
from typing import Final

from syncwall.describe import Cluster
from syncwall.explain.benchmarks.collective import CollectiveBenchmark
from syncwall.explain.benchmarks.faults import FaultKind
from syncwall.explain.benchmarks.judged import Judgement, judged
from syncwall.explain.benchmarks.kernels import GemmJudgement
from syncwall.explain.finding import Finding
from syncwall.read.nccl_facts import NcclLog
from syncwall.units import plural

NEXT: Final = {
    FaultKind.NIC: "ibstat (or rdma link) on every host: is a port down? NCCL_DEBUG=INFO, and "
    "`syncwall explain` that log: how many NICs are used",
    FaultKind.TCP: "run it with NCCL_DEBUG=INFO: NET/Socket says that the plugin or libibverbs was "
    "not found; unset NCCL_IB_DISABLE, mount the plugin into the container",
    FaultKind.NVLINK: "nvidia-smi nvlink -s on the host: links that are down; Xid 74 in dmesg, a "
    "stopped nvidia-fabricmanager",
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
    """Slow, unsteady, too small to tell, or too fast to be that machine."""
    if said.is_slow:
        yield _slow(said, machines)
    elif said.is_unsteady:
        yield Finding(
            "suspect", f"{_what(said)}, but smaller sizes are as fast as they should be",
            "a fault slows all large sizes down; single ones suffer from other jobs on the network",
            "run it again, alone or at another hour, with more iterations (-n 100)",
            said.benchmark.source,
        )  # fmt: skip
    elif said.slow_on:
        yield Finding(
            "suspect", f"{_what(said)}; on {' or '.join(said.slow_on[:3])} it would be slow",
            "the file does not say which network the hosts have",
            f"name the machine: --cluster {said.slow_on[0]}", said.benchmark.source,
        )  # fmt: skip
    elif said.rate is None:
        yield Finding(
            "note", f"{said.benchmark.kind}: all sizes are too small to tell the rate of links",
            "up to some MiB a collective takes what its latency does",
            "measure larger sizes, too: -b 8 -e 8G -f 2", said.benchmark.source,
        )  # fmt: skip
    elif said.rate < _FAST * said.limits.least and len(machines) == 1:
        yield Finding(
            "suspect", f"{_what(said)}: {1 / said.rate:.2f} times as fast",
            "no fault makes a machine faster: it is another one than was said",
            "name the right one: --cluster (syncwall show clusters lists them)",
            said.benchmark.source,
        )  # fmt: skip


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
