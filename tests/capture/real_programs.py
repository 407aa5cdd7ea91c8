"""Small training programs of every kind of parallelism: `python -m tests.capture.real_programs NAME DEVICE`.

They run really on the CPU of two or four processes, and are recorded as on CUDA.
"""

import sys
from collections.abc import Callable
from typing import Any, Final

import torch
import torch.distributed as dist
from torch import nn
from torch.distributed.device_mesh import DeviceMesh, init_device_mesh
from torch.distributed.fsdp import FullyShardedDataParallel, fully_shard
from torch.distributed.fsdp.wrap import ModuleWrapPolicy
from torch.distributed.optim import ZeroRedundancyOptimizer
from torch.distributed.pipelining import PipelineStage, Schedule1F1B
from torch.distributed.tensor import Replicate, Shard
from torch.distributed.tensor.parallel import (
    ColwiseParallel,
    RowwiseParallel,
    SequenceParallel,
    parallelize_module,
)
from torch.nn import functional
from torch.nn.parallel import DistributedDataParallel
from torch.utils.checkpoint import checkpoint

from tests.capture import step_programs
from tests.capture.step_programs import Block, Language, Step, dense

VOCABULARY, WIDTH, LAYERS, BATCH, LENGTH = 2048, 128, 4, 4, 128


def gpt() -> Language:
    return Language(VOCABULARY, WIDTH, [dense(WIDTH) for _ in range(LAYERS)])


def loss_of(logits: torch.Tensor, labels: torch.Tensor) -> torch.Tensor:
    return functional.cross_entropy(logits.flatten(0, 1).float(), labels.flatten())


def batch() -> tuple[torch.Tensor, torch.Tensor]:
    tokens = torch.randint(0, VOCABULARY, (BATCH, LENGTH + 1))
    return tokens[:, :-1], tokens[:, 1:]


def adamw(model: nn.Module) -> torch.optim.Optimizer:
    return torch.optim.AdamW(model.parameters(), lr=1e-3)


def backward(model: Callable[[torch.Tensor], torch.Tensor]) -> None:
    inputs, labels = batch()
    loss_of(model(inputs), labels).backward()


def usual(model: nn.Module, optimizer: torch.optim.Optimizer | None = None, clips: bool = True) -> Step:
    used = optimizer or adamw(model)

    def step() -> None:
        backward(model)
        if clips:
            torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        used.step()
        used.zero_grad()

    return step


def ddp() -> Step:
    return usual(DistributedDataParallel(gpt(), bucket_cap_mb=1))


def bucket_views() -> Step:
    return usual(DistributedDataParallel(gpt(), gradient_as_bucket_view=True, static_graph=True))


def accumulated() -> Step:
    model = DistributedDataParallel(gpt())
    optimizer = adamw(model)

    def step() -> None:
        with model.no_sync():
            backward(model)
            backward(model)
        backward(model)
        optimizer.step()
        optimizer.zero_grad()

    return step


def sharded(model: Any, mesh: DeviceMesh | None = None) -> Any:
    for part in [*model.layers, model]:
        fully_shard(part, mesh=mesh) if mesh else fully_shard(part)
    return model


def fsdp2() -> Step:
    return usual(sharded(gpt()))


def fsdp2_accumulated() -> Step:
    model = sharded(gpt())
    optimizer = adamw(model)

    def step() -> None:
        for number in range(3):
            model.set_requires_gradient_sync(number == 2)
            backward(model)
        optimizer.step()
        optimizer.zero_grad()

    return step


def _mesh(*shape: int, names: tuple[str, ...]) -> DeviceMesh:
    return init_device_mesh(str(torch.get_default_device().type), shape, mesh_dim_names=names)


def hsdp() -> Step:
    return usual(sharded(gpt(), _mesh(2, 2, names=("dp_replicate", "dp_shard"))))


def tensor_parallel(mesh: DeviceMesh, sequence: bool) -> Any:
    """Megatron's: columns, then rows; with `sequence` norms work on a part of the tokens."""
    model = gpt()
    plan: dict[str, Any] = {}
    whole, part = Replicate(), Shard(1)
    between = part if sequence else whole
    for number, layer in enumerate(model.layers):
        layer.heads //= mesh.size()
        name = f"layers.{number}"
        plan |= {f"{name}.joint": ColwiseParallel(input_layouts=between)}
        plan |= {f"{name}.out": RowwiseParallel(output_layouts=between)}
        plan |= {f"{name}.feed.0": ColwiseParallel(input_layouts=between)}
        plan |= {f"{name}.feed.2": RowwiseParallel(output_layouts=between)}
        if sequence:
            plan |= {f"{name}.norms.{norm}": SequenceParallel(use_local_output=True) for norm in range(2)}
    plan["embedding"] = RowwiseParallel(input_layouts=whole, output_layouts=between)
    plan["head"] = ColwiseParallel(input_layouts=between, output_layouts=whole)
    if sequence:
        plan["norm"] = SequenceParallel(use_local_output=True)
    return parallelize_module(model, mesh, plan)


