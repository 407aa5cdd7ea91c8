"""Measurements of syncwall itself, its fits, its generated pages: `python -m bench TOOL [PART]`."""

from pathlib import Path
from typing import Annotated

import tyro

ROOT = Path(__file__).resolve().parents[1]
Dir = Annotated[Path, tyro.conf.Positional, tyro.conf.arg(metavar="DIR")]
Dirs = Annotated[tuple[Path, ...], tyro.conf.Positional, tyro.conf.arg(metavar="[DIR ...]")]
Names = Annotated[tuple[str, ...], tyro.conf.Positional, tyro.conf.arg(metavar="[NAME ...]")]
