"""The public interface, pinned: a change here is a change for every user.

`python -m tests.test_public_names` writes `data/public_interface.txt` anew; its difference is what
users will notice.
"""

import doctest
import inspect
import re
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator
from dataclasses import fields, is_dataclass
from pathlib import Path
from typing import Any

import pytest
from pydantic import BaseModel

import syncwall

ROOT = Path(__file__).parents[1]
PINNED = Path(__file__).parent / "data" / "public_interface.txt"
PLANS = ("fabric", "layouts", "network", "placement", "wall")
API = ROOT / "docs" / "reference" / "api.md"


def interface() -> Iterator[str]:
    """A line for every public name, argument and member."""
    for name in sorted(syncwall.__all__):
        value = getattr(syncwall, name)
        if isinstance(value, type):
            yield f"{name}: {' '.join(sorted(members(value)))}"
        elif callable(value):
            yield f"{name}({', '.join(arguments(value))})"
        else:
            yield name
    for name in PLANS:
        yield f"plan.{name}({', '.join(arguments(getattr(syncwall.plan, name)))})"


def arguments(function: Callable[..., Any]) -> Iterator[str]:
    """Names and plain defaults; a star before those that are given by name."""
    by_name = False
    for one in inspect.signature(function).parameters.values():
        if one.kind is one.KEYWORD_ONLY and not by_name:
            by_name = True
            yield "*"
        simple = one.default is None or isinstance(one.default, bool | int | float | str | tuple)
        given = repr(one.default) if simple else "..."
        stars = "**" if one.kind is one.VAR_KEYWORD else ""
        yield f"{stars}{one.name}" + ("" if one.default is one.empty else f"={given}")


def members(kind: type) -> set[str]:
    """What is not of its bases outside of syncwall, without underscores."""
    outside = [one for one in kind.__mro__ if not one.__module__.startswith("syncwall")]
    found = {name for name in dir(kind) if not name.startswith("_")}
    found |= {one.name for one in fields(kind)} if is_dataclass(kind) else set()
    found |= set(kind.model_fields) if issubclass(kind, BaseModel) else set()
    return found.difference(*map(dir, outside))


def functions() -> dict[str, Any]:
    """Every public function by its name; a package that is called stands for one."""
    found = {name: getattr(syncwall, name) for name in syncwall.__all__}
    found |= {f"plan.{name}": getattr(syncwall.plan, name) for name in PLANS}
    inside = {name: getattr(value, "_found", value) for name, value in found.items()}
    return {name: value for name, value in inside.items() if inspect.isfunction(value)}


def test_names_arguments_and_members_are_these():
    assert list(interface()) == PINNED.read_text().splitlines()


def test_what_is_listed_is_there():
    assert dir(syncwall) == sorted(syncwall.__all__)
    assert dir(syncwall.plan) == sorted(PLANS) == syncwall.plan.__all__


def test_others_are_not():
    with pytest.raises(AttributeError, match="has no attribute 'predictt'"):
        _ = syncwall.predictt
    with pytest.raises(AttributeError, match="has no attribute 'walls'"):
        _ = syncwall.plan.walls


def test_importing_the_package_imports_nothing_heavy():
    heavy = ("numpy", "pydantic", "rich", "tyro", "torch", "yaml")
    code = f"import sys, syncwall; print([name for name in {heavy} if name in sys.modules])"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


def test_a_package_is_called_like_its_function_though_its_modules_were_loaded_first():
    code = (
        "import syncwall as sw, syncwall.explain.finding, syncwall.validate.mapping\n"
        "import syncwall.plan.wall.curve\n"
        "print(callable(sw.explain), callable(sw.validate), callable(sw.plan.wall))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.split() == ["True"] * 3


@pytest.mark.parametrize("name", sorted(functions()))
def test_the_example_of_a_function_gives_what_it_says(name, tmp_path, monkeypatch):
    shutil.copytree(ROOT / "examples", tmp_path / "examples")
    monkeypatch.chdir(tmp_path)
    (test,) = doctest.DocTestFinder(recurse=False).find(functions()[name], name)
    runner = doctest.DocTestRunner(optionflags=doctest.ELLIPSIS | doctest.NORMALIZE_WHITESPACE)
    assert runner.run(test).failed == 0
    assert name in NAMED_BY_PAGE or any(f"sw.{name}(" in one.source for one in test.examples)


def page_examples() -> str:
    """The Python lines of the page, which `test_docs.py` runs."""
    blocks = re.findall(r"^```python\n(.*?)^```$", API.read_text(), re.MULTILINE | re.DOTALL)
    return "\n".join(blocks)


NAMED_BY_PAGE = set(re.findall(r"sw\.((?:plan\.)?\w+)", page_examples()))


NAMES = {*syncwall.__all__, *functions()} - {"__version__", "plan"}


@pytest.mark.parametrize("name", sorted(NAMES))
def test_the_page_has_every_name_with_an_example(name):
    assert re.search(rf"^::: syncwall[\w.]*\.{name.split('.')[-1]}$", API.read_text(), re.MULTILINE)
    assert name in {*NAMED_BY_PAGE, *functions()}


@pytest.mark.slow
def test_the_examples_are_typed(tmp_path):
    api = pytest.importorskip("mypy.api", reason="mypy is not installed")
    parser, parts = doctest.DocTestParser(), [page_examples()]
    parts += [function.__doc__ or "" for function in functions().values()]
    for number, part in enumerate(parts):
        lines = "".join(one.source for one in parser.get_examples(part))
        (tmp_path / f"example_{number}.py").write_text(lines)
    settings = ["--strict", "--config-file", str(ROOT / "pyproject.toml")]
    said, _, code = api.run([*settings, *map(str, sorted(tmp_path.glob("*.py")))])
    assert code == 0, said


if __name__ == "__main__":
    PINNED.write_text("".join(f"{line}\n" for line in interface()))
