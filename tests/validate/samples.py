"""Rows and tables of runs for tests."""

import csv
import io
from pathlib import Path

import pytest

from syncwall.validate.table import RunRow, read_tables

CORPUS = Path(__file__).parents[3] / "shared" / "data" / "runs"
"""The large tables from which the built-in ones were taken; not everybody has them."""
needs_corpus = pytest.mark.skipif(not CORPUS.is_dir(), reason="needs the tables in ../shared")

CELLS = {
    "id": "ours-8b-16",
    "source": "ours",
    "model": "Llama 3.1 8B",
    "layers": "32",
    "hidden": "4096",
    "heads": "32",
    "kv_heads": "8",
    "ffn_hidden": "14336",
    "vocab": "128256",
    "seq_len": "8192",
    "gpu": "H100-SXM",
    "gpus": "16",
    "tp": "2",
    "pp": "1",
    "shard": "zero1",
    "mbs": "1",
    "gbs": "64",
    "precision": "bf16",
    "recompute": "none",
    "framework": "Megatron-LM",
    "year": "2025",
    "step_time_s": "4.2",
}


def row(**changes: str) -> RunRow:
    """A run that can be predicted, with `changes`."""
    return RunRow(CELLS | changes, Path("ours.csv"), 2)


def table(*rows: dict[str, str]) -> str:
    """A CSV of `rows`, each a change of `CELLS`."""
    text = io.StringIO()
    columns = list(dict.fromkeys([*CELLS, *(name for one in rows for name in one)]))
    writer = csv.DictWriter(text, columns)
    writer.writeheader()
    writer.writerows(CELLS | one for one in rows)
    return text.getvalue()


def known(name: str) -> RunRow:
    """A run of the built-in tables by its id."""
    return next(one for one in read_tables() if one.id == name)
