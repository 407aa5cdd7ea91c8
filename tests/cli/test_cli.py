import json
import subprocess
import sys

import pytest

from syncwall.cli import main
from tests.cli.flags import commands, flags_of, short_forms

KEYS = [
    *(f"--layout.{key}" for key in (
        "unit-layers", "forward-prefetch", "backward-prefetch", "reshard-after-forward",
        "gather-dtype", "quantized-gradients", "first-layers-bf16", "last-layers-bf16",
        "frozen", "frozen-layers", "images",
        "dp", "shard", "shard-degree", "tp", "sp", "pp", "virtual-stages", "schedule",
        "balanced-stages", "first-stage-layers", "last-stage-layers", "cp", "cp-kind", "ep",
        "etp", "expert-imbalance", "dropless", "capacity-factor", "order", "micro-batch",
        "global-batch", "document", "precision", "gradient-dtype",
        "kept-gradient-dtype", "separate-gradients", "optimizer", "moment-dtype", "master-weights",
        "narrow-weights", "offload-optimizer", "offload-weights", "offload-gradients", "bucket",
        "frozen-weights", "lora", "fused-loss",
        "loss-chunks", "recompute", "recompute-layers", "recompute-stops-early",
        "recompute-modules", "offload-layers", "narrow-activations", "kept-attention-scores",
        "fused-norms", "fused-gate", "dropout", "kept-gathered-inputs", "fsdp-copies",
        "overlap-gradients",
        "overlap-parameters",
        "overlap-tp", "async-tp", "tp-exposed-share", "dispatcher", "fp8-dispatch", "overlap-ep",
        "ep-exposed-share", "overlap-pp",
        "outer-every",
    )),
    *(f"--software.{key}" for key in (
        "framework", "date", "attention", "kernels", "expert-kernels", "graphs", "fp8-scaling",
        "launch-blocking",
    )),
]  # fmt: skip
RUN = [
    "--model NAME", "--cluster NAME", "--nodes N", "--gpus-per-node N", "--gpus N", "--seq TOKENS",
    "--from FILE", "--known-run FILE", "--calibration FILE", "--catalogue DIR", *KEYS,
]  # fmt: skip
"""Flags of every verb that takes a run."""
OUTPUT = ["--json", "--html FILE", "--markdown FILE"]
WORK = ["--work FILE", "--compiled", "--eager"]
JOB = [
    f"--job.{key}" for key in (
        "phases", "start", "price", "spares", "when-short", "startup", "data-stall", "simulations",
        "seed",
        *(f"checkpoints.{key}" for key in (
            "interval", "storage", "read", "blocking", "copy-rate", "size",
        )),
        *(f"failures.{key}" for key in (
            "like", "per-1000-node-days", "deviation", "detection", "restart", "repair",
            "domain-gpus", "rack-nodes", "early-factor", "early-time",
        )),
        "evaluation.every", "evaluation.time",
        *(f"stragglers.{key}" for key in ("per-1000-node-days", "slowdown", "time")),
        "spikes.per-1000-steps", "spikes.rollback", "maintenance.every", "maintenance.time",
        *(f"power.{key}" for key in ("load", "host", "pue", "region", "carbon")),
        *(f"owned.{key}" for key in ("price", "years", "electricity")),
        *(f"measured.{key}" for key in ("step", "checkpoint", "restart")),
    )
]  # fmt: skip
"""Flags of every verb that takes a job."""
PINNED = {
    "capture": [
        "SCRIPT", "--help", "--world N", "--rank N", "--ranks LIST", "--nproc-per-node N",
        "--module NAME", "--arguments TEXT", "--timeout S", "--save FILE", *OUTPUT,
    ],
    "watch": [
        "--help", "--expect WORDS", "--events FILE", "--arguments TEXT", "--attach", "--folder DIR",
        "--prometheus ADDRESS", "--otlp URL", "--webhook URL", "--alert COMMAND", "--life FILE",
        "--steps N", *OUTPUT,
    ],
    "predict": [
        "FILE", "--help", "--tokens TOKENS", "--steps N", "--measured SPEED", "--life FILE",
        "--rl FILE", "--islands FILE", *OUTPUT, "--timeline FILE",
        "--fabric NAME", "--routing", "--qps N",
        "--rank-order FILE", "--explain-assumptions", *WORK, *RUN, *JOB,
    ],
    "compare": [
        "FILE", "OTHER", "--help", "--against", "--tokens TOKENS", "--steps N",
        *OUTPUT, *RUN, *JOB,
    ],
    "plan layouts": [
        "FILE", "--help", "--objective", "--within TIME", "--price USD", "--top N", "--save FILE",
        "--settings FORMAT", "--save-settings FILE", *OUTPUT, *RUN,
    ],
    "plan wall": [
        "FILE", "--help", "--least GPUS", "--most GPUS", "--replica-batch N", "--best-layout",
        "--chart FILE", *OUTPUT, *WORK, *RUN,
    ],
    "plan network": [
        "FILE", "--help", "--efficiency SHARE", "--exposed SHARE", "--reached SHARE", "--strong",
        *OUTPUT, *WORK, *RUN,
    ],
    "plan fabric": [
        "FILE", "--help", "--kind NAME", "--switch NAME", "--radix PORTS", "--speed RATE",
        "--oversubscription RATIO", "--growth SHARE", "--copper CABLES", "--degraded PARTS",
        "--routing", "--qps N", "--drawing FILE", *OUTPUT, *RUN,
        *(f"--prices.{part}" for part in ("switch", "optic", "fibre", "copper")),
        *(f"--power.{part}" for part in ("switch", "optic")),
    ],
    "plan placement": [
        "FILE", "--help", "--fabric NAME", "--routing", "--qps N", "--save DIR", "--catalogue DIR",
        *OUTPUT,
    ],
    "show": ["WHAT", "NAME", "--help", *OUTPUT, "--catalogue DIR"],
    "validate": [
        "PATH", "--help", "--against FILE", *OUTPUT, "--worst N", "--catalogue DIR",
    ],
    "measure collectives": [
        "--help", "--backend", "--kinds NAMES", "--min-size SIZE", "--max-size SIZE", "--dtype",
        "--trials N", "--seconds S", "--timeout S", *OUTPUT,
    ],
    "measure links": [
        "--help", "--backend", "--repeats N", "--size SIZE", "--expect RATE", "--timeout S",
        *OUTPUT,
    ],
    "measure matmul": [
        "--help", "--model NAME", "--seq TOKENS", "--micro-batch N", "--tp N", "--precision",
        "--backend", "--seconds S", "--timeout S", *OUTPUT,
    ],
    "measure step": [
        "--help", "--model NAME", "--seq TOKENS", "--shard", "--micro-batch N", "--precision",
        "--bucket SIZE", "--steps N", "--warm-up N", "--device NAME",
        "--backend", "--timeout S", "--profile DIR", *OUTPUT,
    ],
    "measure calibration": ["RESULT", "--help", *OUTPUT],
    "lab up": ["FILE", "--help", "--place", "--rate RATE"],
    "lab run": [
        "FILE", "--help", *OUTPUT, "--only", "--predict", "--keep-logs DIR", "--quiet",
    ],
    "lab down": ["NAME", "--help", "--all"],
    "lab list": ["--help", *OUTPUT],
    "explain": [
        "FILE", "--help", "--run FILE", "--against FILE", "--cluster NAME", "--workers N",
        "--ray ADDRESS", "--store DIR", *OUTPUT, "--catalogue DIR",
    ],
    "serve": [
        "--help", "--host ADDRESS", "--port N", "--token TEXT", "--token-file FILE", "--no-auth",
        "--allow-host NAME", "--root-path PATH", "--findings DIR", "--files DIR", "--browser",
    ],
    "report": [
        "RESULT", "--help", "--allow-busy", "--html FILE", "--markdown FILE", "--notes FILE",
        "--cluster NAME",
    ],
    "schema": ["VERB", "--help"],
    "completion": ["SHELL", "--help"],
}  # fmt: skip


