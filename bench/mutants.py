"""Whether the tests notice a wrong formula: `python bench/mutants.py [--each N] [--seed S]`.

Draws N places of each room (`ROOMS`) where an operator, a comparison, a number, a condition or
`min` and `max` is changed, one at a time, in a copy of the package, and runs the tests of that
file, then of its room, then of the rooms that stand on it, until one fails. A mutant that all
tests pass survives: it is listed with its line. Exit code 1 if fewer than 85% are killed.
"""

import argparse
import ast
import os
import random
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from queue import Queue

ROOT = Path(__file__).resolve().parents[1]
PACKAGE = ROOT / "src" / "syncwall"
ROOMS = ("work", "cost", "timeline", "answer")
LEAST = 0.85
QUICK = "not slow and not alone and not lab and not browser"
TIMEOUT_S = 900
SWAPPED: dict[type, type] = {
    ast.Add: ast.Sub, ast.Sub: ast.Add, ast.Mult: ast.Div, ast.Div: ast.Mult,
    ast.FloorDiv: ast.Mult, ast.Lt: ast.LtE, ast.LtE: ast.Lt, ast.Gt: ast.GtE, ast.GtE: ast.Gt,
    ast.Eq: ast.NotEq, ast.NotEq: ast.Eq, ast.And: ast.Or, ast.Or: ast.And,
}  # fmt: skip
NAMES = {"min": "max", "max": "min", "minimum": "maximum", "maximum": "minimum"}


@dataclass(frozen=True)
class Mutant:
    """One changed expression of one file."""

    path: Path
    line: int
    start: int
    end: int
    """Bytes of the file that are replaced."""
    before: str
    after: str

    def __str__(self) -> str:
        name = self.path.relative_to(ROOT)
        return f"{name}:{self.line}: {self.before}  ->  {self.after}"

    def applied(self) -> bytes:
        """The changed file."""
        text = self.path.read_bytes()
        return text[: self.start] + self.after.encode() + text[self.end :]


def mutants(path: Path) -> Iterator[Mutant]:
    """Every mutant inside the functions of a file."""
    text = path.read_bytes()
    starts = [0]
    for line in text.splitlines(keepends=True):
        starts.append(starts[-1] + len(line))
    for function in ast.walk(ast.parse(text)):
        if not isinstance(function, ast.FunctionDef):
            continue
        for node in (one for part in function.body for one in ast.walk(part)):
            changed = _changed(node)
            if changed is None or not isinstance(node, ast.expr) or node.end_lineno is None:
                continue
            start = starts[node.lineno - 1] + node.col_offset
            end = starts[node.end_lineno - 1] + (node.end_col_offset or 0)
            before = " ".join(text[start:end].decode().split())
            yield Mutant(path, node.lineno, start, end, before, f"({changed})")


def _changed(node: ast.AST) -> str | None:
    """The source of `node` with one change; None if it has none to offer."""
    match node:
        case ast.BinOp(left, op, right) if type(op) in SWAPPED:
            changed: ast.expr = ast.BinOp(left, SWAPPED[type(op)](), right)
        case ast.Compare(left, [op], [right]) if type(op) in SWAPPED:
            changed = ast.Compare(left, [SWAPPED[type(op)]()], [right])
        case ast.BoolOp(op, values):
            changed = ast.BoolOp(SWAPPED[type(op)](), values)
        case ast.IfExp(test, body, orelse):
            changed = ast.IfExp(test, orelse, body)
        case ast.Constant(int() | float() as value) if not isinstance(value, bool):
            changed = ast.Constant(value + 1)
        case ast.Call(ast.Name(name), arguments, keywords) if name in NAMES:
            changed = ast.Call(ast.Name(NAMES[name]), arguments, keywords)
        case ast.Call(ast.Attribute(value, name), arguments, keywords) if name in NAMES:
            changed = ast.Call(ast.Attribute(value, NAMES[name]), arguments, keywords)
        case _:
            return None
    return ast.unparse(changed)


def drawn(each: int, seed: int) -> list[Mutant]:
    """`each` mutants of every room, the same ones for the same seed."""
    chance = random.Random(seed)
    found = []
    for room in ROOMS:
        files = sorted((PACKAGE / room).rglob("*.py"))
        every = sorted(
            {one for path in files for one in mutants(path)}, key=lambda one: (one.path, one.start)
        )
        found += chance.sample(every, min(each, len(every)))
    return found


def killed(mutant: Mutant, copy: Path) -> bool:
    """Whether a test fails with `mutant` in the package at `copy`."""
    target = copy / "syncwall" / mutant.path.relative_to(PACKAGE)
    target.write_bytes(mutant.applied())
    try:
        return any(_fails(tests, copy) for tests in _tests(mutant))
    finally:
        shutil.copy(mutant.path, target)


def _tests(mutant: Mutant) -> Iterator[list[str]]:
    """Tests in the order in which they are likely to notice."""
    room = mutant.path.relative_to(PACKAGE).parts[0]
    own = ROOT / "tests" / room / f"test_{mutant.path.stem}.py"
    pinned = ["tests/validate/test_pinned.py", "tests/validate/test_pinned_layouts.py"]
    yield [*([str(own)] if own.exists() else []), *pinned]
    yield [f"tests/{room}"]
    after = [*ROOMS[ROOMS.index(room) + 1 :], "validate", "laws", "plan"]
    yield [f"tests/{one}" for one in after]


def _fails(tests: list[str], copy: Path) -> bool:
    command = [sys.executable, "-m", "pytest", "-x", "-q", "-p", "no:cacheprovider", "-m", QUICK]
    environment = os.environ | {"PYTHONPATH": f"{copy}:{ROOT}", "PYTHONDONTWRITEBYTECODE": "1"}
    try:
        done = subprocess.run(
            [*command, *tests], cwd=ROOT, env=environment, capture_output=True, check=False,
            timeout=TIMEOUT_S,
        )  # fmt: skip
    except subprocess.TimeoutExpired:
        return True  # a loop without end is noticed
    return done.returncode not in (0, 5)  # 5: every test of the file is slow


def main(arguments: list[str] | None = None) -> int:
    """Exit code: 0 enough are killed, 1 too few."""
    parser = argparse.ArgumentParser(description="Whether the tests notice a wrong formula.")
    parser.add_argument("--each", type=int, default=20, help="mutants of each room")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--workers", type=int, default=2)
    chosen = parser.parse_args(arguments)
    found = drawn(chosen.each, chosen.seed)
    with tempfile.TemporaryDirectory() as home, ThreadPoolExecutor(chosen.workers) as pool:
        copies: Queue[Path] = Queue()
        for number in range(chosen.workers):
            copies.put(Path(shutil.copytree(PACKAGE, Path(home, str(number), "syncwall"))).parent)

        def judged(mutant: Mutant) -> bool:
            copy = copies.get()
            try:
                return killed(mutant, copy)
            finally:
                copies.put(copy)

        survivors = []
        for mutant, dead in zip(found, pool.map(judged, found), strict=True):
            print("killed  " if dead else "SURVIVED", mutant, flush=True)
            survivors += [] if dead else [mutant]
    share = 1 - len(survivors) / len(found)
    print(f"{len(found) - len(survivors)} of {len(found)} killed, {100 * share:.0f}%")
    return 0 if share >= LEAST else 1


if __name__ == "__main__":
    sys.exit(main())
