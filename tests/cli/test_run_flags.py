"""The flags with which every verb takes a run mean the same in all of them."""

import json
from typing import Any

import pytest

from syncwall.cli import main

BASE = ["--model", "llama-3.1-8b", "--cluster", "dgx-h100", "--seq", "4096"]
LONG = ["--layout.tp", "2", "--layout.shard", "zero1", "--layout.global-batch", "64"]
SHORT = ["--tp", "2", "--shard", "zero1", "--global-batch", "64"]
PLANS = [
    ["predict"],
    ["plan", "wall", "--most", "64"],
    ["plan", "network"],
    ["plan", "fabric"],
]
TRIAL = [
    "plan",
    "network",
    "--model",
    "llama-3.1-70b",
    "--cluster",
    "dgx-b200",
    "--layout.tp",
    "8",
    "--layout.shard",
    "fsdp",
    "--layout.global-batch",
    "2048",
]


def asked(capsys: Any, *arguments: Any, code: int = 0) -> Any:
    """The JSON that a verb prints."""
    assert main([*map(str, arguments), "--json"]) == code
    return json.loads(capsys.readouterr().out)


@pytest.mark.parametrize("verb", PLANS, ids=lambda verb: verb[-1] if len(verb) < 3 else verb[1])
def test_short_and_long_forms_are_the_same(verb, capsys):
    long, short = (asked(capsys, *verb, *BASE, "--nodes", "4", *keys) for keys in (LONG, SHORT))
    assert long == short


@pytest.mark.parametrize("verb", PLANS, ids=lambda verb: verb[-1] if len(verb) < 3 else verb[1])
def test_gpus_are_another_way_to_say_nodes(verb, capsys):
    size = (["--gpus", "32"], ["--nodes", "4"])
    gpus, nodes = (asked(capsys, *verb, *BASE, *SHORT, *one) for one in size)
    assert gpus == nodes


def test_the_network_for_so_many_gpus_or_nodes_is_for_the_stated_batch(capsys):
    """2,048 sequences on 2,048 GPUs: with --gpus it was once asked for 256 sequences only."""
    by_gpus, by_nodes = (
        asked(capsys, *TRIAL, *count, code=1) for count in (("--gpus", 2048), ("--nodes", 256))
    )
    assert by_gpus == by_nodes
    assert by_gpus["counts"][0]["global_batch"] == 2048
    assert by_gpus["counts"][0]["gpus"] == 2048


def test_gpus_of_a_flag_replace_the_nodes_of_a_file(tmp_path, capsys):
    path = tmp_path / "run.yaml"
    path.write_text("model: llama-3.1-8b\ncluster: dgx-h100\nnodes: 2\nlayout: {tp: 2}\n")
    assert asked(capsys, "predict", path)["run"]["gpus"] == 16
    assert asked(capsys, "predict", path, "--gpus", "64")["run"]["nodes"] == 8
    path.write_text("model: llama-3.1-8b\ncluster: dgx-h100\ngpus: 16\nlayout: {tp: 2}\n")
    assert asked(capsys, "predict", path, "--nodes", "4")["run"]["gpus"] == 32
    assert main(["predict", *BASE, "--nodes", "4", "--gpus", "16"]) == 2
    assert "4 nodes of 8 GPUs are not 16 GPUs" in capsys.readouterr().err


def test_a_run_that_does_not_fit_is_a_no(capsys):
    flags = ["predict", *BASE, "--shard", "ddp", "--recompute", "none", "--micro-batch", "8"]
    assert not asked(capsys, *flags, code=1)["fits"]
    assert main(flags) == 1
    assert capsys.readouterr().out.startswith("Verdict   does not fit")
    assert asked(capsys, "predict", *BASE)["fits"]  # left open, there is a way


@pytest.fixture
def known(tmp_path):
    """A run of the same machine that takes far longer than predicted."""
    path = tmp_path / "known.yaml"
    layout = "layout: {tp: 2, shard: zero1, global_batch: 64}\n"
    head = "model: llama-3.1-8b\ncluster: dgx-h100\nnodes: 4\nseq: 4096\n"
    path.write_text(f"{head}{layout}measured: {{step: 5 s, same_build: true}}\n")
    return path


