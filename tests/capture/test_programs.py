"""Programs of many kinds at real widths, priced eager and compiled.

FLOPs are those that PyTorch counts, bytes those of the arithmetic.
"""
# ruff: noqa: E402 - what follows needs torch

import runpy
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache, partial
from math import ceil
from typing import Any

import pytest

torch = pytest.importorskip("torch", reason="torch is not installed")

import torch.distributed._functional_collectives as funcol
from torch import nn
from torch._subclasses import FakeTensorMode
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import MixedPrecisionPolicy, fully_shard
from torch.nn import functional
from torch.nn.parallel import DistributedDataParallel
from torch.utils.checkpoint import checkpoint, create_selective_checkpoint_contexts
from torch.utils.flop_counter import FlopCounterMode

from syncwall.answer.prediction import predict
from syncwall.capture.recorder import recording
from syncwall.describe import lookup
from syncwall.work.block import StepPhase
from syncwall.work.operations import Convolution, CoreAttention, Elementwise, Gemm
from tests.capture import models
from tests.capture.programs import EXAMPLE, Llama, collectives, recorded, train

pytestmark = pytest.mark.slow
split_over = runpy.run_path(str(EXAMPLE))["split_over"]
POLICY = MixedPrecisionPolicy(param_dtype=torch.bfloat16, reduce_dtype=torch.float32)


@dataclass(frozen=True)
class Case:
    """One program."""

    make: Callable[[], Any]
    inputs: tuple[tuple[int, ...], ...]
    world_size: int
    sharded: bool = True
    attention: float = 0.0
    """FLOP of attention, forward, of one rank."""
    layers: str = "layers"
    """What is sharded layer by layer."""

    def loss(self, model, device):
        given = [torch.zeros(shape, device=device) for shape in self.inputs]
        with torch.autocast(device, dtype=torch.bfloat16, enabled=not self.sharded):
            out = model(*given)
        return out.float().square().mean()


def attention(layers, batch, width, length):
    """Scores and weighted values, without a mask."""
    return layers * 4 * batch * width * length**2


def llama():
    return Llama(2, 4096, 32, 8, 14336, 128256, 8192)


@dataclass(frozen=True)
class Words(Case):
    """A program on tokens."""

    def loss(self, model, device):
        tokens = torch.zeros(self.inputs[0], dtype=torch.int64, device=device)
        logits = model(tokens)
        return functional.cross_entropy(logits.flatten(0, 1).float(), tokens.flatten())


LLAMA_ATTENTION = 2 * 4 * 4096 * 8192 * 8193 / 2
CASES = {
    "ViT-L": Case(models.vit_large, ((32, 3, 224, 224),), 1024, attention=attention(2, 32, 1024, 196)),
    "DiT-XL": Case(models.dit_xl, ((16, 4, 32, 32), (16, 256)), 256, attention=attention(2, 16, 1152, 256)),
    "ResNet-50": Case(models.resnet_50, ((64, 3, 224, 224),), 64, sharded=False),
    "U-Net": Case(models.UNet, ((8, 3, 128, 128),), 32, sharded=False),
    "Llama 8B on 8": Words(llama, ((1, 8192),), 8, attention=LLAMA_ATTENTION),
    "Llama 8B on 1,024": Words(llama, ((1, 8192),), 1024, attention=LLAMA_ATTENTION),
    "Llama 8B on 16,384": Words(llama, ((1, 8192),), 16384, attention=LLAMA_ATTENTION),
}


def made(case, compiled):
    with torch.device("meta"):
        model = case.make()
    model = model.to_empty(device="cuda")
    if case.sharded:
        for layer in model.get_submodule(case.layers):
            fully_shard(layer, mp_policy=POLICY)
        fully_shard(model, mp_policy=POLICY)
    else:
        model = DistributedDataParallel(model)
    return torch.compile(model) if compiled else model


