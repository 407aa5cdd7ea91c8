"""`syncwall compare`: the same numbers as `predict`, from files and from flags."""

import json
from typing import Any

import pytest

from syncwall.cli import main

RUN = [
    "--model",
    "llama-3.1-70b",
    "--cluster",
    "dgx-b200",
    "--gpus",
    "576",
    "--tp",
    "8",
    "--global-batch",
    "1152",
]
JOB = ["--tokens", "10T", "--job.simulations", "200"]
A = """\
model: llama-3.1-8b
cluster: dgx-h100
nodes: 4
layout: {shard: fsdp, global_batch: 256, micro_batch: 1, recompute: none}
"""
B = A.replace("dgx-h100", "dgx-h200")
PROGRAM = "examples/capture/hybrid.work.json.gz"


def answer(capsys, *arguments: str, code: int = 0) -> Any:
    assert main([*arguments, "--json"]) == code
    return json.loads(capsys.readouterr().out)


@pytest.fixture
def files(tmp_path):
    for name, text in (("a.yaml", A), ("b.yaml", B)):
        (tmp_path / name).write_text(text)
    return [str(tmp_path / "a.yaml"), str(tmp_path / "b.yaml")]


def test_files_have_the_numbers_of_predict(files, capsys):
    found = answer(capsys, "compare", *files)
    for file, run in zip(files, found["runs"], strict=True):
        alone = answer(capsys, "predict", file)
        for key in ("step_s", "step_interval_s", "mfu", "memory_bytes", "ledger_s"):
            assert run[key] == alone[key]
    assert [run["name"] for run in found["runs"]] == ["A dgx-h100", "B dgx-h200"]


def test_flags_have_the_numbers_of_predict(capsys):
    against = "cluster=gb200-nvl72,tp=4,job.price=$8/GPU-hour"
    found = answer(capsys, "compare", *RUN, *JOB, "--against", against)
    flags = ["--cluster", "gb200-nvl72", "--tp", "4", "--job.price", "$8/GPU-hour"]
    for more, run in zip(([], flags), found["runs"], strict=True):
        alone = answer(capsys, "predict", *RUN, *JOB, *more)
        assert run["step_s"] == alone["step_s"]
        assert run["job"] == {key: alone["job"][key] for key in run["job"]}
    assert found["beside"][0]["ratios"]["cost_usd"]["after"] == found["runs"][1]["job"]["cost_usd"][1]


def test_flags_hold_for_all_files(files, capsys):
    found = answer(capsys, "compare", *files, "--tp", "2", "--against", "nodes=8", "gpus=16")
    assert [run["gpus"] for run in found["runs"]] == [32, 32, 64, 16]
    assert all("tp 2" in run["what"] for run in found["runs"])


def test_gpus_take_the_place_of_nodes_and_values_keep_their_commas(capsys):
    against = ["nodes=36", "gpus=144,recompute_modules=[core_attn, mlp],recompute=selective"]
    found = answer(capsys, "compare", *RUN, "--against", *against)
    assert [run["gpus"] for run in found["runs"]] == [576, 288, 144]


def test_a_screen_says_what_cannot_be_told_apart(files, capsys):
    assert main(["compare", files[0], files[0]]) == 0
    shown = capsys.readouterr().out
    assert "A and B are the same: nothing in their steps differs" in shown
    assert main(["compare", *RUN, "--against", "cluster=dgx-a100"]) in (0, 1)
    assert "sure; tuned: micro_batch" in " ".join(capsys.readouterr().out.split())


SIX = [
    *("--model", "llama-3.1-8b", "--cluster", "dgx-h100", "--gpus", "64", "--global-batch", "256"),
    *("--framework", "torchtitan", "--shard", "fsdp", "--against"),
    *("kernels=eager", "precision=fp8", "recompute=none", "bucket=100MiB", "tp=2,sp=true"),
]


def test_six_runs_are_six_rows_that_start_with_what_was_changed(capsys):
    assert main(["compare", *SIX]) == 0
    shown = capsys.readouterr().out.splitlines()
    assert len(shown) <= 40
    labels = [
        "A ",
        "B kernels eager ",
        "C precision fp8 ",
        "D recompute none ",
        "E bucket 100 MiB ",
        "F tp 2+sp ",
    ]
    for label in labels:
        assert sum(line.startswith(f"  {label}") for line in shown) == 1
    assert "the same" in next(line for line in shown if line.startswith("  E "))
    assert main(["compare", *SIX, "--details"]) == 0
    detailed = capsys.readouterr().out
    assert len(detailed.splitlines()) > 100
    for words in ("where the time goes", "80% interval", "Doubt"):
        assert words in detailed
        assert words not in "\n".join(shown)


