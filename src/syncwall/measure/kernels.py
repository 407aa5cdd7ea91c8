"""The kernels of a training step, timed one by one.

Holds `Kernel`, `kernels_of`, `KernelRow` and `measure_kernels`. The shapes are those that the
predictor prices, taken from its own list of work; every kernel runs on several sets of operands in
turn, as the layers of a model do, so that caches help no more than in training.
"""

import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Literal

from syncwall.describe import Layout, Model
from syncwall.describe.base import Description
from syncwall.measure.team import Team
from syncwall.measure.timing import Times
from syncwall.work.block import Stream
from syncwall.work.operations import Attention, Elementwise, Gemm
from syncwall.work.step import transformer_step

_LEAST_TRIALS, _MOST_TRIALS = 5, 60
_LONG_ENOUGH_S = 0.03
"""A trial is at least this long, so that ranks which share a core are interrupted alike."""
_MOST_REPEATS = 64


@dataclass(frozen=True)
class Kernel:
    """One operation of a step."""

    name: str
    what: Gemm | Attention | Elementwise
    copies: int
    """How often the step of a model has it, at least 2: sets of operands to go through."""


class KernelRow(Description):
    """What one kernel reached."""

    name: str
    operation: Literal["gemm", "attention", "elementwise"]
    shape: dict[str, float | bool | str]
    """Dimensions, as the measured points of a calibration name them."""
    times: Times
    flop_per_s: float
    bytes_per_s: float
    """Of the traffic that the model of the work counts."""


@dataclass(frozen=True)
class Workload:
    """A step of one rank; `layout` is resolved."""

    model: Model
    layout: Layout
    seq: int


def kernels_of(workload: Workload) -> list[Kernel]:
    """Every different kernel in the step of one rank."""
    stage = transformer_step(workload.model, workload.layout, workload.seq).stages[-1]
    found: dict[str, Kernel] = {}
    for block in (*stage.forward, *stage.backward, *stage.finish):
        for operation in block.operations:
            what = operation.what
            if (
                operation.stream is not Stream.COMPUTE
                or not isinstance(what, Gemm | Attention | Elementwise)
                or (isinstance(what, Elementwise) and not what.kernels)
            ):  # the begin of a block
                continue
            shape = ", ".join(f"{key} {value}" for key, value in shape_of(what).items())
            name = what.kind if isinstance(what, Elementwise) else operation.name
            copies = max(2, round(float(block.rounds)))
            kernel = found.get(shape)
            if kernel is None:
                found[shape] = Kernel(name, what, copies)
            else:
                found[shape] = Kernel(kernel.name, kernel.what, kernel.copies + copies)
    return list(found.values())


def shape_of(what: Gemm | Attention | Elementwise) -> dict[str, float | bool | str]:
    """The dimensions of `what`, as plain values."""
    if isinstance(what, Gemm):
        sizes = {"m": float(what.m), "n": float(what.n), "k": float(what.k)}
        return {**sizes, "dtype": str(what.dtype), "is_weight_gradient": what.is_weight_gradient}
    if isinstance(what, Attention):
        return {
            "batch": float(what.batch),
            "heads": float(what.heads),
            "length": float(what.q_len),
            "head_dim": float(what.head_dim),
            "kv_heads": float(what.kv_heads),
            "is_backward": what.is_backward,
        }
    return {"kind": what.kind, "bytes": float(what.bytes)}


def measure_kernels(
    team: Team, kernels: Sequence[Kernel], workload: Workload, *, seconds: float = 0.7
) -> Iterator[KernelRow]:
    """The row of one kernel after the other.

    All ranks run the same kernel at the same time; of each trial the slowest rank counts.
    """
    from syncwall.measure.trials import trial

    for kernel in kernels:
        one = trial(kernel, workload, team.device)
        times = [taken / kernel.copies for taken in timed(team, one.prepare, one.run, seconds)]
        yield _row(kernel, times)


def timed(
    team: Team, prepare: Callable[[], None], run: Callable[[], None], seconds: float
) -> list[float]:
    """Seconds of `run`, on the slowest rank, for as many trials as fit into `seconds`.

    Each starts together on all ranks, after a `prepare` that is not timed.
    """
    first = [_once(team, prepare, run, 1) for _ in range(2)][-1]
    repeats = max(1, min(_MOST_REPEATS, round(_LONG_ENOUGH_S / max(first, 1e-9))))
    trials = max(_LEAST_TRIALS, min(_MOST_TRIALS, int(seconds / (first * repeats + 1e-9))))
    return [_once(team, prepare, run, repeats) for _ in range(trials)]


def _once(team: Team, prepare: Callable[[], None], run: Callable[[], None], repeats: int) -> float:
    taken = 0.0
    team.barrier()
    for _ in range(repeats):
        prepare()
        team.synchronize()
        begun = time.perf_counter()
        run()
        team.synchronize()
        taken += time.perf_counter() - begun
    return team.slowest([taken / repeats])[0]


def _row(kernel: Kernel, times: list[float]) -> KernelRow:
    what = kernel.what
    summary = Times.of(times)
    names: dict[Any, Literal["gemm", "attention", "elementwise"]]
    names = {Gemm: "gemm", Attention: "attention", Elementwise: "elementwise"}
    return KernelRow(
        name=kernel.name,
        operation=names[type(what)],
        shape=shape_of(what),
        times=summary,
        flop_per_s=float(what.flops) / summary.median_s,
        bytes_per_s=float(what.hbm_bytes) / summary.median_s,
    )