def test_verbs_and_flags_are_these():
    found = {command: sorted(flags_of(command)) for command in commands()}
    assert found == {command: sorted(flags) for command, flags in PINNED.items()}


@pytest.mark.parametrize(
    "command", [command for command in PINNED if "--gpus N" in PINNED[command]]
)
def test_keys_of_the_layout_and_the_software_have_a_short_form(command):
    assert short_forms(command) == {key: f"--{key.partition('.')[2]}" for key in KEYS}


def test_help_and_version(capsys):
    assert main(["--help"]) == 0
    assert "syncwall show model llama-3.1-405b" in capsys.readouterr().out
    assert main(["--version"]) == 0
    assert capsys.readouterr().out.startswith("syncwall 0.")


def test_no_arguments_show_the_help(capsys):
    assert main([]) == 0
    assert "usage" in capsys.readouterr().out


def test_a_wrong_word_exits_with_2(capsys):
    assert main(["show", "gadgets"]) == 2
    assert "devices" in capsys.readouterr().err


@pytest.mark.parametrize("behind", [[], ["--tp", "8"]])
def test_a_flag_without_its_value_says_what_to_write(behind, capsys):
    assert main(["predict", "--nodes", *behind]) == 2
    assert capsys.readouterr().err == "--nodes has no value: write `--nodes N`\n"


