"""A plain DDP script as people write it: SGD on a small network, with faults on demand.

Knows nothing of syncwall. Faults are named by variables: `FAULT` (what), `FAULT_RANK` (or "all"),
`FAULT_STEP`, `FAULT_S`. With `TRACEML` set it has the lines that TraceML asks for.
"""

import ctypes
import math
import os
import signal
import subprocess
import sys
import time
from contextlib import nullcontext

import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel
from torch.utils.data import DataLoader, Dataset

STEPS = int(os.environ.get("STEPS", "40"))
COMPUTE_S = float(os.environ.get("COMPUTE_S", "0"))
FAULT = os.environ.get("FAULT", "")
FAULT_RANK = os.environ.get("FAULT_RANK", "1")
FAULT_STEP = int(os.environ.get("FAULT_STEP", "20"))
FAULT_S = float(os.environ.get("FAULT_S", "60"))
IN_FORWARD = os.environ.get("COMPUTE_IN") == "forward"
SIZE = int(os.environ.get("SIZE", "64"))
OWN_BATCHES = bool(os.environ.get("OWN_BATCHES"))
"""Read by the loop itself, as nanoGPT's `get_batch` does."""
SPARE: list[object] = []
NOW: list[int] = [0]
SLEPT: list[float] = []
"""What sleeps really took: a busy machine wakes late."""
ACCUMULATE = int(os.environ.get("ACCUMULATE", "1"))
if os.environ.get("TRACEML"):
    import traceml_ai

    traceml_ai.init()
    traced = traceml_ai.trace_step
else:
    traced = nullcontext


class Numbers(Dataset):
    def __init__(self, rank):
        self.rank = rank

    def __len__(self):
        return 8 * STEPS * ACCUMULATE

    def __getitem__(self, index):
        step = index // 8 // ACCUMULATE
        if index % 8 == 0 and is_faulty(self.rank):
            if FAULT == "data" and step == FAULT_STEP:
                time.sleep(FAULT_S)
            if FAULT == "slow data" and step >= FAULT_STEP:
                sleep()
        return torch.full((SIZE,), float(index % 13) / 13)

    def batch(self, step):
        return torch.stack([self[8 * step + number] for number in range(8)])


def main():
    torch.manual_seed(0)
    torch.set_num_threads(1)
    dist.init_process_group("gloo")
    rank = dist.get_rank()
    SPARE.append(dist.new_group() if FAULT == "collective" else None)
    layers = [torch.nn.Linear(SIZE, SIZE) for _ in range(int(os.environ.get("LAYERS", "4")))]
    model = DistributedDataParallel(torch.nn.Sequential(*layers))
    if FAULT == "slow network":
        model.register_comm_hook(None, late_all_reduce)
    if IN_FORWARD:
        model.module.register_forward_pre_hook(lambda *_: compute(rank))
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
    numbers = Numbers(rank)
    loader = map(numbers.batch, range(STEPS)) if OWN_BATCHES else DataLoader(numbers, batch_size=8)
    batches = iter(loader)
    for step in range(STEPS):
        with traced(model):
            NOW[:] = [step]
            for micro in range(ACCUMULATE):
                batch = next(batches)
                _fault(step, rank, model)
                if not IN_FORWARD:
                    compute(rank)
                _slow_fault(step, rank, "more work")
                alone = micro < ACCUMULATE - 1 or FAULT == "no sync"
                with model.no_sync() if alone else nullcontext():
                    loss = (model(batch) - batch).square().mean() / ACCUMULATE
                    loss.backward()
            _slow_fault(step, rank, "more communication")
            optimizer.step()
            optimizer.zero_grad()
        _slow_fault(step, rank, "idle")
        if step == FAULT_STEP and is_faulty(rank) and FAULT == "after step":
            time.sleep(FAULT_S)
        if "save" in FAULT and step % 10 == 9:
            torch.save(Slow(model.state_dict()), os.devnull)
        if "evaluate" in FAULT and step % 10 == 9:
            model.eval()
            sleep()
            model.train()
    if rank == 0:
        weights = torch.cat([one.flatten() for one in model.parameters()])
        print("weights", weights.double().sum().item().hex(), flush=True)
        print("slept", sum(SLEPT), flush=True)
    dist.destroy_process_group()


def compute(rank):
    """Stands for a device that computes."""
    slow = FAULT == "slow" and is_faulty(rank) and NOW[0] >= FAULT_STEP
    if COMPUTE_S:
        time.sleep(COMPUTE_S * (1 + FAULT_S * slow))


def sleep():
    began = time.perf_counter()
    time.sleep(FAULT_S)
    SLEPT.append(time.perf_counter() - began)


def is_faulty(rank):
    return FAULT_RANK in {"all", str(rank)}


def spin():
    until = time.monotonic() + FAULT_S
    while time.monotonic() < until:
        pass


def late_all_reduce(_, bucket):
    """What DDP does, over a network that is slow."""

    def arrived(reduced):
        if NOW[0] >= FAULT_STEP:
            sleep()
        return reduced.value()[0] / dist.get_world_size()

    return dist.all_reduce(bucket.buffer(), async_op=True).get_future().then(arrived)


class Slow:
    """Takes a while to be pickled."""

    def __init__(self, inside):
        self.inside = inside

    def __getstate__(self):
        sleep()
        return self.__dict__


def _slow_fault(step, rank, kind):
    """What makes every step longer from `FAULT_STEP` on."""
    if kind != FAULT or step < FAULT_STEP or not is_faulty(rank):
        return
    if kind == "idle":
        sleep()
    elif kind == "more work":
        spin()
    elif kind == "more communication":
        dist.all_reduce(torch.ones(int(FAULT_S * 2e8)))  # about a second for 0.8 GB


def _fault(step, rank, model):
    if step != FAULT_STEP or not is_faulty(rank):
        return
    if FAULT == "gil":
        ctypes.PyDLL(None).usleep(int(FAULT_S * 1e6))  # PyDLL keeps the GIL
    elif FAULT == "spin":
        spin()
    elif FAULT == "collective":
        dist.all_reduce(torch.ones(4), group=SPARE[0])  # the others never call it
    elif FAULT == "exception":
        raise RuntimeError("as asked")
    elif FAULT == "exit":
        sys.exit(3)
    elif FAULT == "killed":
        os.kill(os.getpid(), signal.SIGKILL)
    elif FAULT == "stopped":
        subprocess.Popen(["sh", "-c", f"sleep {FAULT_S}; kill -CONT {os.getpid()}"])
        os.kill(os.getpid(), signal.SIGSTOP)
    elif FAULT in ("spike", "nan"):
        for one in model.parameters():
            one.data.mul_(10.0 if FAULT == "spike" else math.nan)


if __name__ == "__main__":
    main()
