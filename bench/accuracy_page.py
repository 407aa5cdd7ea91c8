"""Writes what the Accuracy page shows: `python -m bench.accuracy_page`.

Every published run that comes with syncwall is predicted, which takes half a minute. The figures
of the documentation, of all sources, are those of docs/accuracy.json. After a change of the model:
first `python bench/accuracy.py DIR --accept`, then this.
"""

import gzip
import json
from pathlib import Path
from typing import Any

from syncwall.web.answers.accuracy import accuracy
from syncwall.web.assets import SHIPPED

FIGURES = Path(__file__).parents[1] / "docs" / "accuracy.json"


def published() -> dict[str, Any]:
    """Errors on held-out sources as the documentation states them."""
    summary: dict[str, Any] = json.loads(FIGURES.read_text(encoding="utf-8"))["summary"]
    return {key: value for key, value in summary.items() if key != "against"}


def main() -> None:
    answer = accuracy() | {"published": published()}
    text = json.dumps(answer, ensure_ascii=False, separators=(",", ":"))
    SHIPPED.parent.mkdir(exist_ok=True)
    SHIPPED.write_bytes(gzip.compress(text.encode(), 9, mtime=0))
    print(f"{SHIPPED.stat().st_size / 1e3:.0f} kB of {len(answer['runs']):,} runs")


if __name__ == "__main__":
    main()
