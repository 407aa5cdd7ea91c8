"""What a reader of a snapshot may say of a job: never that a dead one runs."""

import json
import os
import signal
import subprocess
import sys
import time
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from syncwall.show.watch import live_view
from syncwall.watch.events import Finding, FindingKind, Process
from syncwall.watch.job_state import JobState, Writer, job_name
from syncwall.watch.summary import SnapshotFile, read_snapshot
from tests.show.screens import screen
from tests.watch import lives

if not hasattr(os, "pidfd_open"):
    pytest.skip("processes are watched on Linux", allow_module_level=True)

JOB = Path(__file__).parent / "jobs" / "ddp_job.py"


def snapshot(*findings, silent_s=0.02, process=Process.RUNNING, **changes):
    """Of two ranks of this process, with steps of 0.1 s."""
    found = lives.recent().snapshot()
    assert found is not None
    ranks = tuple(
        replace(one, pid=os.getpid(), process=process, phase_since_s=found.now_s - silent_s)
        for one in found.ranks
    )
    fields: dict[str, Any] = {"ranks": ranks, "findings": findings, "writer": Writer.now()}
    return replace(found, **fields | changes)


def finding(kind, **fields):
    return Finding(kind, 1, "node-a", lives.NOW_S, "as measured", **fields)


def gone() -> int:
    ended = subprocess.Popen(["true"])
    ended.wait()
    return ended.pid


DRAGS = finding(FindingKind.STRAGGLER, cost_s=1.0)


@pytest.mark.parametrize(
    ("findings", "changes", "state"),
    [
        ([], {}, JobState.RUNNING),
        ([DRAGS], {}, JobState.SLOW),
        ([finding(FindingKind.LOSS_SPIKE)], {}, JobState.RUNNING),
        ([DRAGS, finding(FindingKind.HUNG)], {}, JobState.HUNG),
        ([], {"silent_s": 0.9}, JobState.RUNNING),
        ([], {"silent_s": 1.2}, JobState.SILENT),
        ([], {"silent_s": 1.2, "process": Process.FINISHED}, JobState.ENDED),
        ([], {"ranks": ()}, JobState.SILENT),
        ([], {"is_over": True}, JobState.ENDED),
        ([], {"writer": Writer()}, JobState.SILENT),
    ],
)
def test_states(findings, changes, state):
    assert snapshot(*findings, **changes).status().state is state


def test_three_steps_without_a_mark_are_silence_whatever_a_step_takes():
    ranks = tuple(replace(one, step_s=10.0) for one in snapshot(silent_s=29.0).ranks)
    assert snapshot(ranks=ranks).status().state is JobState.RUNNING
    late = tuple(replace(one, step_s=9.0) for one in ranks)
    found = snapshot(ranks=late).status()
    assert found.state is JobState.SILENT
    assert found.reason == 'rank 0 has made no mark in "backward" for 29.0 s, in which it makes 3 steps'


def test_an_agent_that_says_nothing_leaves_no_running_job():
    found = snapshot(writer=replace(Writer.now(), at_s=Writer.now().at_s - 75))
    status = found.status()
    assert (status.state, status.is_current, round(status.age_s or 0)) == (JobState.SILENT, False, 75)
    text = screen(live_view(found, status), 120)
    assert "says nothing, as if stopped; it was last seen in step 40, 75 s ago" in text
    assert "running" not in text
    assert "Nothing is wrong" not in text


def test_a_process_id_that_is_used_again_is_another_process():
    mine = Writer.now()
    assert not mine.is_gone
    assert replace(mine, started=mine.started - 1).is_gone


def test_an_agent_that_is_gone_leaves_a_job_that_ended_or_nobody_knows():
    of_the_dead = replace(Writer.now(), pid=gone())
    assert snapshot(writer=of_the_dead).status().state is JobState.SILENT, "its ranks live"
    ranks = tuple(replace(one, pid=gone()) for one in snapshot().ranks)
    assert snapshot(writer=of_the_dead, ranks=ranks).status().state is JobState.ENDED
    elsewhere = (ranks[0], replace(ranks[1], node="node-b"))
    assert snapshot(writer=of_the_dead, ranks=elsewhere).status().state is JobState.SILENT


