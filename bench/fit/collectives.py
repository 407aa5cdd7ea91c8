"""Fit communication to measured collectives: `python bench/fit/collectives.py DIR [--check]`.

DIR holds the measured tables of collectives. Writes the `network` blocks of the calibrations and
`catalogue/tuning/transports.yaml`, the same bytes on every run, and prints what is behind each
number. With --check nothing is written: 1 is returned if a file would change.
"""

import argparse
import sys
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

import syncwall as sw
from bench.fit.blocks import with_block
from bench.fit.collective_tables import (
    HELD_OUT,
    OLDEST,
    SYSTEMS,
    Table,
    nccl_tests,
    single_node,
)
from bench.fit.domains import Fitted, fit_device, means, stated
from bench.fit.transports import ASSUMED_HOP_US, FittedTransport, fit_transports
from syncwall.catalogue import BUILT_IN

NAME = "collectives"
CALIBRATIONS, TRANSPORTS = BUILT_IN / "calibrations", BUILT_IN / "tuning" / "transports.yaml"
BANDS = {"to 64 kB": (0, 65536), "to 4 MB": (65537, 4194304), "more": (4194305, np.inf)}
NVLINK = ("a100_sxm", "h100_sxm", "h200_sxm", "b200_sxm", "b300_sxm")
"""Systems whose means serve devices that nobody measured."""


def main() -> int:
    parser = argparse.ArgumentParser(description="Fit communication to measured collectives.")
    parser.add_argument("directory", type=Path, help="measured tables of collectives")
    parser.add_argument("--check", action="store_true", help="write nothing; 1 if files differ")
    arguments = parser.parse_args()
    texts = regenerated(arguments.directory, say=True)
    changed = [path for path, text in texts.items() if path.read_text() != text]
    for path in changed:
        print(("differs: " if arguments.check else "wrote ") + path.name)
        if not arguments.check:
            path.write_text(texts[path])
    return 1 if arguments.check and changed else 0


def regenerated(directory: Path, *, say: bool = False) -> dict[Path, str]:
    """Text of every file that the fit writes."""
    texts: dict[Path, str] = {}
    tables = single_node(directory)
    fits = {
        system: fit_device([table for table in tables if table.source == system])
        for system in SYSTEMS
    }
    for system, found in fits.items():
        path = CALIBRATIONS / f"{sw.cluster(SYSTEMS[system]).device.name}.yaml"
        values = {fit.kind: stated(fit.values) for fit in found}
        texts[path] = with_block(path.read_text(), "network", values, {NAME: _of_device(found)})
        if say:
            _say_device(system, found)
    path = CALIBRATIONS / "generic.yaml"
    usual = {kind: stated(v) for kind, v in means([fits[system] for system in NVLINK]).items()}
    said = f"Geometric means of the fits of {', '.join(NVLINK)}."
    texts[path] = with_block(path.read_text(), "network", usual, {NAME: said})
    text = TRANSPORTS.read_text()
    for transport in fit_transports(nccl_tests(directory, held_out=False)):
        said = _of_transport(transport)
        text = with_block(text, transport.name, _ordered(transport), {NAME: said})
        if say:
            _say_transport(transport, said)
    texts[TRANSPORTS] = text
    if say:
        print("never read, only validated on:", " ".join(HELD_OUT))
    return texts


def _of_device(fits: list[Fitted]) -> str:
    rows = sum(len(table.sizes) for fit in fits for table, _ in fit.ratios)
    ranks = sorted({table.ranks for table, _ in fits[0].ratios})
    errors = ", ".join(f"{fit.kind} {fit.mean_error:.1%}" for fit in fits)
    return (
        f"aiconfigurator, nccl-tests of one node, 16 bits, NCCL {OLDEST} and later: {rows} sizes"
        f" from 512 B to 512 MB on {' and '.join(map(str, ranks))} GPUs (medians over repeats)."
        f" Mean error: {errors}."
    )


def _of_transport(found: FittedTransport) -> str:
    parts = [
        f"{table.source} {table.kind} on {table.nodes} nodes, {len(table.sizes)} sizes,"
        f" mean error {_mean(ratio):.1%}"
        for table, ratio in found.ratios
    ]
    assumed = " hop_us is assumed." if found.name in ASSUMED_HOP_US else ""
    return f"Alone, from 1 MiB: {'; '.join(parts)}.{assumed}"


def _ordered(found: FittedTransport) -> dict[str, float]:
    names = ("rate", "tree", "hop_us", "ramp_us", "ramp_mb")
    return {name: found.values[name] for name in names if name in found.values}


def _say_device(system: str, fits: list[Fitted]) -> None:
    print(f"\n{system}")
    for fit in fits:
        print(f"  {fit.kind:15s} mean error {fit.mean_error:6.1%}   {stated(fit.values)}")
        for table, ratio in fit.ratios:
            bands = "   ".join(
                f"{name} {_mean(_within(table, ratio, limits)):.1%}"
                for name, limits in BANDS.items()
            )
            print(f"    {table.ranks} GPUs   {_mean(ratio):6.1%}   {bands}")


def _say_transport(found: FittedTransport, said: str) -> None:
    print(f"\n{found.name}   {_ordered(found)}\n  {said}")


def _within(
    table: Table, ratio: NDArray[np.float64], limits: tuple[float, float]
) -> NDArray[np.float64]:
    return ratio[(table.sizes >= limits[0]) & (table.sizes <= limits[1])]


def _mean(ratio: NDArray[np.float64]) -> float:
    return float(np.mean(np.abs(ratio - 1.0)))


if __name__ == "__main__":
    sys.exit(main())
