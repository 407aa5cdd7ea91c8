"""What fits read and write: published runs, and files with blocks in a fixed style.

Only calibration rows without doubt decide constants.
"""

import re
import textwrap
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import yaml

from syncwall.validate.table import RowUse, RunRow, corpus_part, read_tables, row_doubt

WIDTH = 100
SOURCES = "fitted"


def rows_of(directories: Sequence[Path]) -> list[RunRow]:
    """All rows of the tables in `directories`, of the built-in ones if there are none."""
    where: Sequence[Path | None] = directories or [None]
    return [row for directory in where for row in read_tables(directory)]


def readable(rows: Iterable[RunRow], also: Sequence[str] = ()) -> dict[str, list[RunRow]]:
    """Rows that decide constants, by source; those of the sources `also` count as calibration."""
    found: dict[str, list[RunRow]] = defaultdict(list)
    for row in rows:
        if (corpus_part(row) is RowUse.CALIBRATION or row.source in also) and not row_doubt(row):
            found[row.source].append(row)
    return found


def update(texts: Mapping[Path, str], *, check: bool) -> int:
    """Write `texts` where they differ; with `check` nothing is written, and 1 says that some do."""
    stale = [p for p, text in texts.items() if not p.exists() or p.read_text("utf-8") != text]
    for path in stale:
        print(f"{'differs' if check else 'wrote'}: {path.name}")
        if not check:
            path.write_text(texts[path], encoding="utf-8")
    if not stale:
        print("unchanged")
    return int(check and bool(stale))


def comments(path: Path) -> str:
    lines = path.read_text("utf-8").splitlines(keepends=True)
    return "".join(line for line in lines if line.startswith("#"))


def with_block(text: str, name: str, values: Mapping[Any, Any], provenance: Mapping[str, str]) -> str:
    """`text` with block `name` rewritten, or put at the end if there is none.

    A block keeps the values that are not given, so several fits can share one; each leaves its
    sources, row counts and residuals as a text of `provenance`.
    """
    kept = dict((yaml.safe_load(text) or {}).get(name) or {})
    sources = kept.pop(SOURCES, {}) | provenance
    lines = [f"{name}:", *(f"  {key}: {_scalar(v)}" for key, v in (kept | dict(values)).items())]
    lines += [f"  {SOURCES}:"] if sources else []
    for fit, said in sorted(sources.items()):
        folded = textwrap.wrap(said, WIDTH - 6, break_long_words=False, break_on_hyphens=False)
        lines += [f"    {fit}: >-", *(f"      {line}" for line in folded)]
    block = "\n".join(lines) + "\n"
    found = re.search(rf"^{re.escape(name)}:.*\n(?:[ \t].*\n|\n(?=[ \t]))*", text, re.MULTILINE)
    if found is None:
        return text.rstrip("\n") + "\n" + block
    return text[: found.start()] + block + text[found.end() :]


def _scalar(value: Any) -> str:
    """A number, a text, or a mapping of them on one line."""
    dumped = yaml.safe_dump(value, default_flow_style=True, sort_keys=False, width=10**6)
    return dumped.removesuffix("\n").removesuffix("\n...")
