"""A DDP script that writes checkpoints, dies three times, and goes on from the last one.

Knows nothing of syncwall. `FOLDER` is where its checkpoints are.
"""

import os
import signal
import time
from pathlib import Path

import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel

STEPS, EVERY, DEATHS = 160, 20, (50, 75, 130)


def main():
    torch.manual_seed(0)
    torch.set_num_threads(1)
    rank, attempt = int(os.environ["RANK"]), int(os.environ["TORCHELASTIC_RESTART_COUNT"])
    store = f"file://{os.environ['FOLDER']}/store-{attempt}"  # the agent's keeps old addresses
    dist.init_process_group("gloo", init_method=store, rank=rank, world_size=2)
    model = DistributedDataParallel(torch.nn.Linear(32, 32))
    optimizer = torch.optim.SGD(model.parameters(), lr=1e-3)
    file, first = Path(os.environ["FOLDER"]) / "checkpoint.pt", 0
    if file.exists():
        saved = torch.load(file)
        model.load_state_dict(saved["model"])
        first = saved["step"]
    for step in range(first, STEPS):
        time.sleep(0.03)
        model(torch.ones(4, 32)).square().mean().backward()
        optimizer.step()
        optimizer.zero_grad()
        if (step + 1) % EVERY == 0:
            if rank == 0:
                torch.save({"step": step + 1, "model": model.state_dict()}, file.with_suffix(".new"))
                file.with_suffix(".new").rename(file)
            dist.barrier()
        if attempt < len(DEATHS) and step == DEATHS[attempt] and rank == 1:
            os.kill(os.getpid(), signal.SIGKILL)
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
