"""One rank of a real run over Gloo that counts the bytes of its collectives.

Usage: python gloo_worker.py ddp|fsdp|tp OUTPUT, with RANK, WORLD_SIZE, MASTER_ADDR and MASTER_PORT.
"""

import json
import os
import sys
from collections import Counter
from pathlib import Path
from typing import Any

import torch
import torch.distributed as dist
from torch import nn
from torch.utils._python_dispatch import TorchDispatchMode

LAYERS, HIDDEN, HEADS, FFN, VOCAB, BATCH, SEQ = 2, 64, 4, 128, 256, 2, 16
NAMES = {
    "all_gather": "all-gather",
    "allgather": "all-gather",
    "reduce_scatter": "reduce-scatter",
    "all_reduce": "all-reduce",
    "allreduce": "all-reduce",
}


class Counting(TorchDispatchMode):
    """Adds up what collectives move, in the sizes of nccl-tests."""

    def __init__(self) -> None:
        super().__init__()
        self.bytes: Counter[str] = Counter()

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        name = str(func)
        if "c10d" in name:
            for word, kind in NAMES.items():
                if word in name:
                    self.bytes[kind] += _size(kind, args)
                    break
        return func(*args, **(kwargs or {}))


def _size(kind: str, args: Any) -> int:
    """The largest tensor of the call: the whole vector, gathered or before it is scattered."""
    flat = [t for a in args for t in (a if isinstance(a, (list, tuple)) else [a])]
    tensors = [t for t in flat if isinstance(t, torch.Tensor)]
    return max(t.numel() * t.element_size() for t in tensors)


class Block(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.norm1, self.norm2 = nn.RMSNorm(HIDDEN), nn.RMSNorm(HIDDEN)
        self.qkv = nn.Linear(HIDDEN, 3 * HIDDEN, bias=False)
        self.out = nn.Linear(HIDDEN, HIDDEN, bias=False)
        self.up = nn.Linear(HIDDEN, 2 * FFN, bias=False)
        self.down = nn.Linear(FFN, HIDDEN, bias=False)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        mixed = self.qkv(self.norm1(x))
        q, k, v = mixed.unflatten(-1, (3, -1, HIDDEN // HEADS)).unbind(-3)
        scores = torch.einsum("bqhd,bkhd->bhqk", q, k).softmax(-1)
        x = x + self.out(torch.einsum("bhqk,bkhd->bqhd", scores, v).flatten(-2))
        gate, value = self.up(self.norm2(x)).unflatten(-1, (2, -1)).unbind(-2)
        return x + self.down(nn.functional.silu(gate) * value)


class Model(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.embedding = nn.Embedding(VOCAB, HIDDEN)
        self.layers = nn.ModuleList(Block() for _ in range(LAYERS))
        self.head = nn.Sequential(nn.RMSNorm(HIDDEN), nn.Linear(HIDDEN, VOCAB, bias=False))

    def forward(self, tokens: torch.Tensor) -> torch.Tensor:
        x = self.embedding(tokens)
        for layer in self.layers:
            x = layer(x)
        return self.head(x)


def ddp(model: Model, counting: Counting) -> nn.Module:
    from torch.nn.parallel import DistributedDataParallel

    wrapped = DistributedDataParallel(model)

    # DDP reduces in C++, which no dispatch mode sees; a hook that does the same in Python is seen
    def hook(state: object, bucket: dist.GradBucket) -> torch.futures.Future[torch.Tensor]:
        work = dist.all_reduce(bucket.buffer(), async_op=True)
        assert work is not None
        return work.get_future().then(lambda done: done.value()[0] / dist.get_world_size())

    wrapped.register_comm_hook(None, hook)
    return wrapped


def fsdp(model: Model, counting: Counting) -> nn.Module:
    from torch.distributed.fsdp import fully_shard

    for part in (model.embedding, *model.layers, model.head):
        fully_shard(part, reshard_after_forward=True)
    return fully_shard(model, reshard_after_forward=True)


def tp(model: Model, counting: Counting) -> nn.Module:
    from torch.distributed.device_mesh import init_device_mesh
    from torch.distributed.tensor.parallel import (
        ColwiseParallel,
        RowwiseParallel,
        parallelize_module,
    )

    mesh = init_device_mesh("cpu", (dist.get_world_size(),))
    plan: dict[str, Any] = {"up": ColwiseParallel(), "down": RowwiseParallel()}
    plan |= {"qkv": ColwiseParallel(), "out": RowwiseParallel()}
    for layer in model.layers:
        parallelize_module(layer, mesh, plan)
    return model


def main() -> None:
    kind, output = sys.argv[1], Path(sys.argv[2])
    torch.manual_seed(0)
    dist.init_process_group("gloo")
    dtype = torch.float32 if kind == "ddp" else torch.bfloat16
    counting = Counting()
    model = {"ddp": ddp, "fsdp": fsdp, "tp": tp}[kind](Model().to(dtype), counting)
    tokens = torch.randint(0, VOCAB, (BATCH, SEQ))
    for step in range(2):  # the first step also exchanges shapes and buffers
        counting.bytes.clear()
        with counting:
            logits = model(tokens)
            loss = nn.functional.cross_entropy(logits.float().flatten(0, 1), tokens.flatten())
            loss.backward()
        assert step < 2
    if int(os.environ["RANK"]) == 0:
        output.write_text(json.dumps(counting.bytes))
    dist.barrier()  # nobody leaves while another still talks to it
    sys.stderr.flush()
    os._exit(0)  # Gloo's threads and the end of the interpreter race: at times they abort it


if __name__ == "__main__":
    main()
