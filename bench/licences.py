"""Writes docs/reference/data-licences.md from the catalogue's sources: `python -m bench.licences`.

Holds `LICENCES` (what a source may state), `PAGE` and `licences`, its text.
"""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from syncwall import catalogue

PAGE = Path(__file__).parents[1] / "docs" / "reference" / "data-licences.md"
LICENCES = {
    "Apache-2.0": "Apache License 2.0",
    "BSD-3-Clause": "BSD 3-Clause",
    "CC-BY-4.0": "Creative Commons Attribution 4.0",
    "CC-BY-SA-4.0": "Creative Commons Attribution-ShareAlike 4.0",
    "CC0-1.0": "Creative Commons Zero 1.0",
    "MIT": "MIT License",
    "MIT-0": "MIT No Attribution",
    "UPL-1.0": "Universal Permissive License 1.0",
    "own terms": "terms of its own, in the licence file of the repository",
    "not stated": "no licence found with it, or none that we have checked",
}
HEAD = """# Where the data comes from, and its licences

The package carries **figures with citations**: rates, sizes, counts, prices and times that
somebody published, or that we measured or derived. Figures are facts. No text, picture, file or
program of a source is copied; what a source prints as a table stands here as rows of our own
format, each with its citation. The entries are ours, and the catalogue is published under
Apache-2.0 like the code. So the licence of a source concerns what you take from there, not what is
here; it is listed to credit its authors, and so that you need not look for it. If you publish a
figure, cite its source, not us.

What is bundled: the catalogue (`src/syncwall/catalogue`), with the published runs in `runs/`;
results of our own labs (`examples/findings`); screens, traces and logs for tests and examples,
which are our own or made up. The pages use Plotly (MIT), which is installed as a package and not
copied.

If you hold rights in a source and see it otherwise, please open an issue.

This page is made of `src/syncwall/catalogue/sources.yaml` by `python -m bench.licences`. The
licence is that of the repository or page that the figures were read from.
"""


def licences() -> str:
    """The page."""
    sources = catalogue.sources()
    return HEAD + "".join(_section(licence, sources) for licence in LICENCES)


def _section(licence: str, sources: Mapping[str, Any]) -> str:
    found = sorted(key for key, source in sources.items() if source["licence"] == licence)
    rows = (f"| `{key}` | {sources[key]['title']} | {sources[key]['author']} |\n" for key in found)
    head = f"\n## {licence}: {len(found)}\n\n{LICENCES[licence]}.\n\n| source | title | author |\n"
    return f"{head}|---|---|---|\n{''.join(rows)}"


if __name__ == "__main__":
    PAGE.write_text(licences(), encoding="utf-8")
