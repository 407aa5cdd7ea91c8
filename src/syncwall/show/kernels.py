"""Measured kernels, for the terminal.

Holds `kernels_page`.
"""

from collections.abc import Sequence
from typing import TYPE_CHECKING

from rich.console import Group, RenderableType
from rich.text import Text

from syncwall import units
from syncwall.show.measurement import duration, heading, rate, table
from syncwall.units import Dimension

if TYPE_CHECKING:
    from syncwall.measure.beside import Beside
    from syncwall.measure.kernels import KernelRow
    from syncwall.measure.result import JobFacts

_COLUMNS = ("kernel", "shape", "median", "spread", "FLOP/s", "bytes/s")


def kernels_page(
    job: "JobFacts", rows: "Sequence[KernelRow]", beside: "Beside | None"
) -> RenderableType:
    """A table of kernels, and what communication costs them."""
    parts: list[RenderableType] = [
        heading(job),
        Text(),
        table(_COLUMNS, map(_cells, rows), words=2),
    ]
    legend = "times of one kernel on the slowest rank, all ranks at once, operands as in training"
    parts += [Text(), Text(legend, "dim")]
    if beside is not None:
        parts.append(
            Text(
                f"beside an all-reduce ({duration(beside.alone_s)} alone, "
                f"{duration(beside.beside_s)} together), computation stands still for "
                f"{beside.host_share:.0%} of its time; ranks that compute and then meet wait "
                f"{duration(beside.meeting_s)} for the slowest"
            )
        )
    return Group(*parts)


def _cells(row: "KernelRow") -> list[str]:
    flops = row.flop_per_s
    return [
        row.name,
        _shape(row),
        duration(row.times.median_s),
        f"± {row.times.spread:.0%}",
        units.format(flops, Dimension.FLOP_PER_S, digits=3) if flops else "",
        rate(row.bytes_per_s),
    ]


def _shape(row: "KernelRow") -> str:
    shape = row.shape
    if row.operation == "gemm":
        transposed = ", weight gradient" if shape["is_weight_gradient"] else ""
        sizes = " x ".join(f"{shape[key]:.0f}" for key in ("m", "n", "k"))
        return f"{sizes} {shape['dtype']}{transposed}"
    if row.operation == "attention":
        way = "backward" if shape["is_backward"] else "forward"
        return (
            f"{shape['batch']:.0f} x {shape['heads']:.0f} heads, {shape['length']:.0f} tokens, "
            f"{shape['head_dim']:.0f}, {way}"
        )
    return units.format(float(shape["bytes"]), Dimension.BYTES, digits=3)
