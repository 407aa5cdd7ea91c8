"""Where a module is tested: `python -m tests.where src/syncwall/cost/prices.py` lists test files.

Holds `files_for`. The file beside it by name (`tests/cost/test_host.py`) and tests that import the
module; if there are none, tests that import what imports it, and so on.
"""

import ast
import sys
from collections.abc import Iterable
from functools import cache
from pathlib import Path

ROOT = Path(__file__).parents[1]
SOURCE, TESTS = ROOT / "src", ROOT / "tests"


def module_name(path: Path) -> str:
    """`syncwall.cost.prices` of src/syncwall/cost/prices.py."""
    parts = path.resolve().relative_to(SOURCE).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


def files_for(path: Path) -> list[Path]:
    """Test files of the module at `path`, the nearest only; none if no test leads to it."""
    name = module_name(path)
    own = TESTS.joinpath(*name.split(".")[1:-1], f"test_{path.stem}.py")
    found = [own] if own.exists() else []
    names, seen = {name}, set[str]()
    while names and not (found := list(dict.fromkeys([*found, *_importing(names, TESTS)]))):
        seen |= names
        packages = {one.rpartition(".")[0] for one in names}  # verbs are found by name in theirs
        names = {module_name(user) for user in _importing(names, SOURCE)} - seen or packages
    return found


def _importing(names: set[str], home: Path) -> list[Path]:
    return [path for path, imported in _imports(home).items() if not names.isdisjoint(imported)]


@cache
def _imports(home: Path) -> dict[Path, frozenset[str]]:
    """What every file below `home` imports, by full names."""
    return {path: frozenset(_imported(path)) for path in sorted(home.rglob("*.py"))}


def _imported(path: Path) -> Iterable[str]:
    for node in ast.walk(ast.parse(path.read_text())):
        match node:
            case ast.Import(names):
                yield from (one.name for one in names)
            case ast.ImportFrom(str() as module, names):
                yield module
                yield from (f"{module}.{one.name}" for one in names)


if __name__ == "__main__":
    for argument in sys.argv[1:]:
        for found in files_for(Path(argument)):
            print(found.relative_to(ROOT))
