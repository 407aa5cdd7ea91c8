"""One block of a calibration file, rewritten in one fixed style; all other lines stay as they are.

Holds `write_block` and `with_block`. A block keeps the values that a fit does not give, so several
fits can share one: each leaves its own text under `fitted`, with sources, row counts and residuals.
"""

import re
import textwrap
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import yaml

WIDTH = 100
SOURCES = "fitted"


def write_block(
    path: Path, name: str, values: Mapping[Any, Any], provenance: Mapping[str, str]
) -> None:
    """Put `values` and `provenance` (text by the name of the fit) into block `name` of `path`."""
    path.write_text(with_block(path.read_text(), name, values, provenance))


def with_block(
    text: str, name: str, values: Mapping[Any, Any], provenance: Mapping[str, str]
) -> str:
    """`text` of a calibration with block `name` rewritten, or put at the end if there is none."""
    kept = dict((yaml.safe_load(text) or {}).get(name) or {})
    sources = kept.pop(SOURCES, {}) | provenance
    block = _block(name, kept | dict(values), sources)
    found = re.search(rf"^{re.escape(name)}:.*\n(?:[ \t].*\n|\n(?=[ \t]))*", text, re.MULTILINE)
    if found is None:
        return text.rstrip("\n") + "\n" + block
    return text[: found.start()] + block + text[found.end() :]


def _block(name: str, values: Mapping[str, Any], sources: Mapping[str, str]) -> str:
    lines = [f"{name}:", *(f"  {key}: {_scalar(value)}" for key, value in values.items())]
    if sources:
        lines.append(f"  {SOURCES}:")
    for fit, said in sorted(sources.items()):
        folded = textwrap.wrap(said, WIDTH - 6, break_long_words=False, break_on_hyphens=False)
        lines += [f"    {fit}: >-", *(f"      {line}" for line in folded)]
    return "\n".join(lines) + "\n"


def _scalar(value: Any) -> str:
    """A number, a text, or a mapping of them on one line."""
    dumped = yaml.safe_dump(value, default_flow_style=True, sort_keys=False, width=10**6)
    return dumped.removesuffix("\n").removesuffix("\n...")
