"""Fabrics on one screen and as data."""

import json

import pytest

from syncwall.cli import main
from syncwall.describe import lookup

RUN = ["--model", "llama-3.1-70b", "--layout.tp", "8", "--layout.shard", "fsdp"]


def shown(capsys, *arguments, code=0):
    assert main(["plan", "fabric", *arguments]) == code
    return capsys.readouterr().out


@pytest.mark.parametrize("gpus", ["8", "64", "1000", "24576", "250000", "500000"])
def test_one_screen_for_any_size(gpus, capsys):
    text = shown(capsys, "--gpus", gpus)
    assert text.startswith("Verdict   ")
    assert len(text.splitlines()) <= 40
    assert max(map(len, text.splitlines())) <= 135


def test_the_verdict_is_the_marked_line(capsys):
    text = shown(capsys, "--gpus", "1016")
    assert "rail-optimised: 32 leaf + 16 spine switches for 1,016 GPUs, full bisection" in text
    marked = next(line for line in text.splitlines() if "(proposed)" in line)
    assert marked.split()[:5] == ["rail-optimised", "(proposed)", "48", "32", "16"]
    assert "leaf: 256 GPUs lose 12.5% of their NIC rate" in text


def test_nothing_reaches_so_far(capsys):
    text = shown(capsys, "--gpus", "1000000", code=1)
    assert "no fabric of these switches connects 1,000,000 GPUs (at most 524,288)" in text
    assert "fat-tree-3: reaches 65,536 GPUs with these switches; 1,000,000 need" in text
    assert shown(capsys, "--gpus", "1000000", "--radix", "160")


def test_json_holds_what_the_screen_says(capsys):
    wanted = ["--gpus", "1024", "--growth", "25%", "--copper", "node-leaf"]
    found = json.loads(shown(capsys, *wanted, "--prices.switch", "$20k", "--json"))
    one = next(each for each in found["fabrics"] if each["kind"] == "rail-optimised")
    assert one["switches"] == {"leaf": 32, "spine": 32, "core": 0}  # spines for 1,280 GPUs
    assert one["switches_after_growth"] == {"leaf": 40, "spine": 32, "core": 0}
    assert one["optics"] == 2 * 1024
    assert one["cost_usd"] == {"total": 64 * 20_000, "without": ["optic", "fibre", "copper"]}
    assert one["bisection_bytes_per_s"] == 512 * 50e9
    assert one["step_s"] is None
    refused = next(each for each in found["fabrics"] if each["kind"] == "fat-tree-3")
    assert refused["why_not"] == "fewer tiers are enough"


def test_a_run_is_predicted_on_every_fabric(capsys):
    wanted = ["--gpus", "1024", *RUN, "--oversubscription", "4:1"]
    found = json.loads(shown(capsys, *wanted, "--json"))
    steps = {one["kind"]: one["step_s"] for one in found["fabrics"] if one["possible"]}
    assert set(steps) == {"rail-optimised", "fat-tree-2", "dragonfly", "rail-only"}
    assert all(step >= found["non_blocking_step_s"] for step in steps.values())
    text = shown(capsys, *wanted)
    assert "Effect    a step of llama-3.1-70b takes" in text
    assert "not modelled" in text


def test_a_run_file_says_how_many(tmp_path, capsys):
    path = tmp_path / "run.yaml"
    path.write_text("model: llama-3.1-8b\ncluster: dgx-h100\nnodes: 64\nlayout: {shard: fsdp}\n")
    assert json.loads(shown(capsys, str(path), "--json"))["gpus"] == 512
    assert json.loads(shown(capsys, str(path), "--gpus", "256", "--json"))["gpus"] == 256


def test_cost_and_power_of_every_kind(capsys):
    text = shown(
        capsys,
        "--gpus",
        "1024",
        "--power.switch",
        "1kW",
        "--power.optic",
        "9W",
        "--prices.switch",
        "$25k",
    )
    marked = next(line for line in text.splitlines() if "(proposed)" in line)
    assert marked.split()[-3:] == ["$1.2M", "84.86", "kW"]  # 48 switches, 4,096 transceivers
    assert "without optic, fibre: no price stated" in text


