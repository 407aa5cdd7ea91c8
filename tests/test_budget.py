"""What the package costs its readers and its users stays within `data/budget.yaml`.

`python -m tests.test_budget` prints what is measured now.
"""

import resource
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

import syncwall

ROOT = Path(syncwall.__file__).parent
BUDGET: dict[str, dict[str, Any]] = yaml.safe_load(
    (Path(__file__).parent / "data" / "budget.yaml").read_text()
)
GROWTH = 1.02
RUN = ["predict", "--model", "llama-3.1-8b", "--cluster", "dgx-h100", "--gpus", "64"]
LIBRARIES = "import numpy, pydantic, tyro, rich.console, yaml"
LOADED = (
    "import sys; from syncwall.cli import main; main(sys.argv[1:])\n"
    "print(sum(name.partition('.')[0] == 'syncwall' for name in sys.modules))"
)


def lines_of_src() -> int:
    return sum(len(path.read_text().splitlines()) for path in ROOT.rglob("*.py"))


def modules_of_predict() -> int:
    """Modules of ours that answering `RUN` imports."""
    shown = subprocess.run([sys.executable, "-c", LOADED, *RUN], capture_output=True, text=True, check=True)
    return int(shown.stdout.split()[-1])


def cpu_of_predict(pairs: int = 12) -> Iterator[float]:
    """CPU time of `RUN` over that of importing what it stands on: the least of more and more pairs.

    The first pair is left out: it writes bytecode.
    """
    commands = [["-m", "syncwall", *RUN], ["-c", LIBRARIES]]
    least = [float("inf"), float("inf")]
    for pair in range(pairs + 1):
        spent = [cpu_s([sys.executable, *words]) for words in commands]
        if pair:
            least = [min(best, now) for best, now in zip(least, spent, strict=True)]
            yield least[0] / least[1]


def cpu_s(command: list[str]) -> float:
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    subprocess.run(command, stdout=subprocess.DEVNULL, check=True)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


def most(name: str) -> float:
    return float(BUDGET[name]["most"]) * GROWTH


def test_lines_of_src():
    assert lines_of_src() <= most("lines_of_src")


def test_modules_that_predict_imports():
    assert modules_of_predict() <= most("modules_of_predict")


@pytest.mark.alone
def test_cpu_time_of_predict():
    ratios = []
    for ratio in cpu_of_predict():
        ratios.append(ratio)
        if len(ratios) > 2 and ratio <= most("cpu_of_predict"):
            return
    pytest.fail(f"predict takes {ratios[-1]:.2f} times its libraries, see data/budget.yaml")


def test_every_number_says_why_it_is_what_it_is():
    assert all(str(one["because"]).strip() for one in BUDGET.values())


if __name__ == "__main__":
    print("lines_of_src", lines_of_src())
    print("modules_of_predict", modules_of_predict())
    print("cpu_of_predict", f"{list(cpu_of_predict())[-1]:.2f}")
