"""Published runs by name: what stands behind "the nearest validated run".

Holds `PublishedRun` and `published_run`. A row is in a table of `catalogue/runs` or
`catalogue/first_contacts`; of sources whose tables may not be passed on, only the traits of the run
and its error are known.
"""

import csv
from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import lru_cache
from pathlib import Path
from typing import Any, Final

from syncwall.catalogue import BUILT_IN, sources
from syncwall.documents import opened_table, packed_or_plain

_FOLDERS: Final = ("runs", "first_contacts")
_ERRORS: Final = ("residuals", "register")
"""Tables of predicted over measured times: of runs that the model was checked with, and of runs that
it had never seen."""
_SPEEDS: Final = {
    "tokens_per_s_per_gpu": "tokens/s/GPU",
    "step_time_s": "s a step",
    "tokens_per_s": "tokens/s",
    "samples_per_s": "samples/s",
    "tflops_per_gpu": "TFLOP/s/GPU",
}
"""Columns that say how fast a run was, and their units, the most telling first."""


@dataclass(frozen=True)
class PublishedRun:
    """A run that somebody measured and published."""

    name: str
    source: str
    """Key of the publication."""
    cells: dict[str, str] = field(default_factory=dict)
    """Columns of its table that are filled in; empty if the table may not be passed on."""
    error: dict[str, str] = field(default_factory=dict)
    """Its line among the errors: traits, and predicted over measured time (`ratio`)."""

    @property
    def device(self) -> str:
        """As the source calls it, with power limit and memory where these are stated apart."""
        more = {"gpu_mem_gb": "GB", "power_limit_w": "W"}
        beside = [f"{self.cells[key]} {unit}" for key, unit in more.items() if self.cells.get(key)]
        chip = self.cells.get("gpu") or f"{self.error.get('architecture', 'unknown')} GPU"
        return f"{chip} ({', '.join(beside)})" if beside else chip

    @property
    def what(self) -> str:
        """Model, GPUs and device."""
        size = float(self.error.get("parameters") or 0.0) / 1e9
        model = self.cells.get("model") or f"{size:.3g}B parameters"
        gpus = self.cells.get("gpus") or self.error.get("gpus", "1")
        return f"{model} on {int(float(gpus)):,} × {self.device}"

    @property
    def measured(self) -> str | None:
        """How fast it was, as published or derived from that; None if the table is not here."""
        found = ((float(self.cells[key]), unit) for key, unit in _SPEEDS.items() if self.cells.get(key))
        return next(
            (f"{value:,.4g} {unit}" if value < 1000 else f"{value:,.0f} {unit}" for value, unit in found),
            None,
        )

    @property
    def link(self) -> str:
        """Where it was published."""
        return self.cells.get("url") or str((sources().get(self.source) or {}).get("where", self.source))


@lru_cache(maxsize=64)
def published_run(name: str, source: str = "") -> PublishedRun | None:
    """The published run of this name, looked for in the table of its `source` first; None if unknown."""
    own = _lines(BUILT_IN / "runs" / f"{source}.csv") if source else iter(())
    cells = _named(name, own) or next(filter(None, (_named(name, _lines(one)) for one in _tables())), {})
    errors = (_lines(BUILT_IN / "validation" / f"{one}.csv") for one in _ERRORS)
    error = next(filter(None, (_named(name, one) for one in errors)), {})
    if not cells and not error:
        return None
    return PublishedRun(name, cells.get("source") or error["source"], cells, error)


def _named(name: str, rows: Iterator[dict[str, Any]]) -> dict[str, str]:
    """The filled cells of the row of this name; none if there is no such row."""
    row = next((one for one in rows if one["id"] == name), {})
    return {key: cell.strip() for key, cell in row.items() if key and cell and cell.strip()}


def _tables() -> Iterator[Path]:
    for folder in _FOLDERS:
        yield from sorted((BUILT_IN / folder).glob("*.csv*"))


def _lines(table: Path) -> Iterator[dict[str, Any]]:
    path = packed_or_plain(table) if table.suffix == ".csv" else table
    if path.exists():
        with opened_table(path) as stream:
            yield from csv.DictReader(stream)
