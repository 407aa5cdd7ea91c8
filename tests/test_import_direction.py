"""Imports between folders go one way, as the data flows, and files form no circle."""

import ast
from functools import cache
from graphlib import CycleError, TopologicalSorter
from pathlib import Path

import syncwall

# A module may import what stands before it. Folders that do not exist yet keep their place.
ORDER = (
    "public",
    "units",
    "problems",
    "hosts",
    "outliers",
    "plugins",
    "cause",
    "documents",
    "catalogue",
    "describe",
    "records",
    "work",
    "network",
    "cost",
    "timeline",
    "answer",
    "validate",
    "plan",
    "job",
    "measure",
    "lab",
    "read",
    "capture",
    "explain",
    "watch",
    "report",
    "show",
    "ask",
    "pytest",
    "web",
    "cli",
    "__main__",
)
ROOT = Path(syncwall.__file__).parent
FILES = sorted(path for path in ROOT.rglob("*.py") if path.parent != ROOT or path.stem in ORDER)


def module(path: Path) -> str:
    """The dotted name of a file; of `__init__.py`, that of its folder."""
    parts = path.relative_to(ROOT.parent).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


MODULES = {module(path): path for path in ROOT.rglob("*.py")}


@cache
def imported(path: Path) -> set[str]:
    """Modules of ours that a file imports, anywhere in it: functions and TYPE_CHECKING count."""
    found = set()
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            assert not node.level, f"{path}:{node.lineno} imports relatively"
            inside = {f"{node.module}.{alias.name}" for alias in node.names}
            found |= inside & MODULES.keys()
            found |= {str(node.module)} if inside - MODULES.keys() else set()
    return found & MODULES.keys()


def room(name: str) -> str | None:
    """The folder or file right under `syncwall` that a module belongs to."""
    parts = name.split(".")
    return parts[1] if len(parts) > 1 else None


def cycle(graph: dict[str, set[str]]) -> list[str]:
    """Modules that import each other in a circle, the first again at the end; empty if none do."""
    try:
        TopologicalSorter(graph).prepare()
    except CycleError as error:
        return list(reversed(error.args[1]))
    return []


FACADE = ROOT / "plan" / "__init__.py"
"""Names what `syncwall.ask` answers, as `syncwall/__init__.py` does."""


def test_a_room_imports_only_from_rooms_before_it():
    wrong: dict[str, set[str]] = {}
    for path in (one for one in FILES if one != FACADE):
        own = path.relative_to(ROOT).parts[0].removesuffix(".py")
        rooms = {found for name in imported(path) if (found := room(name))}
        later = {name for name in rooms if ORDER.index(name) > ORDER.index(own)}
        wrong |= {str(path.relative_to(ROOT)): later} if later else {}
    assert not wrong


def test_no_files_import_each_other_in_a_circle():
    files = {name: path for name, path in MODULES.items() if name != "syncwall"}  # loads names late
    circle = cycle({name: imported(path) for name, path in files.items()})
    assert not circle, " -> ".join(circle)


def test_a_circle_of_files_is_named():
    """Through any number of files, in the order in which they import."""
    circle = cycle({"a": {"b"}, "b": {"c", "d"}, "c": {"a"}, "d": set()})
    assert sorted(circle[1:]) == ["a", "b", "c"]
    assert f"{circle[0]}{circle[1]}" in {"ab", "bc", "ca"}


def test_the_server_never_runs_code_of_users():
    """Nothing that the pages import, at once or later, can reach `capture`."""
    reached, todo = set[str](), [name for name in MODULES if room(name) == "web"]
    while todo:
        name = todo.pop()
        if name not in reached and name != "syncwall":
            reached.add(name)
            todo += imported(MODULES[name])
    assert len(reached) > 100
    assert "capture" not in map(room, reached)


def test_every_room_has_a_place():
    rooms = {path.name.removesuffix(".py") for path in ROOT.iterdir() if path.name != "__init__.py"}
    assert rooms - {"__pycache__", "py.typed"} <= set(ORDER)


def test_there_is_no_utils():
    assert not list(ROOT.rglob("util*"))
