"""Measurements of syncwall itself, its fits, its generated pages: `python -m bench TOOL [PART]`."""

import subprocess
from pathlib import Path
from typing import Annotated

import tyro

ROOT = Path(__file__).resolve().parents[1]
Dir = Annotated[Path, tyro.conf.Positional, tyro.conf.arg(metavar="DIR")]
Dirs = Annotated[tuple[Path, ...], tyro.conf.Positional, tyro.conf.arg(metavar="[DIR ...]")]
Names = Annotated[tuple[str, ...], tyro.conf.Positional, tyro.conf.arg(metavar="[NAME ...]")]


def commit() -> str:
    """The short hash of what is checked out."""
    words = ["git", "rev-parse", "--short", "HEAD"]
    return subprocess.run(words, capture_output=True, text=True, check=True, cwd=ROOT).stdout.strip()
