"""Every command, file and Python line in the documentation is executed and gives what it says.

In a `console` block, a line that starts with `$ ` is run; the lines after it must occur in its
output in that order (`...` stands for any lines, or for the rest of a line). `# exit N` after a
command states its exit code. A `yaml` or `python` block whose first line is `# name.yaml` or
`# name.py` becomes that file.
`>>>` lines of `python` blocks are doctests.
"""

import doctest
import os
import re
import shlex
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
PAGES = [*sorted(ROOT.glob("*.md")), *sorted((ROOT / "docs").rglob("*.md"))]
EXAMPLES = sorted((ROOT / "examples").glob("*.yaml"))
BLOCK = re.compile(r"^```(\w+)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
COMMAND = re.compile(r"\$ (.*?)(?:  # exit (\d))?$")
BY_THE_SHELL = re.compile(r"(?!syncwall ).*|.*[|<>&;$*~].*|syncwall (capture|lab|measure|serve|watch)\b.*")
"""Commands that need a shell, or start processes; others are called here, without a start each."""


def blocks(page: Path) -> list[tuple[str, str]]:
    return BLOCK.findall(page.read_text())


def steps(block: str) -> list[tuple[str, int, list[str]]]:
    """Command, exit code and expected lines of every command in a console block."""
    found: list[tuple[str, int, list[str]]] = []
    for line in block.splitlines():
        match = COMMAND.fullmatch(line)
        if match:
            found.append((match[1], int(match[2] or 0), []))
        elif found and line.strip() not in ("", "..."):
            found[-1][2].append(line.rstrip())
    return found


@pytest.fixture
def desk(tmp_path: Path) -> Path:
    """A directory as a user's: the examples of the project and nothing else."""
    shutil.copytree(ROOT / "examples", tmp_path / "examples")
    return tmp_path


def run(command: str, desk: Path, capfd: pytest.CaptureFixture[str]) -> tuple[int, str]:
    """Exit code and output of a command at the desk, where this process is."""
    if BY_THE_SHELL.fullmatch(command):
        environment = {"PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}"}
        done = subprocess.run(
            ["bash", "-c", command],
            cwd=desk,
            env=os.environ | environment,
            capture_output=True,
            text=True,
            check=False,
        )
        return done.returncode, done.stdout + done.stderr
    from syncwall.cli import main

    capfd.readouterr()
    try:
        code = main(shlex.split(command)[1:])
    except SystemExit as stop:
        code = int(stop.code or 0)
    return code, "".join(capfd.readouterr())


@pytest.mark.slow
@pytest.mark.parametrize("page", PAGES, ids=[str(page.relative_to(ROOT)) for page in PAGES])
def test_commands_print_what_the_page_says(page: Path, desk: Path, monkeypatch, capfd):
    monkeypatch.chdir(desk)
    monkeypatch.setenv("COLUMNS", "120")
    if "$ syncwall capture " in page.read_text():
        pytest.importorskip("torch", reason="torch is not installed")
    for kind, block in blocks(page):
        name = re.match(r"# ([\w./-]+\.(?:yaml|json|py))\n", block)
        if kind in ("yaml", "python") and name:
            (desk / name[1]).parent.mkdir(parents=True, exist_ok=True)
            (desk / name[1]).write_text(block)
        for command, code, lines in steps(block) if kind == "console" else []:
            if not command.startswith(("syncwall", "cat", "mkdir", "export")):
                continue  # installation commands are run by test_install.py and .ci/run
            ended, output = run(command, desk, capfd)
            assert ended == code, f"$ {command}\n{output}"
            rest = iter([line.rstrip() for line in output.splitlines()])
            for line in lines:
                start = line.removesuffix(" ...")
                found = any(p == line or (p.startswith(start) and start != line) for p in rest)
                assert found, f"$ {command}\nnot printed, or not in this order: {line!r}"


@pytest.mark.parametrize("page", PAGES, ids=[str(page.relative_to(ROOT)) for page in PAGES])
def test_python_lines_give_what_the_page_says(page: Path, desk: Path, monkeypatch):
    monkeypatch.chdir(desk)
    text = "\n".join(block for kind, block in blocks(page) if kind == "python")
    test = doctest.DocTestParser().get_doctest(text, {}, page.name, str(page), 0)
    runner = doctest.DocTestRunner(optionflags=doctest.ELLIPSIS | doctest.NORMALIZE_WHITESPACE)
    runner.run(test)
    assert runner.summarize(verbose=False).failed == 0


@pytest.mark.parametrize("page", PAGES, ids=[str(page.relative_to(ROOT)) for page in PAGES])
def test_links_between_pages_lead_somewhere(page: Path):
    for target in re.findall(r"\]\((?!https?://|#)([^)#]+)", page.read_text()):
        assert (page.parent / target).exists(), target


@pytest.mark.parametrize("example", sorted((ROOT / "examples").glob("*.yaml")), ids=lambda p: p.stem)
def test_every_example_is_valid(example: Path):
    from syncwall.cli import main

    assert main(["show", "run", str(example)]) == 0


def test_doctests_of_the_package():
    import syncwall
    from syncwall import units

    for module in (syncwall, units):
        assert doctest.testmod(module).failed == 0
