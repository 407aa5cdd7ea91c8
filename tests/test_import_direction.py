"""Imports between folders go one way, in the order in which the data flows."""

import ast
from pathlib import Path

import pytest

import syncwall

# A module may import what stands before it. Folders that do not exist yet keep their place.
ORDER = (
    "units", "problems", "documents", "catalogue", "describe", "work", "cost", "timeline", "answer",
    "validate", "plan", "job", "measure", "lab", "read", "explain", "watch", "show", "web", "cli",
    "__main__",
)  # fmt: skip
ROOT = Path(syncwall.__file__).parent
FILES = sorted(path for path in ROOT.rglob("*.py") if path.parent != ROOT or path.stem in ORDER)


def room(module: str) -> str | None:
    """The folder or file right under `syncwall` that `module` belongs to."""
    parts = module.split(".")
    return parts[1] if parts[0] == "syncwall" and len(parts) > 1 else None


def imported(path: Path) -> set[str]:
    found = set()
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            found |= {room(alias.name) for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and node.module == "syncwall":
            found |= {alias.name for alias in node.names if alias.name in ORDER}
        elif isinstance(node, ast.ImportFrom):
            found.add(room(node.module or ""))
    return {name for name in found if name}


@pytest.mark.parametrize("path", FILES, ids=[str(path.relative_to(ROOT)) for path in FILES])
def test_a_room_imports_only_from_rooms_before_it(path: Path):
    own = path.relative_to(ROOT).parts[0].removesuffix(".py")
    later = {name for name in imported(path) if ORDER.index(name) > ORDER.index(own)}
    assert not later


def test_every_room_has_a_place():
    rooms = {path.name.removesuffix(".py") for path in ROOT.iterdir() if path.name != "__init__.py"}
    assert rooms - {"__pycache__", "py.typed"} <= set(ORDER)


def test_there_is_no_utils():
    assert not list(ROOT.rglob("util*"))
