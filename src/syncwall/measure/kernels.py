"""The kernels of a training step, and what each of them reached.

Holds `Kernel`, `Workload`, `kernels_of` and `KernelRow`. The shapes are those that the
predictor prices, taken from its own list of work; they run in `trials.py`.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal, Self

from syncwall.describe import Layout, Model
from syncwall.describe.base import Description
from syncwall.measure.timing import Times
from syncwall.work.block import Stream
from syncwall.work.operations import Convolution, CoreAttention, Dimensions, Elementwise, Gemm
from syncwall.work.step import transformer_step

OperationName = Literal["gemm", "attention", "convolution", "elementwise"]


@dataclass(frozen=True)
class Kernel:
    """One operation of a step."""

    name: str
    what: Gemm | CoreAttention | Convolution | Elementwise
    copies: int
    """How often the step of a model has it, at least 2: sets of operands to go through."""


class KernelRow(Description):
    """What one kernel reached."""

    name: str
    operation: OperationName
    shape: Dimensions
    """Dimensions, as the measured points of a calibration name them."""
    times: Times
    flop_per_s: float
    bytes_per_s: float
    """Of the traffic that the model of the work counts."""

    @classmethod
    def of(cls, kernel: Kernel, seconds: Sequence[float]) -> Self:
        """The row of `kernel` from the seconds of its trials."""
        what, times = kernel.what, Times.of(seconds)
        return cls(
            name=kernel.name,
            operation=what.measured_as,
            shape=what.dimensions,
            times=times,
            flop_per_s=float(what.flops) / times.median_s,
            bytes_per_s=float(what.hbm_bytes) / times.median_s,
        )


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
                or not isinstance(what, Gemm | CoreAttention | Elementwise)
                or (isinstance(what, Elementwise) and not what.kernels)
            ):  # the begin of a block
                continue
            shape = ", ".join(f"{key} {value}" for key, value in what.dimensions.items())
            name = what.kind if isinstance(what, Elementwise) else operation.name
            copies = max(2, round(float(block.rounds)))
            kernel = found.get(shape)
            if kernel is None:
                found[shape] = Kernel(name, what, copies)
            else:
                found[shape] = Kernel(kernel.name, kernel.what, kernel.copies + copies)
    return list(found.values())
