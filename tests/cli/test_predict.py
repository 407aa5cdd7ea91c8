import json
import subprocess
import sys
from pathlib import Path

import pytest

from syncwall.cli import main

BASE = ["predict", "--model", "llama-3.1-8b", "--cluster", "dgx-h100", "--nodes", "16"]
FSDP = ["--layout.shard", "fsdp", "--layout.micro-batch", "1", "--layout.global-batch", "512"]


def test_one_screen_with_verdict_ledger_why_and_next(capsys):
    assert main([*BASE, *FSDP]) == 0
    text = capsys.readouterr().out
    for word in ["Verdict", "interval", "tokens/s/GPU", "MFU", "memory", "GEMM", "Why", "Next"]:
        assert word in text
    assert len(text.splitlines()) <= 40


def test_json_has_the_ledger_that_sums_to_the_step(capsys):
    assert main([*BASE, *FSDP, "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert sum(found["ledger_s"].values()) == pytest.approx(found["step_s"])
    assert found["run"]["layout"]["shard"] == "fsdp"
    assert found["mfu_convention"] == "causal, dense 16-bit peak"


def test_flags_override_a_file(tmp_path: Path, capsys):
    path = tmp_path / "run.yaml"
    path.write_text("model: llama-3.1-8b\ncluster: dgx-h100\nnodes: 2\nlayout: {tp: 2}\n")
    assert main(["predict", str(path), "--nodes", "4", "--layout.shard", "fsdp", "--json"]) == 0
    layout = json.loads(capsys.readouterr().out)["run"]["layout"]
    assert (layout["tp"], layout["shard"], layout["dp"]) == (2, "fsdp", 16)


@pytest.mark.parametrize(
    ("flags", "message"),
    [
        (["--layout.shard", "fsdb"], '--layout.shard: unknown shard "fsdb"; did you mean "fsdp"?'),
        (["--layout.tp", "3"], "--layout.tp: tp 3 does not divide 32 attention heads"),
        (["--layout.bucket", "25"], '--layout.bucket: "25" has no unit: write "25 B"'),
        (["--nodes", "many"], '--nodes: "many" is not a whole number'),
        (["--software.kernels", "quick"], "--software.kernels: "),
        (["--software.framework", "nanotorn"], 'framework "nanotorn"; did you mean "nanotron"'),
        (["--software.date", "2024"], '--software.date: "2024" is not a month: write for example'),
        (["--software.date", "2024-13"], '--software.date: "2024-13" is not a month'),
        (["--lora", "{rank: 8, targets: [qproj]}"], '--layout.lora: "qproj" is not known: write '),
        (["--fabric", "links.yml"], '"links.yml" is neither a file nor a kind of fabric; known: '),
        (["--fabric", "teirs"], 'did you mean "tiers"?'),
        (["--fabric", "tiers,3"], '"tiers" is neither a file nor a kind of fabric'),
    ],
)
def test_a_wrong_flag_is_named(flags, message, capsys):
    assert main(["predict", "--model", "llama-3.1-8b", "--cluster", "dgx-h100", *flags]) == 2
    assert message in capsys.readouterr().err


def test_a_model_and_a_cluster_are_needed(capsys):
    assert main(["predict", "--model", "llama-3.1-8b"]) == 2
    assert "write --model NAME and --cluster NAME" in capsys.readouterr().err


def test_the_timeline_is_written(tmp_path: Path, capsys):
    assert main([*BASE, *FSDP, "--timeline", str(tmp_path / "t.json")]) == 0
    assert json.loads((tmp_path / "t.json").read_text())["traceEvents"]


def test_assumptions_are_listed_on_demand(capsys):
    assert main([*BASE, *FSDP, "--explain-assumptions"]) == 0
    assert "of NIC line rate" in capsys.readouterr().out


def test_a_torus_is_said_to_be_unvalidated_before_anything_else(capsys):
    assert main(["predict", "--model", "llama-3.1-8b", "--cluster", "tpu-v5p", "--gpus", "64"]) == 0
    assumed = capsys.readouterr().out.partition("Assumed")[2]
    assert assumed.index("unvalidated") < assumed.index("compute calibrated")


def test_a_plain_prediction_loads_neither_plans_nor_networks_nor_readers():
    """What a fabric, a calibration or a trace needs is loaded with it."""
    words = ["predict", "--model", "llama-3.1-8b", "--cluster", "dgx-h100", "--gpus", "64"]
    code = (
        f"import sys; from syncwall.cli import main; main({words})\n"
        "rooms = ('plan', 'network.', 'read', 'measure')\n"
        "print([m for m in sys.modules if m.startswith(tuple(f'syncwall.{r}' for r in rooms))])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.splitlines()[-1] == "[]"
