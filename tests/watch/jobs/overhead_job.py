"""One rank of `python -m bench scale watch overhead`: blocks of steps with and without
hooks, interleaved.

First a small model, in whose steps hooks can be seen; then steps of 20 ms and more, as a bound.
"""

import os
import random
import time
from pathlib import Path

import numpy as np
import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel
from torch.utils.data import DataLoader, TensorDataset

from syncwall.watch import start, stop

STEPS = 120
WARM_UP = 100
"""Steps until Python's own caches, which replacing functions of classes empties, are full again."""
LONG_STEPS = 40
LONG_WARM_UP = 20
PRODUCTS = 12
"""Of matrices of 512 in a long step."""
KINDS = ("on", "off", "off again")


def block(*, watched: bool, long: bool) -> tuple[float, float]:
    """CPU seconds of the main thread and seconds of a step: fifth percentiles of a block, as other
    load of the machine only adds.
    """
    steps, warm_up = (LONG_STEPS, LONG_WARM_UP) if long else (STEPS, WARM_UP)
    matrix = torch.ones(512, 512)
    if watched:
        start()
    model = DistributedDataParallel(torch.nn.Linear(8, 8))
    optimizer = torch.optim.SGD(model.parameters(), lr=1e-4)
    batches = iter(DataLoader(TensorDataset(torch.ones(steps + warm_up, 8)), batch_size=1))
    cpu, wall = [], []
    for _ in range(steps + warm_up):
        before = time.thread_time(), time.perf_counter()
        (batch,) = next(batches)
        for _ in range(PRODUCTS if long else 0):
            matrix @ matrix
        model(batch).square().mean().backward()
        optimizer.step()
        optimizer.zero_grad()
        cpu.append(time.thread_time() - before[0])
        wall.append(time.perf_counter() - before[1])
    if watched:
        stop()
    return float(np.percentile(cpu[warm_up:], 5)), float(np.percentile(wall[warm_up:], 5))


def interval(values: list[float]) -> str:
    """Median and its 95% interval by bootstrap, in microseconds."""
    found = np.array(values) * 1e6
    draws = np.random.default_rng(1).choice(found, (2000, len(found)))
    low, high = np.percentile(np.median(draws, axis=1), [2.5, 97.5])
    return f"{np.median(found):.1f} ({low:.1f} to {high:.1f})"


def main() -> None:
    """Print what rank 0 saw."""
    stop()  # what the start-up file attached
    torch.set_num_threads(1)
    dist.init_process_group("gloo")
    for long in (False, True):
        measure(int(os.environ["REPEAT"]), long=long)
    dist.destroy_process_group()


def measure(repeat: int, *, long: bool) -> None:
    """Blocks of the three kinds in random order, and their differences."""
    order = random.Random(3)  # the same on all ranks
    cpu: dict[str, list[float]] = {kind: [] for kind in KINDS}
    wall: dict[str, list[float]] = {kind: [] for kind in KINDS}
    for _ in range(repeat):
        for kind in order.sample(KINDS, 3):
            found = block(watched=kind == "on", long=long)
            for times, seconds in zip((cpu, wall), found, strict=True):
                times[kind].append(seconds)
            for old in Path(os.environ["SYNCWALL_WATCH_FOLDER"]).glob(f"rank-{dist.get_rank()}-*"):
                old.unlink()
    if dist.get_rank() == 0:
        for name, times in (("CPU", cpu), ("wall", wall)):
            off = np.array(times["off"])
            print(f"{name}: step {np.median(off) * 1e3:.3f} ms without hooks")
            for kind in ("on", "off again"):
                more = list(np.array(times[kind]) - off)
                print(f"  {kind} - off: {interval(more)} µs a step, {len(more)} pairs")


if __name__ == "__main__":
    main()
