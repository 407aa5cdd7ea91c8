"""Run files with a measured speed, read alike wherever a run file is read."""

from pathlib import Path
from typing import Any

import pytest

from syncwall.ask.predict import PredictQuestion
from syncwall.describe import lookup
from syncwall.describe.files import run_text
from syncwall.describe.reading import read
from syncwall.describe.run import KnownRun, MeasuredSpeed
from syncwall.problems import InputError
from tests.describe.stated import run_with

RUN = """\
model: llama-3.1-8b
cluster: dgx-h100
nodes: 4
layout: {shard: fsdp, global_batch: 128}
"""
ONE_OF = "write one of `step`, `tokens_per_s`, `tokens_per_s_per_gpu`, `mfu` and `flops_per_gpu`"
TOKENS, GPUS = 128 * 8192, 32


def known(tmp_path: Path, measured: str) -> KnownRun:
    path = tmp_path / "known.yaml"
    path.write_text(RUN + measured)
    return read(path, KnownRun)


@pytest.mark.parametrize(
    "measured",
    [
        "{step: 4 s}",
        "{tokens_per_s: 262144}",
        "{tokens_per_s_per_gpu: 8192}",
        "{mfu: 0.25}",
        "4 s",
        "4000ms",
        "8192 tok/s/gpu",
        "8,192 tokens/s/GPU",
        "262.144k tok/s",
        "25%mfu",
        "0.25 MFU",
        "4 s/it",
        "4000 ms/step",
        "0.25 it/s",
        "250 TFLOP/s/GPU",
        "250 tflops",
        "{flops_per_gpu: 250 TFLOP/s}",
    ],
)
def test_ways_to_say_how_fast_it_was(measured, tmp_path):
    found = known(tmp_path, f"measured: {measured}\n").measured
    assert found.seconds(TOKENS, GPUS, at_peak_s=1.0, peak=1e15) == pytest.approx(4)


def test_whatever_reads_a_run_reads_what_was_measured(tmp_path):
    path = tmp_path / "known.yaml"
    path.write_text(RUN + "measured: 8192 tok/s/gpu\n")
    run = lookup.run(path)
    assert run.measured == known(tmp_path, "measured: {tokens_per_s_per_gpu: 8192}\n").measured
    assert run_with(path, {}).measured == run.measured
    assert run_with(path, {"measured": "4 s"}).measured == MeasuredSpeed(step_s=4)
    assert run.changed(micro_batch=1).measured is None  # another run was not measured
    path.write_text(run_text(run))
    assert lookup.run(path) == run


@pytest.mark.parametrize(
    ("measured", "message"),
    [
        ("", 'known.yaml:1:1  "measured" is missing'),
        ("measured: {}\n", f"known.yaml:5:1  {ONE_OF}"),
        ("measured: {step: 4 s, tokens_per_s: 9}\n", f"known.yaml:5:1  {ONE_OF}"),
        ("measured: {tokens_per_s: 9, tokens_per_s_per_gpu: 3}\n", f"known.yaml:5:1  {ONE_OF}"),
        ("measured: {step: -4 s}\n", 'known.yaml:5:12  "-4 s" is not a time'),
        ("measured: {step: 4}\n", 'known.yaml:5:12  "4" has no unit'),
        ("measured:\n  tokens_per_s: -9\n", "known.yaml:6:3  "),
        ("measured:\n  tokens_per_s: true\n", "known.yaml:6:3  "),
        ("measured:\n  tokens_per_s_per_gpu: 0\n", "known.yaml:6:3  "),
        ("measured: {step: 0 s}\n", "known.yaml:5:12  0 s is not a time: write for example"),
        (
            "measured: {tokens_per_s: 1e-300}\n",
            "known.yaml:5:1  a step of 1.04858e+306 s is",
        ),
        ("measured: {steps: 4 s}\n", 'known.yaml:5:12  unknown key "steps"; did you mean "step"?'),
        ("measured: fast\n", 'known.yaml:5:1  "fast" is not a speed: write "9.1 s", "5100 tok/s'),
        ("measured: 5100\n", "known.yaml:5:1  5100 has no unit, and no framework is named: write"),
        ("measured: {mfu: 38}\n", "known.yaml:5:12  "),
    ],
)
def test_what_cannot_be_is_refused_with_its_line(measured, message, tmp_path):
    with pytest.raises(InputError) as caught:
        known(tmp_path, measured)
    assert message in str(caught.value)


@pytest.mark.parametrize("measured", [5100, "5,100", "5100 tps"])
def test_a_bare_number_is_what_the_framework_logs(measured, tmp_path):
    path = tmp_path / "run.yaml"
    path.write_text(f"{RUN}software: {{framework: torchtitan}}\nmeasured: {measured}\n")
    assert lookup.run(path).measured == MeasuredSpeed(tokens_per_s_per_gpu=5100)
    found = PredictQuestion(run=path).answer()
    assert found.to_dict()["assumed"][0] == (
        f"measured {measured} is read as tokens/s/GPU, which is what torchtitan logs"
    )
    path.write_text(f"{RUN}software: {{framework: megatron-lm}}\nmeasured: {measured}\n")
    with pytest.raises(InputError, match="5100 has no unit, and megatron-lm logs no bare number"):
        lookup.run(path)


def test_flops_are_counted_as_the_framework_counts_them():
    """torchtitan counts 6 N + 12 l h q t for a token, of which half is above the diagonal."""
    run = {
        "model": "llama-3.1-8b",
        "cluster": "dgx-h100",
        "layout": {"shard": "fsdp"},
        "measured": "400 TFLOP/s",
    }
    model = lookup.model("llama-3.1-8b")
    weights = 6 * (model.parameter_count.total - model.parameter_count.embedding)
    square = 12 * 32 * 4096 * 8192
    for framework, attention in (("torchtitan", square), ("megatron-core", square / 2)):
        found: Any = PredictQuestion(run={**run, "software": {"framework": framework}}).answer()
        tokens = found.tokens / 8
        assert found.gap.measured_s == pytest.approx(tokens * (weights + attention) / 400e12, rel=1e-3)
