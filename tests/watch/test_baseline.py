"""A run beside an earlier one: slower, within, or nothing that can be said."""

import json
import os
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from syncwall.cli import main
from syncwall.problems import InputError
from syncwall.records import json_data
from syncwall.show.records.watch import WatchedRun
from syncwall.watch.baseline import Baseline, Outcome, compared, read_baseline, usual_step
from syncwall.watch.events import Finding, FindingKind, Group
from syncwall.watch.speed import JobWindow
from tests.show.test_watch_view import SUMMARY

JOB = Path(__file__).parent / "jobs" / "ddp_job.py"
STOP = Finding(FindingKind.STOPPED, 1, "node-a", 1e9, "process 7 is stopped")


def windows(*steps_s, data_s=0.01):
    """The first window warms up; what is not computation waits for data."""
    return [
        JobWindow(
            25 * at, step_s, dict.fromkeys(Group, 0.0) | {Group.COMPUTE: step_s, Group.DATA: data_s}, 1.0
        )
        for at, step_s in enumerate((9.0, *steps_s))
    ]


STEADY = usual_step(windows(0.1, 0.1, 0.101, 0.1))
BEFORE = Baseline("before.json", 2, STEADY, "")


def beside(*steps_s, world=2, findings=(), before=BEFORE, limit=0.05, data_s=0.01):
    return compared(usual_step(windows(*steps_s, data_s=data_s)), world, findings, before, limit)


def test_a_usual_step_leaves_warm_up_and_hiccups_out():
    found = usual_step(windows(0.1, 0.1, 0.5, 0.1, 0.1))
    assert found is not None
    assert (found.step_s, found.windows) == (0.1, 5)
    assert found.error_s > 0.05, "the hiccup makes it less sure"
    assert usual_step(windows(0.1, 0.1)) is None


def test_slower_names_the_line_that_grew():
    found = beside(0.12, 0.12, 0.121, 0.12)
    assert (found.outcome, found.group) == (Outcome.SLOWER, Group.COMPUTE)
    assert found.reason == (
        "a step takes 120 ms instead of 100 ms: +20.0%, more than 5.0%; compute grew by 20 ms"
    )
    found = beside(0.12, 0.12, 0.121, 0.12, data_s=0.05)
    assert found.group is Group.DATA


def test_within_says_by_how_much():
    found = beside(0.103, 0.103, 0.103)
    assert (found.outcome, found.outcome.exit_code) == (Outcome.WITHIN, 0)
    assert found.reason == "a step takes 103 ms instead of 100 ms: +3.0%, at most 5.0% is allowed"
    assert beside(0.103, 0.103, 0.103, limit=0.02).outcome is Outcome.SLOWER
    assert beside(0.05, 0.05, 0.05).outcome is Outcome.WITHIN, "faster"


@pytest.mark.parametrize(
    ("changes", "why"),
    [
        ({"world": 4}, "the baseline has 2 ranks, this run 4"),
        ({"findings": (STOP,)}, "this run was stopped: stopped rank: process 7"),
        ({"before": replace(BEFORE, stopped_by="dead rank: x")}, "the baseline was stopped: dead rank: x"),
        ({"before": replace(BEFORE, usual=None)}, "or an older syncwall wrote it"),
    ],
)
def test_what_is_not_alike_is_not_compared(changes, why):
    found = beside(0.1, 0.1, 0.1, **changes)
    assert (found.outcome, found.outcome.exit_code) == (Outcome.NOT_COMPARABLE, 3)
    assert why in found.reason
    assert found.share is None


def test_too_few_steps_and_too_much_noise_say_nothing():
    assert "this run has fewer than 4 windows of 25 steps" in beside(0.1, 0.1).reason
    found = beside(0.1, 0.13, 0.08, 0.11)
    assert found.outcome is Outcome.NOT_COMPARABLE
    assert "too noisy to tell 5.0%" in found.reason


def written(path: Path, **changes) -> Path:
    data = json_data("watch", WatchedRun(replace(SUMMARY, world=2, usual=STEADY), ("a",), 0))
    path.write_text(json.dumps(data | changes))
    return path


def test_a_baseline_comes_back_from_its_file(tmp_path):
    found = read_baseline(written(tmp_path / "before.json"))
    assert found == BEFORE
    old = read_baseline(written(tmp_path / "old.json", usual=None))
    assert old.usual is None


def test_other_files_are_refused_before_anything_runs(tmp_path, capsys):
    other = tmp_path / "other.json"
    other.write_text("{}")
    with pytest.raises(InputError, match=r"write it with syncwall watch --json other\.json"):
        read_baseline(other)
    with pytest.raises(InputError, match="step_s is not what syncwall watch writes"):
        read_baseline(written(tmp_path / "a.json", usual={"step_s": "fast"}))
    assert main(["watch", "--baseline", str(other), "--", "touch", str(tmp_path / "ran")]) == 2
    assert main(["watch", "--baseline", str(tmp_path / "none"), "--", "true"]) == 2
    assert main(["watch", "--fail-above", "5%", "--", "true"]) == 2
    assert "--fail-above is about --baseline FILE" in capsys.readouterr().err
    assert not (tmp_path / "ran").exists()


def test_a_run_without_training_is_not_comparable_and_a_failure_goes_before(tmp_path):
    before = str(written(tmp_path / "before.json"))
    ends = [sys.executable, "-c", "raise SystemExit({})"]
    assert main(["watch", "--baseline", before, "--", *ends[:2], ends[2].format(0)]) == 3
    assert main(["watch", "--baseline", before, "--", *ends[:2], ends[2].format(7)]) == 7


@pytest.mark.slow
def test_real_runs_beside_each_other(tmp_path):
    """One rank of 10 ms steps: alike within half, and with 30 ms more of sleep in each."""
    pytest.importorskip("torch", reason="torch is not installed")

    def watched(name: str, *words: str, **variables: str) -> tuple[int, dict[str, Any]]:
        job = ["--", sys.executable, "-m", "torch.distributed.run", "--standalone", str(JOB)]
        words = ("-m", "syncwall", "watch", "--json", str(tmp_path / name), *words, *job)
        shared = {"STEPS": "151", "COMPUTE_S": "0.01", "FAULT_RANK": "all", "FAULT_STEP": "0"}
        env = {**os.environ, **shared, **variables}
        done = subprocess.run([sys.executable, *words], env=env, timeout=120, check=False)
        return done.returncode, json.loads((tmp_path / name).read_text())

    before = ("--baseline", str(tmp_path / "before.json"))
    assert watched("before.json")[0] == 0
    code, found = watched("same.json", *before, "--fail-above", "50%")
    assert (code, found["compared"]["outcome"]) == (0, "within"), found["compared"]
    code, found = watched("slow.json", *before, "--fail-above", "50%", FAULT="slow", FAULT_S="3")
    assert (code, found["compared"]["outcome"]) == (1, "slower"), found["compared"]
    assert found["compared"]["group"] in ("compute", "idle"), "it sleeps between data and forward"
