"""`scripts/gate.sh` and the action on real commits of a small repository of a training program."""

import json
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest
import yaml

pytest.importorskip("torch", reason="torch is not installed")

import syncwall

ROOT = Path(__file__).parents[2]
TRAIN = """\
import os

import torch
from torch.distributed import init_process_group
from torch.nn.parallel import DistributedDataParallel

init_process_group("nccl")
torch.cuda.set_device(int(os.environ["LOCAL_RANK"]))
layers = [layer for _ in range(8) for layer in (torch.nn.Linear(4096, 4096), torch.nn.GELU())]
model = DistributedDataParallel(torch.nn.Sequential(*layers).cuda())
optimizer = torch.optim.AdamW(model.parameters(), fused=True)
for step in range(100):
    batch = torch.randn(8192, 4096, device="cuda")
    with torch.autocast("cuda", dtype=torch.bfloat16):
        loss = model(batch).square().mean()
    loss.backward()
    optimizer.step()
    optimizer.zero_grad()
"""
COMMENT = TRAIN.replace("for step in", "# a comment\n\nfor step in").replace("step in", "number in")
SLIP = COMMENT.replace("dtype=torch.bfloat16", "enabled=False")
BROKEN = TRAIN.replace("import os\n", "import missing_package\n")


@pytest.fixture(scope="module")
def repository(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Commits main~3 to main: the program, a comment, a slip of precision, one that cannot start."""
    folder = tmp_path_factory.mktemp("training")
    named = ["-c", "user.name=a", "-c", "user.email=a@example.org", "-c", "commit.gpgsign=false"]
    git(folder, "init", "--quiet", "--initial-branch", "main")
    for text in (TRAIN, COMMENT, SLIP, BROKEN):
        (folder / "train.py").write_text(text)
        git(folder, "add", "train.py")
        git(folder, *named, "commit", "--quiet", "-m", "a commit")
    return folder


def git(folder: Path, *words: str) -> str:
    done = subprocess.run(["git", *words], cwd=folder, check=True, capture_output=True, text=True)
    return done.stdout


def action() -> dict[str, str]:
    """The environment and the command of the step that judges, with the defaults of the inputs."""
    whole = yaml.safe_load((ROOT / "action.yml").read_text())
    step = next(one for one in whole["runs"]["steps"] if one.get("id") == "gate")
    known = {f"inputs.{name}": str(one.get("default", "")) for name, one in whole["inputs"].items()}
    known |= {"github.action_path": str(ROOT), "runner.temp": "temporary"}
    used = set()

    def value(match: re.Match[str]) -> str:
        used.add(match[1])
        return known[match[1]]

    found = {key: re.sub(r"\$\{\{ ([\w.-]+) \}\}", value, text) for key, text in step["env"].items()}
    assert used == known.keys(), "every input has to reach the script"
    return {**found, "run": step["run"]}


def judged(repository: Path, tmp_path: Path, base: str, head: str, **given: str) -> tuple[int, str]:
    """What the step of the action ends with, and its text for a comment."""
    asked = (
        action() | {"SCRIPT": "train.py", "BASE": base, "HEAD": head, "OUT": str(tmp_path / "out")} | given
    )
    asked |= {"GITHUB_OUTPUT": str(tmp_path / "output"), "GITHUB_STEP_SUMMARY": str(tmp_path / "summary")}
    paths = os.pathsep.join(
        filter(None, (str(Path(syncwall.__file__).parents[1]), os.environ.get("PYTHONPATH")))
    )
    done = subprocess.run(
        ["bash", "-eo", "pipefail", "-c", asked.pop("run")],
        cwd=repository,
        env=os.environ | asked | {"PYTHON": sys.executable, "PYTHONPATH": paths},
        capture_output=True,
        text=True,
        check=False,
    )
    assert git(repository, "worktree", "list").count("\n") == 1, done.stderr
    assert (tmp_path / "output").read_text() == f"markdown={tmp_path / 'out'}/gate.md\n"
    text = (tmp_path / "out" / "gate.md").read_text()
    assert (tmp_path / "summary").read_text() == text
    return done.returncode, text


@pytest.mark.slow
def test_a_slip_of_precision_fails_and_the_comment_says_where(repository, tmp_path):
    code, text = judged(repository, tmp_path, "main~2", "main~1")
    assert code == 1
    assert "fp32 instead of bf16" in text
    assert "train.py:17" in text
    for gpus in ("8", "1,024"):
        assert f"| {gpus} | step |" in text
    data = json.loads((tmp_path / "out" / "gate.json").read_text())
    assert data["outcome"] == "above"
    kinds = [one["kind"] for one in data["calls"][:3]]
    assert "precision" in kinds


@pytest.mark.slow
def test_a_comment_and_a_renamed_variable_are_silent_to_the_last_digit(repository, tmp_path):
    code, text = judged(repository, tmp_path, "main~3", "main~2", PREPARE="echo 1 > data.txt")
    assert (code, "nothing differs" in text.lower()) == (0, True)
    data = json.loads((tmp_path / "out" / "gate.json").read_text())
    assert {one["share"] for one in data["growths"]} == {0.0}


@pytest.mark.parametrize(("base", "head", "code"), [("main~1", "main", 2), ("nowhere", "main", 2)])
def test_a_head_that_cannot_start_is_bad_input(repository, tmp_path, base, head, code):
    found, text = judged(repository, tmp_path, base, head)
    assert (found, "cannot be recorded" in text) == (code, True)


@pytest.mark.slow
def test_a_base_that_cannot_start_is_not_judged(repository, tmp_path):
    code, text = judged(repository, tmp_path, "main", "main~3")
    assert (code, "nothing to compare with" in text) == (3, True)
