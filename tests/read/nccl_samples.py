"""Texts in the shapes of NCCL, nccl-tests, nsys and the flight recorder, written for tests."""

from pathlib import Path
from typing import Any

MEASURED = Path(__file__).parents[3] / "shared" / "data" / "measured"


def nccl_log(
    *,
    hosts: int = 2,
    gpus: int = 2,
    net: str = "NET/IB",
    nics: int = 2,
    used: int = 2,
    gdr: bool = True,
    extra: str = "",
    intra: str = "P2P/CUMEM",
    link: str = "RoCE",
) -> str:
    """A small log: `hosts` x `gpus` ranks, interleaved, with a launcher's rank before each line."""
    ranks = hosts * gpus
    names = " ".join(f"[{i}]mlx5_{i}:1/{link}" for i in range(nics))
    network = net.removeprefix("NET/")
    lines = ["+ export NCCL_DEBUG=INFO", "0: NCCL version 2.21.5+cuda12.4", "loss 3.14 step 2"]
    for rank in range(ranks):
        head = f"{rank}: node{rank // gpus}:{100 + rank}:{200 + rank} [{rank % gpus}] NCCL INFO "
        device = rank % gpus
        comm = f"comm 0xab rank {rank} nranks {ranks} cudaDev {device} busId {device}b000 "
        end = "/GDRDMA" if gdr else ""
        lines += [
            head + (f"NET/IB : Using {names} [RO]; OOB eth0:10.0.0.1<0>" if nics else "hello"),
            head + f"Using network {network}",
            head + f"ncclCommInitRank {comm}commId 0xfeed - Init START",
            head + "Trees [0] 1/-1/-1->0->-1 [1] 1/-1/-1->0->-1",
            head + "4 coll channels, 0 nvls channels, 8 p2p channels, 2 p2p channels per peer",
            head + f"Channel 00/0 : {rank}[0] -> {(rank + 1) % ranks}[1] via {intra}",
            *(head + f"Channel 0{i}/0 : {rank}[0] -> 9[1] [send] via {net}/{i}{end}" for i in range(used)),
            head + f"ncclCommInitRank {comm}commId 0xfeed - Init COMPLETE",
        ]
    lines.insert(5, "0: node0:100:200 [0] NCCL INFO Channel 00/04 :    0   1   2   3")
    return "\n".join([*lines, extra, ""])


NCCL_TESTS = """\
0: # nccl-tests version 2.17.8 nccl-headers=22606 nccl-library=21903
0: # Collective test starting: all_reduce_perf
0: # nThread 1 nGpus 1 minBytes 1024 maxBytes 4096 step: 2(factor) warmup iters: 1 iters: 5
0: # Using devices
0: #  Rank  0 Group  0 Pid 165065 on  nid010594 device  0 [0009:01:00] NVIDIA GH200 120GB
0: #  Rank  1 Group  0 Pid 165066 on  nid010594 device  1 [0019:01:00] NVIDIA GH200 120GB
0: #       size         count      type   redop    root     time   algbw   busbw  #wrong
0:         1024           256     float     sum      -1    12.50    0.08    0.08       0    12.00    0.09    0.09     0
0:         2048           512     float     sum      -1   37622.3   0.16    0.16     N/A    99999    0.17    0.17   N/A
0: # Out of bounds values : 0 OK
0: # Avg bus bandwidth    : 0.125
0: # Collective test starting: all_gather_perf
0: # nThread 1 nGpus 1 minBytes 1024 maxBytes 1024 step: 2(factor)
0:         1024           256     float    none      -1    10.00    0.10    0.05       0    10.00    0.10    0.05     0
0: # Avg bus bandwidth    : 0.05
"""  # noqa: E501

NSYS = """\
Processing [a.sqlite] with [cuda_api_sum.py]...

 ** NVTX Range Summary (nvtx_sum):

 Time (%)  Total Time (ns)  Instances    Avg (ns)       Med (ns)      Min (ns)  Max (ns)  StdDev (ns)   Style   Range
 --------  ---------------  ---------  -------------  -------------  ---------  --------  -----------  -------  -----
     99.0    1,000,000,000         10  100,000,000.0   90,000,000.0          1         2          0.0  PushPop  :step

 ** CUDA API Summary (cuda_api_sum):

 Time (%)  Total Time (ns)  Num Calls    Avg (ns)     Med (ns)   Min (ns)  Max (ns)  StdDev (ns)  Name
 --------  ---------------  ---------  ------------  ----------  --------  --------  -----------  ----------------
     50.0      {launch_ns:>11,}      1,000           1.0         1.0         1         1          0.0  cudaLaunchKernel
     40.0      {wait_ns:>11,}         20           1.0         1.0         1         1          0.0  cudaStreamSynchronize

 ** CUDA GPU Kernel Summary (cuda_gpu_kern_sum):

 Time (%)  Total Time (ns)  Instances    Avg (ns)     Med (ns)   Min (ns)  Max (ns)  StdDev (ns)  Name
 --------  ---------------  ---------  ------------  ----------  --------  --------  -----------  ----------------
     90.0      800,000,000      1,000           1.0         1.0         1         1          0.0  gemm<int, (bool)1>
      9.0       50,000,000         20           1.0         1.0         1         1          0.0  ncclDevKernel_Broadcast_RING_LL(x *)
"""  # noqa: E501


def nsys(*, launch_ns: int = 10_000_000, wait_ns: int = 700_000_000) -> str:
    """A summary of 10 steps of 90 ms (median) with 1,000 launches in all."""
    return NSYS.format(launch_ns=launch_ns, wait_ns=wait_ns)


def flight(rank: int, count: int, *, state: str = "completed", **last: Any) -> dict[str, Any]:
    """A dump of `rank` with `count` all-reduces; `state` and `last` change the last entry."""
    entries = [
        {
            "process_group": ["0", "default_pg"],
            "collective_seq_id": seq,
            "op_id": seq,
            "profiling_name": "nccl:all_reduce",
            "state": "completed",
            "input_sizes": [[4, 256]],
            "input_dtypes": ["Float"],
            "output_sizes": [[4, 256]],
            "output_dtypes": ["Float"],
            "time_created_ns": 1000 * seq + rank,
            "timeout_ms": 600000,
            "is_p2p": False,
            "frames": [
                {"filename": "/x/torch/nn.py", "line": 1, "name": "f"},
                {"filename": "train.py", "line": 42, "name": "main"},
            ],
        }
        for seq in range(1, count + 1)
    ]
    if entries:
        entries[-1] |= {"state": state} | last
    ranks = {"0": {"name": "0", "desc": "default_pg", "ranks": "[0, 1, 2, 3]"}}
    return {"version": "2.4", "nccl_version": "2.21.5", "pg_config": ranks, "entries": entries}