def test_faster_ports_are_split(capsys):
    by_name = json.loads(shown(capsys, "--gpus", "4096", "--switch", "sn5600", "--json"))
    by_number = json.loads(shown(capsys, "--gpus", "4096", "--radix", "64", "--speed", "800Gb/s", "--json"))
    assert by_name == by_number
    assert by_name["wiring"]["radix"] == [128, 128, 128]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ([], "write --gpus N"),
        (["--gpus", "0"], '--gpus: "0" is not a count'),
        (["--gpus", "64", "--kind", "rail-onyl"], 'did you mean "rail-only"'),
        (["--gpus", "64", "--layout.tp", "8"], "--layout.tp is of a run: add --model NAME"),
        (["--gpus", "60", *RUN], "--gpus: 60 GPUs do not fill whole nodes of 8"),
        (["--gpus", "64", "--switch", "rosetta"], "slower than NICs of 400 Gb/s"),
        (["--gpus", "64", "--switch", "sn5600", "--radix", "64"], "leave out --radix"),
        (["--gpus", "64", "--speed", "100Gb/s"], "--speed: a port must be as fast"),
        (["--gpus", "64", "--radix", "many"], "--radix:"),
        (["--gpus", "64", "--radix", "1,2,3,4"], "three tiers at most"),
        (["--gpus", "64", "--oversubscription", "x"], "--oversubscription:"),
        (["--gpus", "64", "--oversubscription", "0"], "at least 1"),
        (["--gpus", "64", "--growth", "lots"], "--growth:"),
        (["--gpus", "64", "--prices.switch", "20k"], "--prices.switch:"),
    ],
)
def test_wrong_calls_say_what_to_write(arguments, message, capsys):
    assert main(["plan", "fabric", *arguments]) == 2
    assert message in capsys.readouterr().err


def test_switches_are_shown(capsys):
    assert main(["show", "switches"]) == 0
    assert "quantum-2-qm9700" in capsys.readouterr().out
    assert main(["show", "switch"]) == 2
    assert "`show switches` lists them" in capsys.readouterr().err
    assert lookup.switch("qm9700").ports == 64


def test_an_oversubscribed_fabric_never_seems_free(capsys):
    """Rails of one job meet nobody at 4:1; its neighbours are not counted, which is said."""
    text = shown(capsys, "--gpus", "1024", *RUN, "--oversubscription", "4:1")
    rows = [line for line in text.splitlines() if " 25% " in line]
    assert rows
    assert not any(line.endswith(" 0.0%") for line in rows)
    assert "if no other job is there: neighbours are not counted" in text


def test_a_nic_rate_is_one_flag(capsys):
    """NICs and ports follow: the same counts, twice the bisection, a shorter step."""
    wanted = ["--gpus", "1024", *RUN, "--json"]
    usual, faster = (json.loads(shown(capsys, *wanted, *more)) for more in ([], ["--nic-rate", "800Gb/s"]))
    before, after = (next(one for one in each["fabrics"]) for each in (usual, faster))
    assert after["switches"] == before["switches"]
    assert after["bisection_bytes_per_s"] == 2 * before["bisection_bytes_per_s"]
    assert after["step_s"] < before["step_s"]
    ports = json.loads(shown(capsys, "--gpus", "64", "--nic-rate", "800Gb/s", "--switch", "sn5600", "--json"))
    assert ports["wiring"]["radix"] == [64, 64, 64]
    assert main(["plan", "fabric", "--gpus", "64", "--nic-rate", "fast"]) == 2
    assert "--nic-rate" in capsys.readouterr().err
    assert main(["plan", "fabric", "--gpus", "64", "--rate", "800Gb/s"]) == 2
    assert "--nic-rate RATE" in capsys.readouterr().err
