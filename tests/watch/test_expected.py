"""What a live run is compared with is what `syncwall predict` says for the same words."""

import json
import shlex
from pathlib import Path

import pytest

from syncwall.cause import Cause
from syncwall.cli import main
from syncwall.problems import InputError
from syncwall.watch import attach
from syncwall.watch.events import NodeReport, Process, RankState, grouped
from syncwall.watch.expected import expectation, expected, leave_expectation, left
from syncwall.watch.findings import Findings
from syncwall.watch.judges import THRESHOLDS

PROGRAM = Path(__file__).parents[2] / "examples" / "capture" / "hybrid.work.json.gz"
RUN = "model: llama-3.1-8b\ncluster: dgx-h100\nnodes: 1\nlayout: {shard: fsdp, global_batch: 64}\n"
GEMM = "gemm: [{m: 8192, n: 8192, k: 8192, dtype: bf16, rate: 0.7 PFLOP/s}]\n"
ANCHORED = "--known-run known.yaml --calibration gemm.yaml"
MEASURED = "measured: {step: 4.0 s}\n"


@pytest.fixture
def files(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    Path("run.yaml").write_text(RUN)
    Path("known.yaml").write_text(RUN + MEASURED)
    Path("gemm.yaml").write_text(GEMM)
    return tmp_path


@pytest.mark.parametrize(
    ("words", "predict"),
    [
        ("run.yaml", "run.yaml"),
        ("known.yaml", "run.yaml --known-run known.yaml"),
        (f"run.yaml {ANCHORED}", f"run.yaml {ANCHORED}"),
        (f"{PROGRAM} --cluster dgx-h100", f"--work {PROGRAM} --cluster dgx-h100"),
    ],
)
def test_it_is_what_predict_says(files, capsys, words, predict):
    found = expectation(words)
    main(["predict", *shlex.split(predict), "--json"])
    said = json.loads(capsys.readouterr().out)
    assert found.step_s == pytest.approx(said["step_s"], rel=1e-9)
    assert [found.low_s, found.high_s] == pytest.approx(said["step_interval_s"], rel=1e-9)
    assert sum(found.seconds.values()) == pytest.approx(found.step_s, rel=1e-9)


def test_an_earlier_run_is_expected_again(files):
    ledger = {"forward": 0.06, "backward": 0.1, "exposed DP": 0.04, "checkpoint": 0.5}
    seen = {"verb": "watch", "step_s": 0.7, "ledger_s": ledger, "findings": ["x" * 300_000]}
    Path("before.json").write_text(json.dumps(seen))
    found = expectation("before.json")
    assert found.step_s == pytest.approx(0.2)
    assert Cause.CHECKPOINT not in found.seconds
    assert found.high_s / found.step_s == pytest.approx(found.step_s / found.low_s)
    assert 1.05 < found.high_s / found.step_s < 1.2
    assert grouped(found.seconds) == pytest.approx({"compute": 0.16, "exposed communication": 0.04})
    Path("before.json").write_text(json.dumps(seen | {"ledger_s": {"forward": "long"}}))
    with pytest.raises(InputError, match="damaged"):
        expectation("before.json")


@pytest.mark.parametrize(
    ("words", "said"),
    [
        ("no.yaml", "no.yaml: cannot be read"),
        ("run.yaml --tp 8", "unrecognized arguments: --tp 8"),
        ("run.yaml --cluster dgx-h100", "--cluster is for a recorded program"),
        (f"{PROGRAM}", "name the machine"),
        (f"{PROGRAM} --cluster dgx-h10", 'did you mean "dgx-h100"'),
        (f"{PROGRAM} --cluster dgx-h100 --known-run known.yaml", "for a run file"),
        ("run.yaml 'known.yaml", "No closing quotation"),
    ],
)
def test_wrong_words_are_refused_before_the_job_and_noted_by_an_agent(files, capsys, words, said):
    assert main(["watch", "--expect", words, "--", "false"]) == 2
    assert said in capsys.readouterr().err
    found, note = expected(words)
    assert found is None
    assert said in note


def test_words_find_their_files_from_elsewhere(files, monkeypatch):
    Path("my run.yaml").write_text(RUN)
    leave_expectation(files, "my run.yaml")
    monkeypatch.chdir("/")
    assert expectation(left(files) or "").step_s > 0
    monkeypatch.chdir(files)
    leave_expectation(files, "run.yaml --known-run known.yaml")
    assert left(files) == f"{files}/run.yaml --known-run {files}/known.yaml"


def test_a_variable_says_it_where_the_script_does_not(files, monkeypatch):
    pytest.importorskip("torch", reason="torch is not installed")
    monkeypatch.setenv("SYNCWALL_WATCH_FOLDER", str(files / "rings"))
    monkeypatch.setenv("SYNCWALL_WATCH_AGENT", "0")
    monkeypatch.setenv("SYNCWALL_WATCH_EXPECT", "run.yaml")
    monkeypatch.setenv("RANK", "0")
    attach.start()
    assert left(files / "rings") == str(files / "run.yaml")
    attach.start("known.yaml")  # in a script that was watched already
    assert left(files / "rings") == str(files / "known.yaml")
    attach.stop()


def test_a_job_of_another_size_is_not_compared(files):
    leave_expectation(files, "run.yaml")  # eight GPUs
    for world, is_compared in ((8, True), (2, False)):
        judged = Findings(files, THRESHOLDS)
        judged.round((NodeReport("", 0, 1, 0.0, ()),), {"": 0.0}, 0.0)  # nobody is there yet
        ranks = (RankState(0, "a", 1, Process.RUNNING, "starting", 0.0, 0),)
        report = NodeReport("a", 0, 2, 0.0, ranks, world=world)
        for _ in range(2):
            judged.round((report,), {"a": 0.0}, 0.0)
        assert (judged.expected is not None) == is_compared
        assert len(judged.notes) == (not is_compared)
