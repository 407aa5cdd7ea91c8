"""One rank of a small real job over Gloo: `python gloo_job.py BYTES TRIALS OUTPUT`.

Rank 0 writes the median seconds and the bus bandwidth of an all-reduce.
"""

import json
import os
import statistics
import sys
import time
from pathlib import Path

import torch
import torch.distributed as dist


def main() -> None:
    size_bytes, trials, output = int(sys.argv[1]), int(sys.argv[2]), Path(sys.argv[3])
    dist.init_process_group("gloo")
    data = torch.zeros(size_bytes // 4)
    dist.all_reduce(data)
    seconds = []
    for _ in range(trials):
        dist.barrier()
        start = time.perf_counter()
        dist.all_reduce(data)
        seconds.append(time.perf_counter() - start)
    median_s, world = statistics.median(seconds), dist.get_world_size()
    busbw = size_bytes / median_s * 2 * (world - 1) / world
    if dist.get_rank() == 0:
        figures = {"median_s": median_s, "busbw_bytes_per_s": busbw, "trials_s": seconds}
        output.write_text(json.dumps(figures))
    dist.barrier()
    sys.stderr.flush()
    os._exit(0)  # Gloo's threads and the end of the interpreter race


if __name__ == "__main__":
    main()
