"""Outputs of benchmarks in the shapes of nccl-tests, iperf3 and perftest, written for tests."""

import json
from collections.abc import Sequence
from typing import Any

import numpy as np

import syncwall as sw
from syncwall.explain.collective_benchmarks import expected_seconds
from syncwall.measure.result import JobFacts, Result
from syncwall.work.operations import CollectiveKind

SIZES = tuple(float(2**power) for power in range(10, 34))
NAMES = {"all-reduce": "all_reduce", "all-gather": "all_gather", "all-to-all": "alltoall"}
H100 = "NVIDIA H100 80GB HBM3"


def seconds_on(
    cluster: str,
    ranks: int,
    nodes: int,
    kind: CollectiveKind = "all-reduce",
    sizes: Sequence[float] = SIZES,
) -> Any:
    """What the machine should take, as an array."""
    return expected_seconds(sw.cluster(cluster), kind, ranks, nodes, np.array(sizes))


def nccl_tests(
    seconds: Any,
    *,
    ranks: int = 8,
    nodes: int = 1,
    sizes: Sequence[float] = SIZES,
    device: str = H100,
    collective: str = "all_reduce",
    told: bool = True,
) -> str:
    """An output of nccl-tests; without `told` it does not name its collective."""
    factor = (2.0 if collective == "all_reduce" else 1.0) * (ranks - 1) / ranks
    redop = "sum" if collective in ("all_reduce", "reduce_scatter") else "none"
    lines = [
        "# nThread 1 nGpus 1 minBytes 8 maxBytes 8589934592 step: 2(factor)",
        "# Using devices",
    ]
    if told:
        lines.append(f"# Collective test starting: {collective}_perf")
    for rank in range(ranks):
        host = f"node{rank * nodes // ranks}"
        lines.append(f"#  Rank {rank:2d} Group  0 Pid {rank} on {host} device 0 [0x1b] {device}")
    for size, took in zip(sizes, seconds, strict=True):
        rate = size / took / 1e9
        one = f"{took * 1e6:.2f} {rate:.3f} {rate * factor:.3f} 0"
        lines.append(f"{size:.0f} {size / 4:.0f} float {redop} -1 {one} {one}")
    return "\n".join([*lines, "# Out of bounds values : 0 OK", "# Avg bus bandwidth    : 1", ""])


def iperf3_json(gbit_per_s: float, streams: int = 8, again: int = 0) -> str:
    """An output of `iperf3 -J`."""
    ends = [{"local_host": "10.0.0.1", "remote_host": "10.0.0.2"}] * streams
    sent = {"bits_per_second": gbit_per_s * 1e9, "bytes": gbit_per_s * 1.25e9, "retransmits": again}
    start = {"version": "iperf 3.12", "connected": ends}
    return json.dumps({"start": start, "end": {"sum_sent": sent, "sum_received": sent}})


IPERF3 = """\
Connecting to host 10.0.0.2, port 5201
[  5] local 10.0.0.1 port 40742 connected to 10.0.0.2 port 5201
[  7] local 10.0.0.1 port 40756 connected to 10.0.0.2 port 5201
[ ID] Interval           Transfer     Bitrate         Retr  Cwnd
[  5]   0.00-1.00   sec   736 MBytes  6.17 Gbits/sec    1   1.2 MBytes
- - - - - - - - - - - - - - - - - - - - - - - - -
[  5]   0.00-1.00   sec   736 MBytes  6.17 Gbits/sec    1             sender
[  5]   0.00-1.00   sec   736 MBytes  6.16 Gbits/sec                  receiver
[  7]   0.00-1.00   sec   736 MBytes  6.17 Gbits/sec    3             sender
[  7]   0.00-1.00   sec   736 MBytes  6.16 Gbits/sec                  receiver
[SUM]   0.00-1.00   sec  1.44 GBytes  12.4 Gbits/sec    4             sender
[SUM]   0.00-1.00   sec  1.44 GBytes  12.3 Gbits/sec                  receiver

iperf Done.
"""


def perftest(gbit_per_s: float, device: str = "mlx5_0", unit: str = "Gb") -> str:
    """An output of ib_write_bw."""
    rate = gbit_per_s if unit == "Gb" else gbit_per_s * 1e9 / 8 / 2**20
    head = f" #bytes     #iterations    BW peak[{unit}/sec]    BW average[{unit}/sec]   MsgRate[Mpps]"
    return f"""\
                    RDMA_Write BW Test
 Dual-port       : OFF\t\tDevice         : {device}
 Number of qps   : 2\t\tTransport type : IB
 Mtu             : 4096[B]
---------------------------------------------------------------------------------------
{head}
 65536      5000             {rate:.2f}             {rate:.2f} \t\t   0.374547
---------------------------------------------------------------------------------------
"""


def result(kind: str, data: dict[str, Any], device: str = H100) -> str:
    """What `syncwall measure` writes."""
    job = JobFacts(backend="nccl", device=device, hosts=("a", "a", "b", "b"))
    made = Result.model_validate({"kind": kind, "job": job, "hosts": (), "data": data})
    return made.model_dump_json()
