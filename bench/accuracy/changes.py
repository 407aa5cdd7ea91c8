"""Commits of public training repositories through the gate of pull requests.

`changes.yaml` has what is known of each. The data they read are random numbers, and packages that only
log or download stand in as empty ones: none of that changes a step.
"""

import io
import os
import subprocess
import sys
import tarfile
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import numpy as np
import yaml

from bench import ROOT, Dir
from syncwall.answer.gate import Gate, Outcome, gate, limits_of
from syncwall.answer.prediction import predict
from syncwall.read.recorded_program import read_program

LISTED: Final = ROOT / "bench" / "accuracy" / "changes.yaml"
FIRST: Final = 3
STAND_INS: Final = {
    "wandb.py": "",
    "requests.py": "",
    "tiktoken.py": (
        "class Encoding:\n"
        "    n_vocab = eot_token = 50256\n"
        "    def encode(self, text, **_): return [ord(c) % 50000 for c in text]\n"
        "    encode_ordinary = encode\n"
        "    def decode(self, tokens): return ''\n"
        "def get_encoding(name): return Encoding()\n"
    ),
    "sentencepiece.py": "class SentencePieceProcessor: pass\n",
}
BINARIES: Final = (
    "data/openwebtext/train.bin",
    "data/openwebtext/val.bin",
    "data/TinyStories_all_data/data00.bin",
    "data/TinyStories_all_data/data01.bin",
)


@dataclass(frozen=True)
class Change:
    repository: str
    commit: str
    because: str
    arguments: str
    expected: str = ""
    where: str = ""
    quantity: str = "step"
    undone: bool = False
    world: int = 8

    def judged(self, found: Gate) -> bool:
        """Whether the gate said what is expected."""
        if not self.expected:
            return found.outcome is Outcome.WITHIN
        if self.quantity not in {one.quantity for one in found.of(Outcome.ABOVE)}:
            return False
        if self.quantity == "memory":
            return any(one.kind == self.expected for one in found.memory[:FIRST])
        return any(
            one.kind == self.expected and self.where in f"{one.cause} {one.module} {one.source}"
            for one in found.calls[:FIRST]
        )


def changes(directory: Dir, only: str = "", keep: Path | None = None) -> int:
    """Changes whose effect is known are flagged with their cause, unrelated ones are silent.

    Args:
        directory: Clones of the repositories, each under its own name.
        only: Commits that start with this.
        keep: Write the recordings here, and take those that are there.
    """
    listed = yaml.safe_load(LISTED.read_text())
    keep = keep or Path(tempfile.mkdtemp(prefix="recordings-"))
    counts = {}
    for part in ("known", "unrelated"):
        right = 0
        for row in listed[part]:
            one = Change(**row)
            if one.commit.startswith(only):
                words, is_right = said(one, directory, listed, keep)
                right += is_right
                print(
                    f"| {one.repository.split('/')[1]} {one.commit} | {one.because} | {words} |", flush=True
                )
        counts[part] = right, len(listed[part])
    print("; ".join(f"{part}: {right} of {whole} right" for part, (right, whole) in counts.items()))
    return 0


def said(one: Change, directory: Path, listed: dict[str, Any], keep: Path) -> tuple[str, bool]:
    """What the gate says, in a cell of a table, and whether that is right."""
    clone = directory / one.repository.split("/")[1]
    sides = [f"{one.commit}^", one.commit]
    programs, took = [], []
    for side in sides[::-1] if one.undone else sides:
        try:
            path, seconds = recorded(clone, side, one, keep)
        except subprocess.CalledProcessError as error:
            return f"NOT RECORDED: {error.stderr.strip().splitlines()[-1]}", False
        programs.append(read_program(path))
        took.append(seconds)
    before, after = (predict(program, cluster=listed["cluster"]) for program in programs)
    found = gate(before, after, limits=limits_of(listed["limits"]))
    first = [f"{c.kind} {c.module} {c.source} ({c.what})" for c in found.calls[:FIRST]]
    held = [f"{h.kind} {h.module} {h.bytes / 1e9:+.2f} GB" for h in found.memory[:FIRST]]
    right = one.judged(found)
    cells = f"{found.outcome}: {found.reason}", "; ".join(first), "; ".join(held), f"{max(took):.0f} s"
    return " | ".join((*cells, "right" if right else "WRONG")), right


def recorded(clone: Path, side: str, one: Change, keep: Path) -> tuple[Path, float]:
    """The recording of one side, and the seconds that it took."""
    name = "".join(c if c.isalnum() else "-" for c in f"{clone.name} {side} {one.arguments}")
    path = keep.resolve() / f"{name}.work.json.gz"
    if path.exists():
        return path, 0.0
    with tempfile.TemporaryDirectory() as folder:
        started = time.monotonic()
        record(clone, side, one, path, Path(folder))
        return path, time.monotonic() - started


def record(clone: Path, side: str, one: Change, path: Path, folder: Path) -> None:
    """Record one side, checked out in `folder`."""
    tree = subprocess.run(["git", "-C", clone, "archive", side], capture_output=True, check=True).stdout
    with tarfile.open(fileobj=io.BytesIO(tree)) as files:
        files.extractall(folder / "tree", filter="data")
    prepare(folder)
    script, *arguments = one.arguments.split()
    command = [sys.executable, "-m", "syncwall", "capture", script, "--world", str(one.world)]
    paths = os.pathsep.join(filter(None, (str(folder / "stand_ins"), os.environ.get("PYTHONPATH"))))
    subprocess.run(
        [*command, "-o", str(path), "--", *arguments],
        cwd=folder / "tree",
        env=os.environ | {"PYTHONPATH": paths},
        capture_output=True,
        text=True,
        check=True,
    )


def prepare(folder: Path) -> None:
    """Random tokens where the programs read theirs, and stand-ins for what only logs or downloads."""
    for name, text in STAND_INS.items():
        path = folder / "stand_ins" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    tokens = np.random.default_rng(0).integers(0, 30_000, 1 << 20, dtype=np.uint16)
    for name in BINARIES:
        path = folder / "tree" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        tokens.tofile(path)