@cache
def program_of(name, compiled=False):
    case = CASES[name]
    with recording(case.world_size) as found:
        train(made(case, compiled), lambda model: case.loss(model, "cuda"))
    return found.program()


def counted(case):
    """FLOP of products and convolutions, as PyTorch counts them on the CPU."""
    counter = FlopCounterMode(display=False)
    with FakeTensorMode():
        model = case.make()
        with counter:
            case.loss(model, "cpu").backward()
    operations = counter.get_flop_counts()["Global"].items()
    return sum(flops for operation, flops in operations if "attention" not in str(operation))


def padded(of, ranks):
    """Elements that a unit of FSDP2 gathers: dimension 0 is filled up to a multiple of ranks."""
    return sum(ceil(p.shape[0] / ranks) * ranks * (p.numel() // p.shape[0]) for p in of.parameters())


def expected_bytes(case):
    """By kind, what a rank's collectives move in a step."""
    with torch.device("meta"):
        model = case.make()
    if not case.sharded:
        return {"all-reduce": 4.0 * sum(p.numel() for p in model.parameters())}
    layers = model.get_submodule(case.layers)
    inside = sum(padded(layer, case.world_size) for layer in layers)
    root = padded(model, case.world_size) - inside
    return {"all-gather": 2.0 * (2 * inside + root), "reduce-scatter": 4.0 * (inside + root)}


@pytest.mark.parametrize("name", CASES)
def test_work_and_bytes_and_price(name):
    case = CASES[name]
    program = program_of(name)
    (rank,) = program.ranks
    flops = sum(call.what.flops for call in rank if isinstance(call.what, Gemm | Convolution))
    assert flops == pytest.approx(counted(case), rel=1e-3)
    attended = sum(call.what.model_flops for call in rank if isinstance(call.what, CoreAttention))
    assert attended == pytest.approx(3 * case.attention, rel=1e-3)
    moved: dict[str, float] = {}
    for _, one in collectives(rank):
        moved[one.kind] = moved.get(one.kind, 0.0) + float(one.bytes)
    moved.pop("broadcast", None)  # DDP sends what batch norms have counted
    assert moved == expected_bytes(case)
    cluster = lookup.cluster("dgx-h100")
    eager = predict(program, cluster=cluster)
    joined = predict(program, cluster=cluster, compiled=True)
    assert not eager.compiled
    assert joined.step_s < eager.step_s


@pytest.mark.parametrize("name", ["ViT-L", "U-Net", "Llama 8B on 1,024"])
def test_a_program_that_compiles_itself_does_the_same(name):
    plain, compiled = (program_of(name, value) for value in (False, True))
    assert compiled.compiled
    assert compiled.model_flops == plain.model_flops
    assert [c.name for c in compiled.ranks[0]] == [c.name for c in plain.ranks[0]]
    assert predict(compiled, cluster=lookup.cluster("dgx-h100")).compiled


def with_tensor_parallelism(tp, world_size):
    """The example with tensor and sequence parallelism around FSDP2, at the widths of Llama 8B."""
    sizes = (world_size // tp, tp)
    with recording(world_size) as found:
        mesh = init_device_mesh("cuda", sizes, mesh_dim_names=("dp_shard", "tp"))
        with torch.device("meta"):
            model = llama()
        split_over(model, mesh["tp"])
        for part in [*model.layers, model]:
            fully_shard(part, mesh=mesh["dp_shard"], mp_policy=POLICY)
        model.to_empty(device="cuda")
        train(model, lambda one: CASES["Llama 8B on 8"].loss(one, "cuda"))
    return found.program()


@pytest.mark.filterwarnings("ignore:FSDP2-wrapped module")
def test_tensor_parallel_8_in_fsdp_128():
    program = with_tensor_parallelism(8, 1024)
    (rank,) = program.ranks
    activations = 8192 * 4096 * 2.0
    sent: dict[str, list[float]] = {}
    for _, one in collectives(rank, "tp"):
        sent.setdefault(one.kind, []).append(float(one.bytes))
    # a layer gathers what attention and MLP read and scatters what they write, and the reverse;
    # so do embedding and output, and the logits are gathered once
    logits = 8192 * 128256 * 2.0
    assert sorted(sent["all-gather"]) == sorted([activations] * (2 * 4 + 2) + [logits])
    assert sent["reduce-scatter"] == [activations] * (2 * 4 + 2)
    flops = sum(call.what.flops for call in rank if isinstance(call.what, Gemm))
    assert flops == pytest.approx(counted(CASES["Llama 8B on 8"]) / 8, rel=1e-3)


def test_selective_checkpointing_repeats_all_but_what_is_kept():
    """Products and attention are kept; norms, activations and rotations are done again."""
    aten = torch.ops.aten
    kept = [aten.mm.default, aten._scaled_dot_product_flash_attention.default]
    contexts = partial(create_selective_checkpoint_contexts, kept)

    def program():
        model = llama().cuda().bfloat16()
        for layer in model.layers:
            run = partial(checkpoint, layer.forward, use_reentrant=False, context_fn=contexts)
            layer.forward = run
        train(model, lambda one: CASES["Llama 8B on 8"].loss(one, "cuda"))

    rank = recorded(program)
    again = [call for call in rank if call.phase is StepPhase.RECOMPUTE]
    assert {call.what.kind for call in again if isinstance(call.what, Elementwise)} >= {
        "norm",
        "activation",
    }
    assert not any(isinstance(call.what, Gemm | CoreAttention) for call in again)
    flops = sum(call.what.flops for call in rank if isinstance(call.what, Gemm))
    assert flops == pytest.approx(counted(CASES["Llama 8B on 8"]), rel=1e-3)


class Ulysses(nn.Module):  # type: ignore[misc]
    """Attention over a sequence that all ranks share: an all-to-all turns tokens into heads."""

    def __init__(self, width, heads, group):
        super().__init__()
        self.heads, self.group = heads, group
        self.joint = nn.Linear(width, 3 * width, bias=False)
        self.out = nn.Linear(width, width, bias=False)

    def _exchanged(self, x):
        return funcol.all_to_all_single_autograd(x.contiguous(), None, None, self.group)

    def forward(self, x):
        ranks, (length, width) = self.group.size(), x.shape
        parts = self.joint(x).view(length, 3, ranks, self.heads // ranks, -1)
        q, k, v = (
            self._exchanged(part.transpose(0, 1)).flatten(0, 1).transpose(0, 1)[None]
            for part in parts.unbind(1)
        )
        mixed = functional.scaled_dot_product_attention(q, k, v, is_causal=True)[0]
        back = self._exchanged(mixed.transpose(0, 1).unflatten(0, (ranks, length)))
        return self.out(back.transpose(0, 1).reshape(length, width))


def test_ulysses_sends_each_part_once_there_and_once_back():
    width, heads, ranks, length = 4096, 32, 8, 4096

    def program():
        mesh = init_device_mesh("cuda", (8, ranks), mesh_dim_names=("dp", "cp"))
        model = Ulysses(width, heads, mesh["cp"]).cuda().bfloat16()

        def loss(one):
            x = torch.zeros(length, width, device="cuda", dtype=torch.bfloat16, requires_grad=True)
            return one(x).float().sum()

        train(model, loss)

    rank = recorded(program, 64)
    sent = [(one.kind, one.bytes) for _, one in collectives(rank, "cp")]
    assert sent == [("all-to-all", length * width * 2.0)] * 8  # q, k, v, out; and their gradients
    attended = sum(call.what.model_flops for call in rank if isinstance(call.what, CoreAttention))
    whole = ranks * length
    assert attended == pytest.approx(3 * 4 * (width / ranks) * whole * (whole + 1) / 2)
