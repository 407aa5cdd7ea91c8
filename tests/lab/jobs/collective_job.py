"""One job of `python -m bench accuracy contention`: collectives of so many bytes, over and over.

`collective_job.py KIND BYTES TIMES START`, once a rank; prints the seconds from
START (of the clock) to the end of the last one.
"""

import sys
import time
from datetime import timedelta

import torch
import torch.distributed as dist


def main(kind: str, size_bytes: int, times: int, start: float) -> None:
    torch.set_num_threads(1)
    dist.init_process_group("gloo", timeout=timedelta(seconds=120))
    data = torch.zeros(size_bytes // 4)
    out = torch.empty_like(data)
    small = torch.zeros(4 * dist.get_world_size())
    for _ in range(3):
        dist.all_reduce(small)
        dist.all_to_all_single(torch.empty_like(small), small)
    dist.barrier()
    if time.time() > start:
        raise SystemExit("began too late")
    while time.time() < start:
        time.sleep(0.001)
    for _ in range(times):
        if kind == "all-to-all":
            dist.all_to_all_single(out, data)
        else:
            dist.all_reduce(data)
    print(time.time() - start)
    dist.barrier()
    dist.destroy_process_group()


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]), int(sys.argv[3]), float(sys.argv[4]))
