"""`syncwall predict` with `--tokens`: the whole job."""

import json
from pathlib import Path
from typing import Any

import pytest

from syncwall.cli import main

RUN = [
    "predict",
    "--model",
    "llama-3.1-8b",
    "--cluster",
    "dgx-h100",
    "--nodes",
    "16",
    "--layout.shard",
    "fsdp",
    "--layout.global-batch",
    "512",
]
FILE = """\
run:
  model: llama-3.1-8b
  cluster: dgx-h100
  nodes: 16
  layout: {shard: fsdp, global_batch: 512}
tokens: 1T
start: 2026-12-01
price: $2.50/GPU-hour
spares: 1
simulations: 200
checkpoints: {interval: 30 min, storage: 20 GB/s}
failures: {like: llama3-h100, detection: 1 min}
"""


def record(capsys, *arguments: str) -> Any:
    assert main([*arguments, "--json"]) == 0
    return json.loads(capsys.readouterr().out)


def test_tokens_are_enough_and_the_page_fits_a_screen(capsys, monkeypatch):
    monkeypatch.setenv("COLUMNS", "110")
    assert main([*RUN, "--tokens", "1T", "--job.simulations", "200"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[0].startswith("Verdict   done in ")
    assert len(lines) <= 40
    page = "\n".join(lines)
    for word in ("P10", "P90", "useful", "cost", "energy", "Young", "Daly", "Next", "Assumed"):
        assert word in page


def test_the_record_has_the_step_and_the_job(capsys):
    found = record(capsys, *RUN, "--steps", "1000", "--job.simulations", "200")
    assert found["step_s"] > 0
    job = found["job"]
    assert job["steps"] == 1000
    assert sum(job["ledger_s"].values()) == pytest.approx(job["mean_s"])
    assert job["finish_s"] == sorted(job["finish_s"])
    assert all(i["trust"] for i in job["inputs"])


def test_without_a_length_there_is_no_job(capsys):
    assert record(capsys, *RUN)["job"] is None


def test_a_job_file_and_flags_over_it(capsys, tmp_path: Path):
    (tmp_path / "job.yaml").write_text(FILE)
    path = str(tmp_path / "job.yaml")
    from_file = record(capsys, "predict", path)["job"]
    assert from_file["checkpoint"]["interval_s"] == 1800
    assert from_file["finish_dates"][0].startswith("2026-12-")
    assert from_file["spare_nodes"] == 1
    flags = ["--steps", "500", "--nodes", "8", "--job.checkpoints.blocking", "false"]
    changed = record(capsys, "predict", path, *flags)
    assert changed["job"]["steps"] == 500
    assert changed["job"]["checkpoint"]["written_s"] > 0
    assert changed["run"]["nodes"] == 8


@pytest.mark.parametrize(
    ("flags", "said"),
    [
        (["--job.spares", "2"], "write --tokens 15T"),
        (["--tokens", "1T", "--job.failures.repair", "1 day"], "--job.failures.repair"),
        (["--tokens", "1T", "--steps", "5"], "either `tokens` or `steps`"),
        (["--tokens", "1T", "--job.failures.like", "lama3"], 'unknown failure "lama3"'),
        (["--tokens", "many"], "--tokens"),
        (["--tokens", "1T", "--job.when-short", "panic"], "--job.when-short"),
        (["--tokens", "1T", "--job.evaluation.every", "9"], "--job.evaluation.time"),
        (["--tokens", "0"], "0 is not a number of tokens"),
        (["--tokens", "1e18", "--job.failures.per-1000-node-days", "10"], "interruptions in the"),
        (["--tokens", "1T", "--job.checkpoints.interval", "0 s"], "--job.checkpoints.interval"),
    ],
)
def test_mistakes_are_named(flags, said, capsys):
    assert main([*RUN, *flags]) == 2
    assert said in capsys.readouterr().err


def test_mistakes_in_a_file_have_a_line(capsys, tmp_path: Path):
    (tmp_path / "job.yaml").write_text(FILE.replace("detection:", "detecton:"))
    assert main(["predict", str(tmp_path / "job.yaml")]) == 2
    assert 'job.yaml:12:31  unknown key "detecton"; did you mean "detection"?' in " ".join(
        capsys.readouterr().err.split("\n")
    )


def test_a_job_that_cannot_finish_is_still_an_answer(capsys):
    flags = ["--tokens", "1T", "--job.failures.per-1000-node-days", "200000"]
    assert main([*RUN, *flags]) == 0
    assert "does not finish" in capsys.readouterr().out


def test_a_million_gpus_are_answered(capsys):
    arguments = [
        "predict",
        "--model",
        "llama-3.1-405b",
        "--cluster",
        "dgx-h100",
        "--nodes",
        "131072",
        "--layout.tp",
        "8",
        "--layout.pp",
        "16",
        "--layout.global-batch",
        "65536",
        "--layout.shard",
        "fsdp",
        "--tokens",
        "1T",
    ]
    assert main(arguments) == 0
    assert capsys.readouterr().out.startswith("Verdict")


def test_phases_by_flag_as_in_a_file(capsys, tmp_path: Path):
    phases = "[{tokens: 10B, seq: 4096}, {name: long, steps: 100, seq: 32768, global_batch: 128}]"
    flags = ["--job.phases", phases, "--job.simulations", "200"]
    by_flag = record(capsys, *RUN, *flags)["job"]
    (tmp_path / "job.yaml").write_text(FILE.replace("tokens: 1T", f"phases: {phases}"))
    in_file = record(capsys, "predict", str(tmp_path / "job.yaml"))["job"]
    assert in_file["phases"] == by_flag["phases"]
    assert [one["phase"] for one in by_flag["phases"]] == ["1", "long"]
    alone = record(capsys, *RUN, "--seq", "4096")
    assert by_flag["phases"][0]["step_s"] == alone["step_s"]
    assert by_flag["phases"][0]["ledger_s"] == alone["ledger_s"]


def test_a_length_beside_phases_is_refused(capsys):
    assert main([*RUN, "--tokens", "1T", "--job.phases", "[{tokens: 10B}]"]) == 2
    assert "the phases say how long the job is" in capsys.readouterr().err