def test_pages_have_the_details(tmp_path, capsys):
    page = tmp_path / "six.html"
    assert main(["compare", *SIX, "--html", str(page)]) == 0
    assert "where the time goes" in page.read_text()
    assert "where the time goes" not in capsys.readouterr().out


def test_every_cluster_gets_the_layout_of_the_search(capsys):
    asked = ["compare", "--model", "llama-3.1-70b", "--cluster", "dgx-h100", "--gpus", "64"]
    asked += ["--global-batch", "128", "--against", "cluster=dgx-b200", "tp=8"]
    plain, best = answer(capsys, *asked), answer(capsys, *asked, "--best-layout")
    for before, after in zip(plain["runs"], best["runs"], strict=True):
        assert after["step_s"] < before["step_s"]
    assert "tp 8" in best["runs"][2]["what"]  # what was stated stays
    planned = answer(capsys, "plan", "layouts", *asked[1:9])["best"][0]
    assert best["runs"][0]["step_s"] == pytest.approx(planned["step_s"], rel=0.05)
    assert main([*asked, "--best-layout"]) == 0
    assert "C: tp 8" in capsys.readouterr().out


def test_programs_have_no_best_layout(capsys):
    flags = ["--cluster", "dgx-h100", "--against", "cluster=dgx-b200", "--best-layout"]
    assert main(["compare", PROGRAM, *flags]) == 2
    assert "not for recorded programs" in capsys.readouterr().err


def test_a_missing_price_is_said(capsys):
    assert main(["compare", *RUN, "--against", "cluster=gb300-nvl72"]) == 0
    assert "B: no price is known" in capsys.readouterr().out


def test_recorded_programs(capsys):
    found = answer(capsys, "compare", PROGRAM, "--cluster", "dgx-h100", "--against", "cluster=dgx-b200")
    alone = answer(capsys, "predict", "--work", PROGRAM, "--cluster", "dgx-b200")
    assert found["runs"][1]["step_s"] == alone["step_s"]


def test_one_that_does_not_fit_is_said_by_the_exit_code(capsys):
    found = answer(capsys, "compare", *RUN, "--against", "cluster=dgx-h100,tp=1,shard=ddp", code=1)
    assert not found["runs"][1]["fits"]


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (RUN, "write two runs: compare A.yaml B.yaml"),
        ([*RUN, "--against", "dgx-h100"], '"dgx-h100" is not KEY=VALUE'),
        ([*RUN, "--against", "clutser=dgx-h100"], 'unknown key "clutser"; did you mean "cluster"?'),
        ([*RUN, "--against", "cluster=dgx-h1000"], "dgx-h1000"),
        ([PROGRAM, PROGRAM, "--cluster", "dgx-h100", "--tokens", "1T"], "compared as it is"),
        ([PROGRAM, PROGRAM], "write --cluster NAME"),
    ],
)
def test_wrong_calls_are_refused(arguments, said, capsys):
    assert main(["compare", *arguments]) == 2
    assert said in capsys.readouterr().err


def test_known_runs_of_one_machine_say_nothing_of_another(files, tmp_path, capsys):
    known = tmp_path / "known.yaml"
    known.write_text(A + "measured: 9000tok/s/gpu\n")
    assert main(["compare", *files, "--known-run", str(known)]) == 2
    assert "of one machine, and these runs are on several" in capsys.readouterr().err
    found = answer(capsys, "compare", files[0], "--known-run", str(known), "--against", "tp=2")
    alone = answer(capsys, "predict", files[0], "--known-run", str(known), "--tp", "2")
    assert found["runs"][1]["step_s"] == alone["step_s"]


def test_keys_of_parts_of_a_job_can_differ(capsys):
    against = "job.checkpoints.blocking=false,job.failures.detection=30s"
    found = answer(capsys, "compare", *RUN, *JOB, "--against", against)
    alone = answer(
        capsys,
        "predict",
        *RUN,
        *JOB,
        "--job.checkpoints.blocking",
        "false",
        "--job.failures.detection",
        "30s",
    )
    assert found["runs"][1]["job"]["finish_s"] == alone["job"]["finish_s"]
    assert found["runs"][0]["job"]["finish_s"] != alone["job"]["finish_s"]
