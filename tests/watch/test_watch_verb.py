"""`syncwall watch` around real jobs: results stay the same, faults are named."""

import json
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from syncwall.cli import main
from tests.measure.ranks import free_port

pytest.importorskip("torch", reason="torch is not installed")
if not hasattr(os, "pidfd_open"):
    pytest.skip("processes are watched on Linux", allow_module_level=True)

JOB = Path(__file__).parent / "jobs" / "ddp_job.py"
TORCHRUN = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node", "2"]


def run(*words, **variables):
    return subprocess.run(
        words,
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
        env={**os.environ, **{name.upper(): str(value) for name, value in variables.items()}},
    )


def weights(text: str) -> str:
    found = re.search(r"weights (\S+)", text)
    assert found
    return found[1]


@pytest.mark.slow
def test_a_watched_job_computes_the_same_and_is_summed_up(tmp_path):
    plain = run(*TORCHRUN, JOB, steps=60)
    output = tmp_path / "watched.json"
    words = [sys.executable, "-m", "syncwall", "watch", "--json", output, "--", *TORCHRUN, JOB]
    watched = run(*words, steps=60, slurm_procid=3, slurm_ntasks=4)  # torchrun is none of its ranks
    assert watched.returncode == plain.returncode == 0
    assert weights(watched.stdout) == weights(plain.stdout)
    found = json.loads(output.read_text())
    assert (found["steps"], found["ranks"], found["world"]) == (59, 2, 2)
    assert sum(found["ledger_s"].values()) == pytest.approx(found["step_s"])
    assert found["groups_s"]["exposed communication"] > 0
    assert not found["notes"]


@pytest.mark.slow
def test_the_exit_code_is_the_commands_and_a_failed_rank_is_named(tmp_path):
    output = tmp_path / "watched.json"
    words = [sys.executable, "-m", "syncwall", "watch", "--json", output, "--", *TORCHRUN, JOB]
    watched = run(*words, steps=60, fault="exception")
    assert watched.returncode == 1
    found = json.loads(output.read_text())["findings"]
    assert (found[0]["kind"], found[0]["rank"]) == ("dead rank", 1)
    assert "dead rank 1" in watched.stderr


@pytest.mark.slow
def test_fsdp_is_told_apart(tmp_path):
    output = tmp_path / "watched.json"
    words = ["-m", "syncwall", "watch", "--json", output, "--", *TORCHRUN]
    watched = run(sys.executable, *words, JOB.with_name("fsdp_job.py"), steps=20)
    assert watched.returncode == 0, watched.stderr
    found = json.loads(output.read_text())
    assert {"exposed all-gather", "exposed reduce-scatter", "forward"} <= set(found["ledger_s"])
    assert found["groups_s"]["data wait"] > 0.01  # before its model, the loop sleeps
    assert not found["notes"]


@pytest.mark.slow
@pytest.mark.parametrize("job", ["trainer", "lightning"])
def test_frameworks_are_watched_as_they_are(tmp_path, job):
    needs = {"trainer": "transformers", "lightning": "lightning"}[job]
    pytest.importorskip(needs, reason=f"{needs} is not installed")
    output = tmp_path / "watched.json"
    script = JOB.with_name(f"{job}_job.py")
    words = ["-m", "syncwall", "watch", "--json", output, "--", sys.executable, script, tmp_path]
    watched = run(sys.executable, *words)
    assert watched.returncode == 0, watched.stderr
    found = json.loads(output.read_text())
    assert found["steps"] == {"trainer": 19, "lightning": 31}[job]
    assert {"compute", "data wait"} <= set(found["groups_s"])
    assert {"checkpoint", "evaluation"} <= set(found["beside_s"])
    assert found["ledger_s"]["forward"] > 0


def test_a_command_that_trains_nothing(capfd):
    assert main(["watch", "--", sys.executable, "-c", "raise SystemExit(3)"]) == 3
    assert "No training was seen" in capfd.readouterr().out


def test_wrong_calls(capsys):
    assert main(["watch"]) == 2
    assert main(["watch", "--", "no-such-command-anywhere"]) == 2
    assert main(["watch", "--expect", "no.yaml", "--", "true"]) == 2
    said = capsys.readouterr().err
    assert "name a command behind --" in said
    assert "no-such-command-anywhere cannot be started" in said


def test_a_sitecustomize_that_was_there_is_still_loaded(tmp_path, capfd):
    (tmp_path / "sitecustomize.py").write_text("import sys; sys.there = True")
    os.environ["PYTHONPATH"], before = (
        f"{tmp_path}{os.pathsep}{os.environ.get('PYTHONPATH', '')}",
        os.environ.get("PYTHONPATH"),
    )
    try:
        assert main(["watch", "--", sys.executable, "-c", "import sys; print(sys.there)"]) == 0
    finally:
        if before is None:
            del os.environ["PYTHONPATH"]
        else:
            os.environ["PYTHONPATH"] = before
    assert "True" in capfd.readouterr().out


@pytest.mark.slow
def test_agents_of_two_nodes_meet_by_the_secret_of_their_ranks(tmp_path):
    """One after the other started, nothing stated; a report can be heard and nothing is refused."""
    port, outputs = free_port(), [tmp_path / f"{node}.json" for node in range(2)]
    variables = {**os.environ, "STEPS": "200", "OMP_NUM_THREADS": "1"}
    jobs = []
    for node, output in enumerate(outputs):
        launcher = [sys.executable, "-m", "torch.distributed.run", "--nnodes", "2", "--node-rank", str(node)]
        launcher += ["--nproc-per-node", "1", "--master-addr", "127.0.0.1", "--master-port", str(port)]
        words = [sys.executable, "-m", "syncwall", "watch", "--json", str(output), "--", *launcher, str(JOB)]
        own = {**variables, "SYNCWALL_HOST": f"node-{node}", "FAULT": "exception", "FAULT_RANK": "1"}
        jobs.append(subprocess.Popen(words, env=own, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL))
    for one in jobs:
        assert one.wait(240) == 1
    found = json.loads(outputs[0].read_text())
    assert not found["notes"]
    assert ("dead rank", 1, "node-1") in [
        (one["kind"], one["rank"], one["node"]) for one in found["findings"]
    ]
