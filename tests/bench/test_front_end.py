"""One table of tools and parts: all are there, say what they do, and write nothing when asked."""

import re
from pathlib import Path

import pytest
from bench.__main__ import TOOLS, function_of, main

ROOT = Path(__file__).parents[2]
PARTS = [(tool, part) for tool, parts in TOOLS.items() for part in parts]
NEEDED = {"fit": "scipy", "steps": "torch", "pages": "fastapi"}


def needs(tool, part):
    for name in (tool, part):
        if name in NEEDED:
            pytest.importorskip(NEEDED[name])


@pytest.mark.parametrize(("tool", "part"), PARTS)
def test_every_part_is_a_function_with_help_that_writes_nothing(tool, part, monkeypatch, capsys):
    needs(tool, part)

    def forbidden(*_, **__):
        raise AssertionError("help wrote a file")

    for name in ("write_text", "write_bytes", "mkdir"):
        monkeypatch.setattr(Path, name, forbidden)
    assert function_of(tool, part).__doc__
    with pytest.raises(SystemExit) as ended:
        main([tool, *([part] if part else []), "--help"])
    assert ended.value.code == 0
    assert f"usage: python -m bench {tool} {part}".strip() in capsys.readouterr().out


def test_the_overview_lists_every_part(capsys):
    assert main([]) == 0
    said = capsys.readouterr().out
    assert all(f"python -m bench {tool} {part}".strip() in said for tool, part in PARTS)
    assert main(["fit", "--help"]) == 0
    assert "python -m bench fit kernels" in capsys.readouterr().out


@pytest.mark.parametrize("words", [["nothing"], ["fit"], ["fit", "nothing"]])
def test_a_wrong_call_lists_what_there_is(words, capsys):
    assert main(words) == 2
    assert "usage: python -m bench" in capsys.readouterr().out


def test_pages_and_code_name_parts_that_exist():
    """Such as `python -m bench fit widths`, wherever it stands."""
    places = [*ROOT.glob("*.md"), ROOT / ".ci" / "run"]
    for folder, ending in (("docs", "md"), ("docs", "yaml"), ("src", "py"), ("src", "yaml")):
        places += (ROOT / folder).rglob(f"*.{ending}")
    for path in places:
        text = path.read_text(encoding="utf-8")
        for file in re.findall(r"\bbench/[\w/]+\.py\b", text) if path.name != "CHANGELOG.md" else ():
            assert (ROOT / file).exists() or (ROOT / "tests" / file).exists(), (path, file)
        for tool, part in re.findall(r"python -m bench (\w[\w-]*)(?: (\w[\w-]*))?", text):
            assert tool in TOOLS, path
            assert not part or part in TOOLS[tool] or "" in TOOLS[tool], (path, tool, part)
