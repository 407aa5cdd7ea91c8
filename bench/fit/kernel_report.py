"""How near a fit of kernels comes to its tables, and what they are.

Holds `residual`, `report` (printed) and `said` (written into the calibration).
"""

from collections.abc import Callable

import numpy as np

from bench.fit.kernel_tables import Column, Table

LARGE_FLOP = 20e9
TABLES = "aiconfigurator 095f58a"


def residual(predicted: Column, measured: Column, flops: Column) -> str:
    """Errors over all shapes and over large ones."""
    error, large = 100 * abs(predicted / measured - 1), flops >= LARGE_FLOP
    return (
        f"error mean {error.mean():.1f}% and median {np.median(error):.1f}% of {len(error)} "
        f"shapes, {error[large].mean():.1f}% and {np.median(error[large]):.1f}% of the "
        f"{large.sum()} from {LARGE_FLOP / 1e9:.0f} GFLOP on"
    )


def report(title: str, table: Table, found: Callable[[Table], str]) -> None:
    """Print residuals by framework, and the files behind them."""
    print(f"{title}: {found(table)}")
    for framework, part in table.by_framework.items():
        print(f"  {framework}: {found(part)}")
    for name, count in table.sources.items():
        print(f"  {count} rows of {name}")


def said(what: str, table: Table, found: Callable[[Table], str]) -> str:
    """The text that the block carries."""
    files = ", ".join(
        f"{name.removeprefix('aic_').removesuffix('.csv.gz')} ({count} rows)"
        for name, count in table.sources.items()
    )
    return f"{TABLES}, {what}, median of {files}: {found(table)}."
