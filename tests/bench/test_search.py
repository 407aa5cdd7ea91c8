"""The whole space of a large model is searched within a minute of one core."""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]


@pytest.mark.slow
def test_the_space_of_gpt3_on_1024_gpus_takes_a_minute_at_most():
    """In no more than twice the time of pricing the same arrays alone, and at most 4 GiB."""
    environment = {**os.environ, "OMP_NUM_THREADS": "1", "PYTHONPATH": str(ROOT)}
    done = subprocess.run(
        [sys.executable, "-m", "bench", "scale", "search", "--exhaustive", "100"],
        cwd=ROOT,
        env=environment,
        capture_output=True,
        text=True,
        check=True,
    ).stdout
    assert _number(r"layouts +([\d,]+)", done) >= 3_000_000
    assert _number(r"\(([\d.]+) s of one core", done) <= 60.0
    assert _number(r"the first after ([\d.]+) s", done) <= 3.0
    assert _number(r"the same arrays: ([\d.]+) times", done) <= 2.0
    assert _number(r"memory +([\d.]+) GiB", done) <= 4.0
    assert _number(r"largest difference ([\d.e+-]+)", done) < 1e-9


def _number(pattern: str, text: str) -> float:
    found = re.search(pattern, text)
    assert found, text
    return float(found[1].replace(",", ""))
