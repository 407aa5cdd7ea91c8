"""Whether the tests notice a wrong formula."""

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
from typing import Any

from bench import ROOT

PACKAGE = ROOT / "src" / "syncwall"
ROOMS = ("work", "cost", "timeline", "answer")
QUICK = "not slow and not alone and not lab and not browser"
TIMEOUT_S = 900
_PAIRS = ((ast.Add, ast.Sub), (ast.Mult, ast.Div), (ast.Lt, ast.LtE), (ast.Gt, ast.GtE))
_MORE_PAIRS = ((ast.Eq, ast.NotEq), (ast.And, ast.Or))
SWAPPED: dict[type, type] = {ast.FloorDiv: ast.Mult}
SWAPPED |= {a: b for pair in (*_PAIRS, *_MORE_PAIRS) for a, b in (pair, pair[::-1])}
NAMES = {"min": "max", "max": "min", "minimum": "maximum", "maximum": "minimum"}


@dataclass(frozen=True)
class Mutant:
    """One changed expression of one file: `after` in the place of bytes `start` to `end`."""

    path: Path
    line: int
    start: int
    end: int
    before: str
    after: str

    def __str__(self) -> str:
        return f"{self.path.relative_to(ROOT)}:{self.line}: {self.before}  ->  {self.after}"

    def applied(self) -> bytes:
        text = self.path.read_bytes()
        return text[: self.start] + self.after.encode() + text[self.end :]


def mutants_of(path: Path) -> Iterator[Mutant]:
    text = path.read_bytes()
    starts = [0]
    for line in text.splitlines(keepends=True):
        starts.append(starts[-1] + len(line))
    functions = (one for one in ast.walk(ast.parse(text)) if isinstance(one, ast.FunctionDef))
    for node in (one for f in functions for part in f.body for one in ast.walk(part)):
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


def drawn(groups: list[list[Path]], each: int, seed: int) -> list[Mutant]:
    chance = random.Random(seed)
    found = []
    for files in groups:
        every = {one for path in files for one in mutants_of(path)}
        ordered = sorted(every, key=lambda one: (one.path, one.start))
        found += chance.sample(ordered, min(each, len(ordered)))
    return found


def killed(mutant: Mutant, copy: Path) -> bool:
    target = copy / "syncwall" / mutant.path.relative_to(PACKAGE)
    target.write_bytes(mutant.applied())
    try:
        return any(_fails(tests, copy) for tests in _tests(mutant))
    finally:
        shutil.copy(mutant.path, target)


def _tests(mutant: Mutant) -> Iterator[list[str]]:
    room = mutant.path.relative_to(PACKAGE).parts[0]
    own = ROOT / "tests" / room / f"test_{mutant.path.stem}.py"
    pinned = ["tests/validate/test_pinned.py", "tests/validate/test_pinned_layouts.py"]
    yield [*([str(own)] if own.exists() else []), *pinned]
    yield [f"tests/{room}"]
    after = ROOMS[ROOMS.index(room) + 1 :] if room in ROOMS else ()
    yield [f"tests/{one}" for one in (*after, "validate", "laws", "plan")]


def _fails(tests: list[str], copy: Path) -> bool:
    command = [sys.executable, "-m", "pytest", "-x", "-q", "-p", "no:cacheprovider", "-m", QUICK]
    environment = os.environ | {"PYTHONPATH": f"{copy}:{ROOT}", "PYTHONDONTWRITEBYTECODE": "1"}
    how: dict[str, Any] = {"cwd": ROOT, "env": environment, "timeout": TIMEOUT_S}
    try:
        done = subprocess.run([*command, *tests], capture_output=True, check=False, **how)
    except subprocess.TimeoutExpired:
        return True  # a loop without end is noticed
    return done.returncode not in (0, 5)  # 5: every test of the file is slow


def mutants(
    each: int = 20,
    seed: int = 1,
    workers: int = 2,
    least: float = 0.85,
    files: tuple[Path, ...] = (),
) -> int:
    """Whether the tests notice a wrong formula. A stage of CI runs it weekly.

    Draws places where an operator, a comparison, a number, a condition or `min` and `max` is
    changed, one at a time, in a copy of the package, and runs the tests of that file, then of its
    room, then of the rooms that stand on it, until one fails. A mutant that all tests pass
    survives: it is listed with its line.

    Args:
        each: Mutants of each room (work, cost, timeline, answer), or of all `files` together.
        seed: Of the draw.
        workers: Tests that run at a time.
        least: Exit code 1 if a smaller share is killed.
        files: Draw from these files only.
    """
    rooms = [sorted((PACKAGE / room).rglob("*.py")) for room in ROOMS]
    found = drawn([[path.resolve() for path in files]] if files else rooms, each, seed)
    with tempfile.TemporaryDirectory() as home, ThreadPoolExecutor(workers) as pool:
        copies: Queue[Path] = Queue()
        for number in range(workers):
            copies.put(Path(shutil.copytree(PACKAGE, Path(home, str(number), "syncwall"))).parent)

        def judged(mutant: Mutant) -> bool:
            copy = copies.get()
            try:
                return killed(mutant, copy)
            finally:
                copies.put(copy)

        dead = 0
        for mutant, is_dead in zip(found, pool.map(judged, found), strict=True):
            print("killed  " if is_dead else "SURVIVED", mutant, flush=True)
            dead += is_dead
    print(f"{dead} of {len(found)} killed, {100 * dead / len(found):.0f}%")
    return int(dead < least * len(found))
