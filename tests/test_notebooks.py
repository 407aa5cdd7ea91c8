"""Every example notebook runs, cell by cell, and its last table has the numbers of `sw.compare`.

The cells are executed as Python, so that neither a kernel nor Jupyter is needed.
"""

import json
from pathlib import Path
from typing import Any

import pytest

import syncwall as sw

FOLDER = Path(__file__).parents[1] / "examples" / "notebooks"
NOTEBOOKS = sorted(FOLDER.glob("*.ipynb"))
MOST_BYTES = 8_000
SHOWN = ("A", "B", "ratio", "P10", "P90", "told apart")


def cells(path: Path) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = json.loads(path.read_text())["cells"]
    return found


def executed(path: Path) -> dict[str, Any]:
    """What the names of a notebook hold after its last cell."""
    names: dict[str, Any] = {}
    for cell in cells(path):
        if cell["cell_type"] == "code":
            exec(compile("".join(cell["source"]), f"{path.name}:{cell['id']}", "exec"), names)
    return names


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
def test_a_notebook_is_small_and_has_no_outputs(path):
    assert path.stat().st_size <= MOST_BYTES
    for cell in cells(path):
        assert cell["id"]
        assert cell["cell_type"] == "markdown" or (cell["outputs"] == [] and cell["execution_count"] is None)


@pytest.mark.slow
def test_the_last_table_has_the_numbers_of_compare():
    pytest.importorskip("pandas", reason="pandas is not installed: pip install --group notebook")
    pytest.importorskip("plotly", reason="plotly is not installed: pip install 'syncwall[web]'")
    names = executed(FOLDER / "compare.ipynb")
    own = sw.compare(names["run"], names["other"], tokens="1T").beside[0].ratios
    told = names["told"]
    assert list(told.index) == list(own)
    assert "finish_s" in own
    for key, one in own.items():
        ours = (one.before, one.after, one.value, *one.interval, one.is_told_apart)
        assert tuple(told.loc[key, name] for name in SHOWN) == ours
    rows = names["rows"]
    first = sw.predict(names["run"])
    same = rows[(rows.gpus == 128) & (rows.tp == 1)].iloc[0]
    assert (same.step_s, same.mfu) == (first.step_s, first.mfu)
    assert set(names["wall"]["sides"]) == {"strong", "weak"}
