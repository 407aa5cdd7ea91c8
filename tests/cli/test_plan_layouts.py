"""`syncwall plan layouts` as a user meets it."""

import json

import pytest

from syncwall.ask.plan import gpu_counts, pins
from syncwall.cli import main
from syncwall.describe.layout import Recompute
from syncwall.describe.settings import read_settings
from syncwall.plan.choices import SEARCHED
from syncwall.problems import InputError

SMALL = ["plan", "layouts", "--model", "llama-3.1-8b", "--cluster", "dgx-h100", "--layout.cp", "1"]
BATCH = ["--layout.global-batch", "16"]


def test_one_screen_with_a_verdict(capsys):
    assert main([*SMALL, *BATCH]) == 0
    page = capsys.readouterr().out
    assert page.startswith("Verdict   ")
    assert len(page.splitlines()) < 40
    assert "Why       layout 2 takes" in page
    assert "Trade-off " in page


def test_json_has_ledgers_that_add_up_and_a_front(capsys):
    assert main([*SMALL, *BATCH, "--json", "--price", "2"]) == 0
    found = json.loads(capsys.readouterr().out)
    best = found["best"][0]
    assert sum(best["ledger_s"].values()) == pytest.approx(best["step_s"])
    assert best["usd_per_billion_tokens"] == 2 * best["gpu_hours_per_billion_tokens"] > 0
    assert found["layouts_possible"] >= found["layouts_fitting"] > 0
    assert [one["step_s"] for one in found["front"]] == sorted(o["step_s"] for o in found["front"])


def test_settings_are_saved_and_read_back(capsys, tmp_path):
    file = tmp_path / "best.sh"
    flags = ["--settings", "megatron", "--save-settings", str(file)]
    assert main([*SMALL, *BATCH, *flags, "--json"]) == 0
    best = json.loads(capsys.readouterr().out)["best"][0]["layout"]
    layout = read_settings(file).layout
    assert layout["tp"] == best["tp"]
    assert layout["micro_batch"] == best["micro_batch"]


def test_the_layout_of_a_run_file_is_compared(capsys):
    assert main(["plan", "layouts", "examples/llama-70b-on-dgx-h100.yaml", "--layout.tp", "8"]) == 0
    page = capsys.readouterr().out
    assert "times as fast as yours" in page
    assert "  yours " in page


def test_a_layout_that_does_not_fit_is_not_called_slow(capsys, tmp_path):
    file = tmp_path / "run.yaml"
    layout = "{shard: ddp, global_batch: 16}"
    file.write_text(f"model: llama-3.1-8b\ncluster: dgx-h100\nnodes: 1\nlayout: {layout}\n")
    assert main(["plan", "layouts", str(file)]) == 0
    assert "; yours does not fit" in capsys.readouterr().out


def test_nothing_fits(capsys):
    arguments = ["plan", "layouts", "--model", "llama-3.1-405b", "--cluster", "dgx-h100"]
    assert main([*arguments, "--layout.global-batch", "8"]) == 1
    assert capsys.readouterr().out.startswith("Verdict   none fits")


def test_nothing_is_quick_enough(capsys):
    assert main([*SMALL, *BATCH, "--within", "1ms"]) == 1
    assert "quick enough" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["--global-batch", "32,64"], "--layout.global-batch: write one number"),
        ([*BATCH, "--layout.tp", "4,x"], '--layout.tp: "x" is not a whole number'),
        ([*BATCH, "--gpus", "12"], "12 GPUs do not fill whole nodes of 8"),
        ([*BATCH, "--gpus", "many"], '"many" is not a count'),
        ([*BATCH, "--gpus", "16..8"], '"16..8" is not a count'),
        ([*BATCH, "--gpus", "8..1000000000"], "--gpus: 536,870,912 GPUs are too many"),
        ([*BATCH, "--within", "soon"], '--within: "soon" is not a time'),
        ([*BATCH, "--save-settings", "x"], "write --settings FORMAT, too"),
    ],
)
def test_wrong_calls_say_what_to_write(capsys, arguments, said):
    assert main([*SMALL, *arguments]) == 2
    assert said in capsys.readouterr().err


def test_a_batch_that_nobody_states_is_the_usual_one(capsys):
    assert main([*SMALL, "--tp", "8", "--cp", "1", "--pp", "1"]) == 0
    said = capsys.readouterr()
    assert "--global-batch was left out" in said.err
    assert "sequences of" in said.out


def test_pins_are_read_as_in_a_file():
    found = pins({"layout.recompute": "none,full", "layout.sp": "true", "model": "x"})
    assert found == {"recompute": (Recompute.NONE, Recompute.FULL), "sp": (True,)}


def test_counts_double():
    assert gpu_counts("8..70") == [8, 16, 32, 64]
    assert gpu_counts("8,24") == [8, 24]
    with pytest.raises(InputError):
        gpu_counts("0..8")


def test_what_is_not_searched_is_listed_with_what_it_would_bring(capsys):
    assert main([*SMALL, *BATCH, "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    named = {one["change"].split()[0]: one for one in found["not_searched"]}
    assert "fused_loss" in named
    assert not set(named) & set(SEARCHED)
    best = found["best"][0]["step_s"]
    assert all(one["gained_s"] < best for one in found["not_searched"])


@pytest.mark.parametrize(("pp", "code"), [("1,2,3,4", 1), ("1,2,3,4,9", 0)])
def test_a_batch_that_most_numbers_of_replicas_cannot_share_is_said(pp, code, capsys):
    """1,152 GPUs are 128 x 9: 2,048 sequences can be dealt only if nine stages take the nine."""
    flags = ["--model", "llama-3.1-70b", "--cluster", "gb200-nvl72", "--gpus", "1152"]
    pins = ["--global-batch", "2048", "--cp", "1", "--pp", pp, "--recompute", "none,full"]
    assert main(["plan", "layouts", *flags, *pins]) == code
    page = " ".join(capsys.readouterr().out.split())
    assert "Batch 2,048 sequences cannot be split evenly among" in page
    assert "; 2,304 can: MFU" in page