def tp() -> Step:
    model = tensor_parallel(_mesh(2, names=("tp",)), sequence=False)
    each = torch.optim.AdamW(model.parameters(), lr=1e-3, foreach=False)  # norms are no DTensors
    return usual(model, each, clips=False)


def sp() -> Step:
    return usual(tensor_parallel(_mesh(2, names=("tp",)), sequence=True))


def fsdp_tp() -> Step:
    mesh = _mesh(2, 2, names=("dp", "tp"))
    return usual(sharded(tensor_parallel(mesh["tp"], sequence=True), mesh["dp"]))


def pipeline() -> Step:
    model = gpt()
    halves = [[model.embedding, *model.layers[:2]], [*model.layers[2:], model.norm, model.head]]
    rank = dist.get_rank()
    half = nn.Sequential(*halves[rank])
    stage = PipelineStage(half, rank, 2, torch.get_default_device())
    schedule, optimizer = Schedule1F1B(stage, 4, loss_of), adamw(half)

    def step() -> None:
        inputs, labels = batch()
        if rank == 0:
            schedule.step(inputs)
        else:
            schedule.step(target=labels)
        optimizer.step()
        optimizer.zero_grad()

    return step


def fsdp1() -> Step:
    policy = ModuleWrapPolicy({Block})
    device = torch.get_default_device()
    model = FullyShardedDataParallel(gpt(), auto_wrap_policy=policy, device_id=device)
    optimizer = adamw(model)

    def step() -> None:
        backward(model)
        model.clip_grad_norm_(1.0)
        optimizer.step()
        optimizer.zero_grad()

    return step


class Checkpointed(nn.Module):  # type: ignore[misc]
    """A layer whose activations are computed again."""

    def __init__(self, layer: nn.Module) -> None:
        super().__init__()
        self.layer = layer

    def forward(self, x: torch.Tensor) -> Any:
        return checkpoint(self.layer, x, use_reentrant=False)


def checkpointed() -> Step:
    model = gpt()
    model.layers = nn.Sequential(*map(Checkpointed, model.layers))
    return usual(DistributedDataParallel(model))


class LoopedExperts(nn.Module):  # type: ignore[misc]
    """Each token goes to two of eight experts, one after the other, as in many public models."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.router = nn.Linear(width, 8, bias=False)
        self.experts = nn.ModuleList(dense(width) for _ in range(8))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        flat = x.flatten(0, 1)
        weights, chosen = functional.softmax(self.router(flat), -1).topk(2, -1)
        out = torch.zeros_like(flat)
        for number, expert in enumerate(self.experts):
            rows, place = torch.where(chosen == number)
            out.index_add_(0, rows, expert(flat[rows]) * weights[rows, place, None])
        return out.view_as(x)


def looped_experts() -> Step:
    model = Language(VOCABULARY, WIDTH, [LoopedExperts(WIDTH) for _ in range(LAYERS)])
    return usual(DistributedDataParallel(model))


def autocast() -> Step:
    model = DistributedDataParallel(gpt())
    optimizer = adamw(model)

    def step() -> None:
        inputs, labels = batch()
        with torch.autocast(torch.get_default_device().type, torch.bfloat16):
            logits = model(inputs)
        loss_of(logits, labels).backward()
        optimizer.step()
        optimizer.zero_grad()

    return step


def compiled() -> Step:
    return usual(torch.compile(DistributedDataParallel(gpt()), backend="eager"))


def zero() -> Step:
    model = DistributedDataParallel(gpt())
    return usual(model, ZeroRedundancyOptimizer(model.parameters(), torch.optim.AdamW, lr=1e-3))


def frozen() -> Step:
    """Only the last layer and the head are trained."""
    model = gpt().requires_grad_(False)
    for part in (model.layers[-1], model.head):
        part.requires_grad_(True)
    return usual(DistributedDataParallel(model), torch.optim.SGD(model.parameters(), 0.1, momentum=0.9))


PROGRAMS: Final[dict[str, Callable[[], Step]]] = {
    "ddp": ddp,
    "bucket-views": bucket_views,
    "accumulated": accumulated,
    "fsdp2": fsdp2,
    "fsdp2-accumulated": fsdp2_accumulated,
    "hsdp": hsdp,
    "tp": tp,
    "sp": sp,
    "fsdp-tp": fsdp_tp,
    "pipeline": pipeline,
    "fsdp1": fsdp1,
    "checkpointed": checkpointed,
    "looped-experts": looped_experts,
    "all-to-all-experts": step_programs.experts,
    "autocast": autocast,
    "compiled": compiled,
    "zero": zero,
    "frozen": frozen,
    "conv-net": step_programs.conv_net,
}


if __name__ == "__main__":
    name, device = sys.argv[1:]
    torch.set_default_device(device)
    torch.manual_seed(0)
    dist.init_process_group("gloo")
    step = PROGRAMS[name]()
    for _ in range(4):
        step()