@pytest.mark.parametrize("words", [["NAME"], ["--nodes", "4", "NAME"], ["file.yaml", "NAME"]])
@pytest.mark.parametrize(("kind", "name"), [("model", "llama-3.1-8b"), ("cluster", "dgx-h100")])
def test_a_name_that_stands_alone_says_which_flag_it_belongs_to(capsys, words, kind, name):
    assert main(["predict", *(name if word == "NAME" else word for word in words)]) == 2
    said = capsys.readouterr().err
    assert said == f'"{name}" is a {kind}, not a file: write --{kind} {name}\n'


def test_a_file_may_be_called_as_a_model_is(capsys, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "llama-3.1-8b").write_text("model: llama-3.1-8b\ncluster: dgx-h100\n")
    assert main(["predict", "llama-3.1-8b"]) == 0


def test_a_switch_that_stands_alone_is_true(capsys):
    run = ["predict", "--model", "llama-3.1-8b", "--cluster", "dgx-h100", "--nodes", "1"]
    answers = []
    for switch in (["--sp", "true"], ["--sp"], ["--layout.sp"]):
        assert main([*run, *switch, "--tp", "2", "--json"]) == 0
        answers.append(capsys.readouterr().out)
    assert answers[0] == answers[1] == answers[2]
    assert main([*run, "--tp", "2", "--sp"]) == 0


@pytest.mark.parametrize(
    ("wrong", "meant"),
    [("--nodse", "--nodes"), ("--tpp", "--tp"), ("--layout.shrad", "--layout.shard"),
     ("--global-bacth=8", "--global-batch"), ("--jason", "--json")],
)  # fmt: skip
def test_an_unknown_flag_suggests_the_nearest(wrong, meant, capsys):
    assert main(["predict", wrong, "4"]) == 2
    said = wrong.partition("=")[0]
    assert capsys.readouterr().err == f'unknown flag "{said}"; did you mean "{meant}"?\n'


def test_both_spellings_of_a_flag_are_known(capsys):
    assert main(["predict", "--global_batch", "8", "--layout.micro_batch=1"]) == 2
    assert capsys.readouterr().err.startswith("write --model NAME")


def test_an_unknown_verb_suggests_the_nearest(capsys):
    assert main(["shoe"]) == 2
    assert capsys.readouterr().err == 'unknown verb "shoe"; did you mean "show"?\n'


def test_an_input_error_exits_with_2_and_no_traceback():
    done = subprocess.run(
        [sys.executable, "-m", "syncwall", "show", "device", "h100-sxn"],
        capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert done.returncode == 2
    assert done.stderr.startswith('unknown device "h100-sxn"; did you mean "h100-sxm"')
    assert "Traceback" not in done.stderr


def test_help_imports_no_numpy_and_no_descriptions():
    code = (
        "import sys; from syncwall.cli import main\n"
        "main(['--help'])\n"
        "heavy = ('numpy', 'torch', 'pydantic', 'rich', 'yaml', 'tyro')\n"
        "print([m for m in heavy if m in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.splitlines()[-1] == "[]"


def test_a_reader_that_stops_early_is_no_error():
    command = f"{sys.executable} -m syncwall show models | head -1"
    done = subprocess.run(
        ["bash", "-o", "pipefail", "-c", command], capture_output=True, text=True, check=False
    )
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.split()[:2] == ["name", "parameters"]


def test_json_is_json_even_where_text_is_not_ascii(capsys):
    assert main(["show", "clusters", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)
