"""Loops of frameworks on two Gloo processes, watched for real: faults are named, losses are equal."""

import os
import signal
import sys
import time
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("torch", reason="torch is not installed")
if not hasattr(os, "pidfd_open"):
    pytest.skip("processes are watched on Linux", allow_module_level=True)

from syncwall.watch.job_state import JobState
from syncwall.watch.summary import read_snapshot
from tests.watch.watched_job import JOBS, WatchedJob

TORCHTITAN = Path(sys.prefix) / "torchtitan-0.2.2"
"""Where .ci/run puts the last release that reads job files."""
ALIKE = 180
"""Steps before the loss is made to jump: until then faults take time and change nothing."""
NEEDS = {
    "plain": "torch",
    "accelerate": "accelerate",
    "trainer": "transformers",
    "lightning": "lightning",
    "torchtitan": "tensorboard",
}
WEEKLY = ("accelerate", "lightning")
IN_CI = tuple(one for one in NEEDS if one not in WEEKLY)


def losses(path: Path) -> list[float]:
    lines = path.read_text().splitlines(keepends=True)[:ALIKE]
    return [float.fromhex(line) for line in lines if line.endswith("\n")]


@pytest.mark.slow
@pytest.mark.parametrize(
    "framework", [*IN_CI, *(pytest.param(one, marks=pytest.mark.weekly) for one in WEEKLY)]
)
def test_faults_are_named_and_losses_are_equal_bit_for_bit(framework, tmp_path):
    pytest.importorskip(NEEDS[framework], reason=f"{NEEDS[framework]} is not installed")
    if framework == "torchtitan" and not TORCHTITAN.is_dir():
        pytest.skip(f"there is no {TORCHTITAN}")
    script = JOBS / ("torchtitan_job.py" if framework == "torchtitan" else "framework_job.py")
    shared: dict[str, Any] = {"framework": framework, "torchtitan": TORCHTITAN, "steps": 4000}
    alone, watched = tmp_path / "alone", tmp_path / "watched"
    with WatchedJob(2, script, agent=False, losses=alone, syncwall_watch="0", **shared) as job:
        until = time.monotonic() + 240
        while not alone.exists() or len(losses(alone)) < ALIKE:
            assert time.monotonic() < until
            time.sleep(0.2)
        assert not list(job.home.iterdir()), "nobody watches it"
        for one in job.processes:
            one.kill()
        job.outputs()
    with WatchedJob(2, script, losses=watched, faults="all", **shared) as job:
        _named(job, "straggler", 240, rank=1)
        assert _comes(job, JobState.SLOW)
        assert read_snapshot(job.home).name == script.name
        stall = _named(job, None, 60, rank=1, says="data")
        assert stall["since_step"] == pytest.approx(160, abs=3)
        spike = _named(job, "loss spike", 60)
        assert spike["since_step"] == pytest.approx(ALIKE, abs=3)
        slow = job.processes[1]
        slow.send_signal(signal.SIGSTOP)
        _named(job, "stopped rank", 10, rank=1)
        slow.send_signal(signal.SIGCONT)
        time.sleep(1.0)
        slow.kill()
        _named(job, "dead rank", 10, rank=1, says="SIGKILL")
        job.outputs(60)
        assert job.summary()["findings"]
        assert read_snapshot(job.home).status().state is JobState.ENDED
    assert losses(alone) == losses(watched)


def _comes(job: WatchedJob, state: JobState) -> bool:
    """True once a reader of this moment is told of a state, while the finding is new."""
    until = time.monotonic() + 3
    while (found := read_snapshot(job.home).status().state) is not state and time.monotonic() < until:
        time.sleep(0.05)
    return found is state


def _named(job: WatchedJob, kind: str | None, limit_s: float, *, says: str = "", **fields: Any) -> Any:
    """The first finding of a kind with these fields, and its evidence with these words."""
    until = time.monotonic() + limit_s
    while time.monotonic() < until:
        for one in job.events("finding"):
            alike = all(one.get(name) == value for name, value in fields.items())
            if alike and one["kind"] == (kind or one["kind"]) and says in one["evidence"]:
                return one
        time.sleep(0.1)
    raise AssertionError(f"no {kind or says} in {limit_s} s: {job.events('finding')}")
