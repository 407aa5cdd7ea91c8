"""A worker of two real processes over Gloo: prints the collectives that it issues in a step."""

import json
import sys

import torch
import torch.distributed as dist
from torch import nn
from torch.distributed.fsdp import fully_shard
from torch.nn.parallel import DistributedDataParallel
from torch.utils._python_dispatch import TorchDispatchMode

from syncwall.capture.collectives import communication


class Listener(TorchDispatchMode):  # type: ignore[misc]
    """Remembers what is sent."""

    def __init__(self):
        super().__init__()
        self.sent = []

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        out = func(*args, **(kwargs or {}))
        found = communication(func, args, out) if func.namespace == "c10d" else None
        if found is not None:
            self.sent.append((found.kind, found.bytes))
        return out


def wrapped(how):
    layers = [nn.Sequential(nn.Linear(16, 64), nn.ReLU(), nn.Linear(64, 16)) for _ in range(3)]
    model = nn.Sequential(*layers, nn.Linear(16, 5))
    if how == "ddp":
        return DistributedDataParallel(model, bucket_cap_mb=0.01)
    for layer in layers:
        fully_shard(layer)
    model = fully_shard(model)
    for part in [*layers, model]:
        part.set_force_sum_reduction_for_comms(True)  # Gloo has no average
    return model


def steps(model, count):
    optimizer = torch.optim.SGD(model.parameters())
    for _ in range(count):
        model(torch.randn(4, 16)).sum().backward()
        optimizer.step()
        optimizer.zero_grad()


if __name__ == "__main__":
    dist.init_process_group("gloo")
    model = wrapped(sys.argv[1])
    steps(model, 2)  # in the second, DDP sends how it has rebuilt its buckets, once for all
    with Listener() as listener:
        steps(model, 1)
    if dist.get_rank() == 0:
        print(json.dumps(listener.sent))
    dist.destroy_process_group()