@pytest.fixture
def calibration(tmp_path):
    """A multiplication that is measured to be slow."""
    path = tmp_path / "measured.json"
    point = {"m": 4096, "n": 4096, "k": 4096, "dtype": "bf16", "seconds": 1e-3}
    path.write_text(json.dumps({"gemm": [point]}))
    return path


STEPS = {
    "layouts": lambda found: found["best"][0]["step_s"],
    "wall": lambda found: found["sides"]["strong"]["curve"][0]["step_s"],
    "network": lambda found: found["counts"][0]["step_s"],
    "fabric": lambda found: found["non_blocking_step_s"],
}


@pytest.mark.parametrize("part", STEPS)
@pytest.mark.parametrize("flag", ["--known-run", "--calibration"])
def test_what_was_measured_counts_in_every_plan(part, flag, known, calibration, capsys):
    file = known if flag == "--known-run" else calibration
    more = ["--most", "64"] if part == "wall" else ["--cp", "1"] if part == "layouts" else []
    verb = ["plan", part, *BASE, *SHORT, "--nodes", "4", *more]
    before, after = asked(capsys, *verb), asked(capsys, *verb, flag, file)
    assert STEPS[part](after) > STEPS[part](before) * 1.2


def test_the_best_layout_is_saved_as_a_run_that_takes_as_long(tmp_path, capsys):
    file = tmp_path / "best.yaml"
    flags = ["plan", "layouts", *BASE, "--nodes", "2", "--global-batch", "32", "--cp", "1"]
    best = asked(capsys, *flags, "--save", file)["best"][0]
    again = asked(capsys, "predict", file)
    assert again["step_s"] == pytest.approx(best["step_s"], rel=1e-9)
    assert again["memory_bytes"] == pytest.approx(best["memory_bytes"], rel=1e-9)
    text = file.read_text()
    assert "model: llama-3.1-8b" in text
    assert "cluster: dgx-h100" in text


@pytest.mark.slow
@pytest.mark.parametrize("model", ["llama-3.1-8b", "mixtral-8x7b"])
def test_every_layout_that_is_listed_can_be_pasted_into_a_run_file(model, tmp_path, capsys):
    flags = ["--model", model, "--cluster", "dgx-h200", "--nodes", "2", "--seq", "4096"]
    pins = ["--cp", "1", "--pp", "1,2", "--recompute", "none,full", "--global-batch", "32"]
    found = asked(capsys, "plan", "layouts", *flags, *pins)
    file = tmp_path / "pasted.json"
    for one in [*found["best"], *found["front"][:5]]:
        head = {"model": model, "cluster": "dgx-h200", "gpus": one["gpus"], "seq": 4096}
        file.write_text(json.dumps(head | {"layout": one["layout"]}))
        again = asked(capsys, "predict", file)
        assert again["step_s"] == pytest.approx(one["step_s"], rel=1e-9)


@pytest.mark.weekly
def test_a_wall_of_which_nothing_is_stated_is_believable(capsys):
    """4 million tokens a step: a GPU should have a few hundred at least, and thousands are easy.

    It once held 80% up to 8 GPUs, because the batch was that of a node.
    """
    flags = ["plan", "wall", "--model", "llama-3.1-70b", "--cluster", "dgx-b200", "--most", "16384"]
    found = asked(capsys, *flags)
    tokens = found["global_batch"] * found["run"]["seq"]
    assert tokens == 2**22
    held = next(one for one in found["sides"]["strong"]["walls"] if one["level"] == 0.8)
    assert 1024 <= held["holds_to_gpus"] <= tokens / 256
    assert found["run"]["gpus"] == 512
    shards = {one["layout"]["shard"] for one in found["sides"]["strong"]["curve"]}
    assert shards <= {"ddp", "zero1", "zero2", "fsdp"}  # words, not ranks among them
