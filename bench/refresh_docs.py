"""Puts what commands print today into the documentation: `python bench/refresh_docs.py`.

Runs every `$ syncwall` command of the pages and replaces each printed line that no longer occurs by
the most similar one; tests/test_docs.py then compares. Writes the schemas of docs/schemas, too.
Look at the difference before committing.
"""

import os
import shutil
import subprocess
import sys
import tempfile
from difflib import SequenceMatcher
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT))

from tests.test_docs import BLOCK, COMMAND, PAGES  # noqa: E402

from bench import schemas  # noqa: E402

ALIKE = 0.55


def printed(command: str, desk: Path) -> list[str]:
    """Lines that `command` prints."""
    path = f"{Path(sys.executable).parent}:{os.environ['PATH']}"
    done = subprocess.run(
        ["bash", "-c", command], cwd=desk, capture_output=True, text=True, check=False,
        env=os.environ | {"PATH": path, "COLUMNS": "120"},
    )  # fmt: skip
    return [line.rstrip() for line in (done.stdout + done.stderr).splitlines()]


def refreshed(block: str, desk: Path) -> str:
    """A console block with the lines that its commands print now."""
    lines: list[str] = []
    output: list[str] = []
    for stated in block.splitlines():
        line = stated
        match = COMMAND.fullmatch(line)
        if match:
            known = match[1].startswith(("syncwall", "cat", "mkdir", "export"))
            output = printed(match[1], desk) if known else []
        elif line.strip() not in ("", "...") and output:
            line, output = _nearest(line, output)
        lines.append(line)
    return "\n".join(lines) + "\n"


def _nearest(line: str, output: list[str]) -> tuple[str, list[str]]:
    """The line of `output` most like `line`, and what follows it."""
    open_end = line.endswith(" ...")
    start = line.removesuffix(" ...").rstrip()
    for index, other in enumerate(output):
        if other == line.rstrip() or (open_end and other.startswith(start)):
            return line, output[index + 1 :]
    scores = [SequenceMatcher(None, start, other[: len(start) + 8]).ratio() for other in output]
    best = max(range(len(output)), key=lambda index: scores[index])
    if scores[best] < ALIKE:
        return line, output
    found = output[best][: len(start)].rstrip() + " ..." if open_end else output[best]
    return found, output[best + 1 :]


def main() -> None:
    schemas.write()
    for page in PAGES:
        text = page.read_text()
        with tempfile.TemporaryDirectory() as folder:
            desk = Path(folder)
            shutil.copytree(ROOT / "examples", desk / "examples")
            for kind, block in BLOCK.findall(text):
                name = block.splitlines()[0][2:] if block.startswith("# ") else ""
                if kind == "yaml" and name.endswith((".yaml", ".json")):
                    (desk / name).parent.mkdir(parents=True, exist_ok=True)
                    (desk / name).write_text(block)
                if kind == "console":
                    text = text.replace(block, refreshed(block, desk))
        if text != page.read_text():
            page.write_text(text)
            print(page.relative_to(ROOT))


if __name__ == "__main__":
    main()
