"""The requirement as a page and as data."""

import json
import re

import pytest

from syncwall.answer.interval import validated_gpus
from syncwall.cli import main

MODEL = """\
layers: 24
hidden: 2560
vocab: 50304
attention: {heads: 20}
mlp: {hidden: 10240, gated: false}
tied_embeddings: true
"""


@pytest.fixture
def run(tmp_path):
    """Flags of the example of ml-engineering's network chapter."""
    path = tmp_path / "two-billion.yaml"
    path.write_text(MODEL)
    return [
        "plan",
        "network",
        "--model",
        str(path),
        "--cluster",
        "dgx-a100",
        "--nodes",
        "4",
        "--seq",
        "2048",
        "--layout.shard",
        "ddp",
        "--layout.global-batch",
        "64",
        "--layout.micro-batch",
        "2",
        "--layout.recompute",
        "full",
        "--gpus",
        "32",
    ]


def test_one_screen_that_leads_with_the_verdict(run, capsys):
    assert main([*run, "--reached", "80%"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[0].startswith("Verdict   on 32 GPUs buy ")
    assert len(lines) <= 40
    plain = next(line for line in lines if "by plain arithmetic" in line)
    assert plain.split()[-1] == "305"
    assert any("share that collectives reach" in line and "78%" in line for line in lines)


def test_json_in_si_units(run, capsys):
    assert main([*run, "--json"]) == 0
    found = json.loads(capsys.readouterr().out)["counts"][0]
    assert 200e9 / 8 < found["reached_node_bytes_per_s"] < 400e9 / 8
    assert found["gpu_bytes_per_s"]["busy"] == pytest.approx(found["node_bytes_per_s"]["busy"] / 8)
    assert found["plain_node_bytes_per_s"] == pytest.approx(305e9 / 8, rel=0.002)


def test_the_efficiency_asked_for_counts(run, capsys):
    rates = []
    for share in ("92%", "0.8"):
        assert main([*run, "--json", "--efficiency", share]) == 0
        found = json.loads(capsys.readouterr().out)["counts"][0]
        rates.append(found["node_bytes_per_s"]["efficiency"])
    assert rates[0] > rates[1]


def test_no_rate_that_is_enough_is_a_no(capsys):
    flags = ["--model", "llama-3.1-8b", "--cluster", "dgx-h100", "--layout.shard", "fsdp", "--gpus", "16384"]
    assert main(["plan", "network", *flags]) == 1
    said = capsys.readouterr().out
    assert "no rate gives 90% efficiency" in said
    assert "no rate\n" in said
    assert "at any rate that latency leaves" in said


@pytest.mark.parametrize(
    ("flags", "said"),
    [
        (["--efficiency", "ninety"], '"ninety" is not a share: write for example "80%"'),
        (["--reached", "120%"], '"120%" is not a share'),
        (["--gpus", "many"], '"many" is not a count'),
        (["--gpus", "12"], "write multiples of 8"),
    ],
)
def test_what_cannot_be_is_refused_with_what_to_write(run, flags, said, capsys):
    assert main([*run[:-2], *flags]) == 2
    assert said in capsys.readouterr().err


def test_the_number_to_buy_by_is_one_number_of_the_table(run, capsys):
    """The verdict says the advertised rate that the table has; a rate that is reached is no purchase."""
    assert main(run) == 0
    lines = capsys.readouterr().out.splitlines()
    bought = re.search(r"buy ([\d,]+) Gb/s a node, as advertised", lines[0])
    assert bought
    row = next(line for line in lines if line.strip().startswith("90% efficient"))
    assert row.split()[-1] == bought[1]


def test_counts_beyond_any_validated_run_are_said_to_be(run, capsys):
    beyond = f"32,{2 * validated_gpus()}"
    assert main([*run[:-1], beyond]) in (0, 1)
    lines = capsys.readouterr().out.splitlines()
    assert "extrapolated" in lines[0]
    assert any("number of GPUs" in line and line.endswith("extrapolated") for line in lines)
