"""FSDP2 on CPUs, unmodified: `fully_shard` of each layer and of the whole."""

import os
import time

import torch
import torch.distributed as dist
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import fully_shard


def main():
    torch.manual_seed(0)
    torch.set_num_threads(1)
    mesh = init_device_mesh("cpu", (int(os.environ["WORLD_SIZE"]),))
    model = torch.nn.Sequential(*(torch.nn.Linear(256, 256) for _ in range(4)))
    for layer in model:
        fully_shard(layer, mesh=mesh)
    fully_shard(model, mesh=mesh)
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
    slow = os.environ.get("FAULT") == "slow" and dist.get_rank() == 1
    for _ in range(int(os.environ.get("STEPS", "40"))):
        time.sleep(0.02 if slow else 0.01)
        model(torch.ones(8, 256)).square().mean().backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        optimizer.zero_grad()
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