def test_processes_of_another_namespace_are_not_looked_for():
    found = snapshot(writer=replace(Writer.now(), namespace="pid:[1]", pid=gone()))
    assert found.status().state is JobState.RUNNING


def test_a_clock_that_is_set_changes_nothing(tmp_path, monkeypatch):
    recent = lives.recent()
    SnapshotFile(recent, tmp_path).round(lives.live(4))
    monkeypatch.setattr(time, "time", lambda: lives.NOW_S + 86_400)
    assert (read_snapshot(tmp_path).status().age_s or 0.0) < 5


@pytest.mark.parametrize(
    ("words", "name"),
    [
        (["/usr/bin/python3", "-u", "/home/a/train.py", "--config", "x"], "train.py --config x"),
        (["python", "-X", "dev", "-m", "torchtitan.train", "--steps=3"], "torchtitan.train --steps=3"),
        (["python3.11", "-c", "import torch"], "python -c"),
        (
            ["./train", "--hf-token", "hf_x", "--api_key=y", "--lr", "1"],
            "train --hf-token *** --api_key=*** --lr 1",
        ),
        (["python", "a.py", "\x1b[31m" + "z" * 80], "a.py ?[31m" + "z" * 49 + "…"),
        ([], ""),
    ],
)
def test_a_job_is_called_by_its_command(words, name):
    assert job_name(words) == name


def attached(home: Path) -> Any:
    words = [sys.executable, "-m", "syncwall", "watch", "--attach", "--folder", str(home), "--json"]
    found = subprocess.run(words, capture_output=True, text=True, check=True, timeout=60)
    return json.loads(found.stdout)


@pytest.mark.slow
def test_a_job_that_is_killed_with_its_watcher_is_not_running_five_seconds_later(tmp_path):
    pytest.importorskip("torch", reason="torch is not installed")
    ranks = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node", "2", str(JOB)]
    watch = subprocess.Popen(
        [sys.executable, "-m", "syncwall", "watch", "--", *ranks],
        env={**os.environ, "STEPS": "100000", "COMPUTE_S": "0.02", "TMPDIR": str(tmp_path)},
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        start_new_session=True,
    )
    family: set[int] = set()
    try:
        home = _home_of(watch.pid)
        until = time.monotonic() + 60
        while (found := attached(home))["state"] != "running" or not found["step_s"]:
            assert time.monotonic() < until, found
            time.sleep(0.5)
        assert found["name"] == "ddp_job.py"
        family = _descendants(watch.pid)
        assert len(family) >= 4, "the agent, torchrun and two ranks"
    finally:
        for pid in (watch.pid, *family):
            os.kill(pid, signal.SIGKILL)
        watch.wait()
    killed_s = time.monotonic()
    while (found := attached(home))["state"] == "running":
        time.sleep(0.2)
        assert time.monotonic() - killed_s < 5
    assert time.monotonic() - killed_s < 5
    time.sleep(max(5 - (time.monotonic() - killed_s), 0))
    found = attached(home)
    assert found["state"] == "ended", found["reason"]
    assert "gone without a word, as after kill -9" in found["reason"]


def _home_of(watch: int) -> Path:
    """The folder that a `syncwall watch` has told its agent."""
    until = time.monotonic() + 60
    while time.monotonic() < until:
        for pid in _descendants(watch):
            words = Path(f"/proc/{pid}/cmdline").read_bytes().decode().split("\0")
            homes = [Path(one) for one in words if Path(one).name.startswith("syncwall-")]
            if "syncwall.watch.agent" in words and (homes[0] / "live.json").exists():
                return homes[0]
        time.sleep(0.1)
    raise AssertionError("there is no agent")


def _descendants(pid: int) -> set[int]:
    path = Path(f"/proc/{pid}/task/{pid}/children")
    own = {int(one) for one in path.read_text().split()} if path.exists() else set()
    return own | {each for one in own for each in _descendants(one)}
