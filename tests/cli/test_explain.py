"""`syncwall explain` as a user meets it."""

import gzip
import io
import json
from dataclasses import replace
from pathlib import Path

import pytest

from syncwall.cause import Cause
from syncwall.cli import main
from syncwall.explain.answer import explain
from syncwall.show.explanation import next_lines
from syncwall.timeline.ledger import Ledger

EXAMPLES = "examples/explain"


def test_the_slow_rank_is_named_and_not_the_one_that_waits(capsys):
    assert main(["explain", f"{EXAMPLES}/traces", "--workers", "1"]) == 1
    page = capsys.readouterr().out
    assert page.startswith("Verdict   slow worker: rank 1")
    assert "100% of the waiting is explained" in page
    assert len(page.splitlines()) < 40


def test_without_files_it_says_what_to_write(capsys):
    assert main(["explain"]) == 2
    assert "syncwall explain traces/" in capsys.readouterr().err


def test_a_rank_alone_has_what_helps_against_its_largest_wait():
    trace = explain([Path(f"{EXAMPLES}/traces/rank0.json")])
    assert trace.traces is not None
    waits = Ledger({Cause.GEMM: 1.0, Cause.IDLE_HOST: 3.0})
    host_bound = replace(trace.traces, ledger=replace(trace.traces.ledger, ledger=waits))
    assert "torch.compile" in next(next_lines(replace(trace, traces=host_bound)))


def test_the_pages_hold_what_the_terminal_shows(tmp_path, capsys):
    html, markdown = tmp_path / "page.html", tmp_path / "page.md"
    arguments = [f"{EXAMPLES}/traces", "--html", str(html), "--markdown", str(markdown)]
    assert main(["explain", *arguments, "--workers", "1"]) == 1
    assert "slow worker: rank 1" in capsys.readouterr().out
    assert "slow worker: rank 1" in html.read_text()
    assert markdown.read_text().startswith("# 2 profiler traces")


def test_json_has_a_ledger_that_adds_up(capsys):
    assert main(["explain", f"{EXAMPLES}/traces", "--workers", "1", "--json"]) == 1
    found = json.loads(capsys.readouterr().out)
    assert found["ranks"]["ranks"] == [1]
    assert sum(found["ledger_s"].values()) == pytest.approx(found["step_s"])
    assert found["files"] == {"profiler trace": 2}


def test_two_traces_stand_side_by_side(capsys):
    first, second = (f"{EXAMPLES}/traces/rank{n}.json" for n in (0, 1))
    assert main(["explain", second, "--against", first, "--json"]) == 3  # of another rank
    found = json.loads(capsys.readouterr().out)
    gemm = next(gap for gap in found["gap"] if gap["cause"] == "GEMM")
    assert gemm["second_s"] == pytest.approx(1.25 * gemm["first_s"], rel=1e-3)


def test_a_prediction_of_another_job_is_said_to_be_one(capsys):
    run = "examples/llama-70b-on-dgx-h100.yaml"
    assert main(["explain", f"{EXAMPLES}/traces/rank0.json", "--run", run]) == 3
    page = capsys.readouterr().out
    assert "predicted  measured" in page
    assert "not the same job" in page


def test_logs_and_topologies_give_findings(capsys):
    assert main(["explain", f"{EXAMPLES}/nccl.log", f"{EXAMPLES}/topo.txt", "--json"]) == 1
    found = json.loads(capsys.readouterr().out)
    said = " ".join(finding["what"] for finding in found["findings"])
    assert "NCCL_IB_DISABLE=1" in said
    assert "GPU2, GPU3: nearest adapter at SYS" in said


def test_a_packed_copy_says_the_same(capsys, tmp_path):
    packed = tmp_path / "trace.json.gz"
    packed.write_bytes(gzip.compress(Path(f"{EXAMPLES}/traces/rank0.json").read_bytes()))
    main(["explain", f"{EXAMPLES}/traces/rank0.json", "--json"])
    first = json.loads(capsys.readouterr().out)
    main(["explain", str(packed), "--json"])
    assert json.loads(capsys.readouterr().out)["ledger_s"] == first["ledger_s"]


@pytest.mark.parametrize(
    ("text", "said"),
    [("nothing to see", "is not a known kind of file"), ("", "is not a known kind of file")],
)
def test_unknown_files_are_refused(capsys, tmp_path, text, said):
    path = tmp_path / "file.txt"
    path.write_text(text)
    assert main(["explain", str(path)]) == 2
    assert said in capsys.readouterr().err


def test_missing_files_and_empty_directories_are_named(capsys, tmp_path):
    assert main(["explain", str(tmp_path)]) == 2
    assert "is an empty directory" in capsys.readouterr().err
    assert main(["explain", str(tmp_path / "no.json")]) == 2
    assert "no.json" in capsys.readouterr().err


def test_what_is_pasted_on_standard_input_is_explained(monkeypatch, capsys):
    raw = Path("examples/failures/hang.log").read_bytes()
    monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO(raw)))
    assert main(["explain", "-"]) == 1
    page = " ".join(capsys.readouterr().out.split())
    assert page.startswith("Verdict hang: ALLREDUCE number 469508 timed out")
    assert "ranks 0, 4, 5 did not report" in page


@pytest.mark.parametrize("text", [b"nothing to see", b"NCCL INFO", b""])
def test_a_pasted_text_that_says_nothing_is_not_judged(monkeypatch, capsys, text):
    monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO(text)))
    assert main(["explain", "-"]) == 3
    said = " ".join(capsys.readouterr().out.split())
    assert said.startswith("Verdict not judged: the text")
    assert "Xid and dmesg" in said
    assert "Next give the log from its first error on" in said


def test_what_is_pasted_and_no_text_is_refused(monkeypatch, capsys):
    monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO(b"\0\1\2")))
    assert main(["explain", "-"]) == 2
    assert capsys.readouterr().err.startswith("-: is not a known kind of file")
