"""Excerpts of `*.yaml` as the text of a log."""

from pathlib import Path
from typing import Any

import yaml

HERE = Path(__file__).parent


def excerpts() -> list[dict[str, Any]]:
    return [one for path in sorted(HERE.glob("*.yaml")) for one in yaml.safe_load(path.read_text())]


def text_of(one: dict[str, Any]) -> str:
    """The lines of an excerpt: its figures in the line that the framework prints."""
    names = one["columns"].split()
    rows = [row.split(one.get("separator")) for row in one["rows"].rstrip("\n").split("\n")]
    lines = []
    for row in rows:
        cells = [cell.strip(" ").replace("\\n", "\n") for cell in row]
        lines.append(one["line"].format(**dict(zip(names, cells, strict=True))))
    end = one.get("ends", "\n")
    before, after = (f"{one[key]}\n" if key in one else "" for key in ("before", "after"))
    return f"{before}{end.join(lines)}{end}{after}"
