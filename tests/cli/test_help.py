"""Help: short by default, complete on demand, never wider than a narrow terminal."""

import subprocess
import sys

import pytest

from syncwall.cli import main
from syncwall.cli.commands import DOES as VERBS
from syncwall.cli.help import help_text
from syncwall.describe.choice import documented
from syncwall.describe.job import Checkpoints, Failures, Power
from syncwall.job import settled_job
from tests.cli.flags import commands, every_flag

COMMANDS = commands()
WITH_PARTS = ("plan", "measure", "lab")


@pytest.fixture(autouse=True)
def narrow(monkeypatch):
    monkeypatch.setenv("COLUMNS", "80")


@pytest.mark.parametrize("command", COMMANDS)
def test_every_flag_has_a_sentence_and_says_what_it_takes(command):
    for flag in every_flag(command):
        assert flag.text, flag.name
        assert "None" not in flag.text, flag.name
        assert flag.group, flag.name
        assert flag.takes != "VALUE" or "such as" in flag.text, flag.name


@pytest.mark.parametrize("command", COMMANDS)
def test_help_shows_what_matters_and_help_all_everything(command):
    short, full = (help_text(command, every=every) for every in (False, True))
    listed = [line for line in short.splitlines() if line.startswith("  ") and line[2] != " "]
    assert len(listed) <= 15
    for flag in every_flag(command):
        assert f"  {flag.short}" in full
    if len(listed) < len(every_flag(command)):
        assert f"`syncwall {command} --help-all` lists" in short
    else:
        assert short == full


@pytest.mark.parametrize("words", [[], *([verb] for verb in WITH_PARTS), *map(str.split, COMMANDS)])
@pytest.mark.parametrize("asked", ["--help", "--help-all"])
def test_help_fits_80_columns(words, asked, capsys):
    assert main([*words, asked]) == 0
    text = capsys.readouterr().out
    assert max(map(len, text.splitlines())) <= 80
    assert text.startswith("usage: syncwall")


def test_help_of_a_prediction(capsys):
    assert main(["predict", "--help-all"]) == 0
    text = " ".join(capsys.readouterr().out.split())
    for said in [
        "--shard KIND What data-parallel ranks keep only a part of; each kind includes those "
        "before it (ddp, zero1, zero2, fsdp, zero3; default: chosen)",
        "--bucket SIZE Gradients reduced in one call by DDP (default: 25 MiB)",
        "--tp N Tensor-parallel ranks (default: 1)",
        "--sp true|false ",
        "layout (in full --layout.NAME):",
        "--job.failures.early-time TIME ",
        "(default: 14 days)",
        "--job.evaluation.time TIME Time of one evaluation (such as 30min; default: off)",
        "--order LIST Rank order, the axis of neighbouring ranks first (tp, cp, ep, dp, pp; "
        "default: [tp, cp, ep, dp, pp])",
    ]:
        assert said in text


def test_help_of_a_search_says_what_is_searched(capsys):
    assert main(["plan", "layouts", "--help"]) == 0
    text = " ".join(capsys.readouterr().out.split())
    assert "--tp N Tensor-parallel ranks (default: searched)" in text
    assert "over all replicas; the model's published ones if not given" in text
    assert "several values: --tp 4,8" in text


def test_help_wins_over_everything_else(capsys):
    assert main(["predict", "--nodse", "4", "-h"]) == 0
    assert capsys.readouterr().out.startswith("usage: syncwall predict [FILE] [flags]")


def test_all_verbs_are_listed(capsys):
    assert main(["--help"]) == 0
    text = capsys.readouterr().out
    for verb, does in VERBS.items():
        assert f"  {verb:<11} {does}\n" in text


@pytest.mark.parametrize(
    ("described", "field", "said", "value"),
    [
        (Failures, "detection_s", "10 min", settled_job.DETECTION_S == 600),
        (Failures, "detection_s", "on 4 min", 230 < settled_job.OPERATED_DETECTION_S < 250),
        (Checkpoints, "blocking", "below 1,000 GPUs", settled_job.OPERATED_GPUS == 1000),
        (
            Failures,
            "restart_s",
            "1 min and 8.5 ms for each GPU",
            (settled_job.RESTART_S, settled_job.RESTART_PER_GPU_S) == (60, 0.0085),
        ),
        (Failures, "repair_s", "1 day", settled_job.REPAIR_S == 86400),
        (Failures, "rack_nodes", "4", settled_job.RACK_NODES == 4),
        (
            Checkpoints,
            "storage_bytes_per_s",
            "1 GB/s a node",
            settled_job.STORAGE_PER_NODE == 1e9,
        ),
        (Checkpoints, "copy_bytes_per_s", "1 GB/s", settled_job.COPY_PER_GPU == 1e9),
        (Power, "load", "0.8", settled_job.LOAD == 0.8),
        (Power, "host", "0.5", settled_job.HOST == 0.5),
        (Power, "pue", "1.2", settled_job.PUE == 1.2),
    ],
)
def test_defaults_of_a_job_are_said_as_they_are(described, field, said, value):
    assert value
    assert said in documented(described)[field]


def test_help_of_a_verb_loads_nothing_that_computes():
    code = (
        "import sys; from syncwall.cli import main\n"
        "main(['predict', '--help-all'])\n"
        "print([m for m in ('numpy', 'torch', 'rich', 'syncwall.answer') if m in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.splitlines()[-1] == "[]"
