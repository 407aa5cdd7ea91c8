"""One measured run of a table of runs.

Holds `Row`, a line of a CSV in the schema of docs/reference/validate.md, with typed cells. An empty
cell means that the source is silent.
"""

from dataclasses import dataclass
from pathlib import Path

REQUIRED = ("id", "source", "model", "layers", "hidden", "gpu", "gpus", "seq_len", "gbs")
"""Columns without which nothing can be predicted; any other may be missing."""


@dataclass(frozen=True, slots=True)
class Row:
    """A measured run as published."""

    cells: dict[str, str]
    file: Path
    line: int

    def text(self, column: str) -> str:
        """The cell, or nothing."""
        return (self.cells.get(column) or "").strip()

    def number(self, column: str) -> float | None:
        """The cell as a number; None if the source is silent."""
        text = self.text(column)
        return float(text) if text else None

    def whole(self, column: str, default: int = 1) -> int:
        """The cell as a whole number."""
        value = self.number(column)
        return default if value is None else round(value)

    def truth(self, column: str) -> bool | None:
        """The cell as a truth value; None if the source is silent."""
        text = self.text(column).lower()
        return None if not text else text == "true"

    @property
    def id(self) -> str:
        """Name of the run, unique in its table."""
        return self.text("id")

    @property
    def source(self) -> str:
        """Key of the publication."""
        return self.text("source")

    @property
    def grade(self) -> str:
        """A: everything known; B: one thing missing or inferred; C: coarse or doubtful."""
        return self.text("grade") or "A"

    @property
    def place(self) -> str:
        """File and line, for messages."""
        return f"{self.file.name}:{self.line}"
