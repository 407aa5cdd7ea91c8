"""Kernels in PyTorch, timed one by one.

Holds `measure_kernels`. Operands are made first; then every kernel runs on several sets of them in
turn, as the layers of a model do, so that caches help no more than in training. Imported only where
torch is installed.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import torch
from torch.nn import functional

from syncwall.describe import Model
from syncwall.measure import layers
from syncwall.measure.kernel_times import KernelRow, TimedKernel, Workload, timed_kernel
from syncwall.measure.team import Team
from syncwall.problems import InputError
from syncwall.work.memory_parts import update_bytes
from syncwall.work.number import Number
from syncwall.work.operations import CoreAttention, Elementwise, Gemm

DTYPES = {"fp32": torch.float32, "bf16": torch.bfloat16, "fp16": torch.float16}


@dataclass
class Trial:
    """One kernel, ready to run."""

    prepare: Callable[[], None]
    """Everything that is not timed."""
    run: Callable[[], None]


@dataclass(frozen=True)
class Maker:
    """Makes operands on one device, in one format."""

    device: Any
    dtype: Any

    def tensor(self, *shape: Number) -> Any:
        """Random numbers, with a gradient."""
        sizes = [max(1, round(float(size))) for size in shape]
        return torch.randn(sizes, device=self.device, dtype=self.dtype).requires_grad_()


def torch_dtype(name: str) -> Any:
    """The PyTorch format of our `name`."""
    if name not in DTYPES:
        raise InputError.of(f"{name} is not measured; write one of {', '.join(DTYPES)}")
    return DTYPES[name]


def measure_kernels(
    team: Team, kernels: Sequence[TimedKernel], workload: Workload, *, seconds: float = 0.7
) -> Iterator[KernelRow]:
    """The row of one kernel after the other.

    All ranks run the same kernel at the same time; of each trial the slowest rank counts.
    """
    for kernel in kernels:
        one = trial(kernel, workload, team.device)
        times = [taken / kernel.copies for taken in timed_kernel(team, one.prepare, one.run, seconds)]
        yield KernelRow.of(kernel, times)


def trial(kernel: TimedKernel, workload: Workload, device: Any) -> Trial:
    """`kernel` with operands on `device`."""
    make = Maker(device, torch_dtype(str(workload.layout.precision)))
    what = kernel.what
    if isinstance(what, Gemm):
        return gemm_trial(what, kernel.copies, make)
    if isinstance(what, CoreAttention):
        return attention_trial(what, kernel.copies, make)
    assert isinstance(what, Elementwise)
    if what.kind == "optimizer":
        return _optimizer(float(what.bytes) / update_bytes(workload.layout), workload.model, make)
    return _elementwise(what, kernel.copies, workload, make)


def gemm_trial(gemm: Gemm, copies: int, make: Maker) -> Trial:
    """Operands lie as a linear layer has them: weights (out, in), gradients by token."""
    if gemm.is_weight_gradient:
        pairs = [(make.tensor(gemm.k, gemm.m).t(), make.tensor(gemm.k, gemm.n)) for _ in range(copies)]
    else:
        pairs = [(make.tensor(gemm.m, gemm.k), make.tensor(gemm.n, gemm.k).t()) for _ in range(copies)]
    kept: list[Any] = []

    def run() -> None:
        with torch.no_grad():
            kept.extend(first @ second for first, second in pairs)

    return Trial(kept.clear, run)


def _differentiated(function: Callable[..., Any], sets: list[Any], backward: bool) -> Trial:
    """`function` on all sets in turn, or its gradients in the reverse order."""
    kept: list[Any] = []

    def clear() -> None:
        kept.clear()
        for operands in sets:
            for operand in operands:
                operand.grad = None

    def forward() -> None:
        kept.extend(function(*operands) for operands in sets)

    def prepare_backward() -> None:
        clear()
        forward()
        outputs = [out if isinstance(out, tuple) else (out,) for out in kept]
        kept[:] = [(out, tuple(torch.full_like(part, 1e-3) for part in out)) for out in outputs]

    def back() -> None:
        for outputs, gradients in reversed(kept):
            torch.autograd.backward(outputs, gradients)

    return Trial(prepare_backward, back) if backward else Trial(clear, forward)


def attention_trial(what: CoreAttention, copies: int, make: Maker) -> Trial:
    """Attention as `scaled_dot_product_attention` chooses it."""
    sets = [_heads(what, make) for _ in range(copies)]
    return _differentiated(partial(_attention, is_causal=what.is_causal), sets, what.is_backward)


def _heads(what: CoreAttention, make: Maker) -> tuple[Any, Any, Any]:
    query = make.tensor(what.batch, what.heads, what.q_len, what.head_dim)
    key = make.tensor(what.batch, what.kv_heads, what.kv_len, what.head_dim)
    value = make.tensor(what.batch, what.kv_heads, what.kv_len, what.v_dim)
    return query, key, value


def _attention(query: Any, key: Any, value: Any, is_causal: bool) -> Any:
    grouped = query.shape[1] != key.shape[1]
    mixed = functional.scaled_dot_product_attention(
        query, key, value, is_causal=is_causal, enable_gqa=grouped
    )
    return mixed.transpose(1, 2).flatten(2)


def _elementwise(what: Elementwise, copies: int, workload: Workload, make: Maker) -> Trial:
    """The memory-bound work of a kind, on activations of one micro batch."""
    kind, _, backward = what.kind.partition(" ")
    shape, function = _work(kind, workload, make)
    sets = [(make.tensor(*shape),) for _ in range(copies)]
    return _differentiated(function, sets, bool(backward))


def _work(kind: str, workload: Workload, make: Maker) -> tuple[tuple[float, ...], Callable[[Any], Any]]:
    """Shape of the operand of a kind of work, and the work."""
    model, seq = workload.model, workload.seq
    assert model.mlp is not None
    heads, kv_heads, dim = model.attention.heads, model.kv_heads, model.head_dim
    widths = (heads * dim, kv_heads * dim, kv_heads * dim)
    size = (round(float(workload.layout.micro_batch)), seq)
    if kind == "norm":
        norm = layers.norm(model).to(device=make.device, dtype=make.dtype)
        return (*size, model.hidden), lambda x: x + norm(x)
    if kind == "activation":
        gated = model.mlp.gated
        width = model.mlp.hidden * (2 if gated else 1)
        return (*size, width), lambda x: layers.activated(x, gated)
    if kind == "positions":
        cosine, sine = (part.to(make.device, make.dtype) for part in layers.angles(seq, dim))
        return (*size, sum(widths)), lambda x: layers.positioned(x, widths, dim, cosine, sine)
    tokens = torch.randint(0, model.vocab, size, device=make.device)
    if kind == "embedding":
        return (model.vocab, model.hidden), lambda x: functional.embedding(tokens, x)
    if kind == "loss":
        return (tokens.numel(), model.vocab), lambda x: functional.cross_entropy(x.float(), tokens.flatten())
    raise InputError.of(f"no kernel is known for {kind}")


def _optimizer(parameters: float, model: Model, make: Maker) -> Trial:
    """AdamW on the weights of a rank, with gradients that are new each time."""
    shapes = [(model.vocab, model.hidden)] * (1 if model.tied_embeddings else 2)
    shapes += [(model.hidden, model.hidden)] * round(
        max(parameters - sum(rows * width for rows, width in shapes), 0) / model.hidden**2
    )
    weights = [make.tensor(*shape) for shape in shapes]
    optimizer = torch.optim.AdamW(weights, fused=True)

    def prepare() -> None:
        for weight in weights:
            weight.grad = torch.full_like(weight, 1e-3)

    def run() -> None:
        optimizer.step()

    return Trial(prepare, run)
