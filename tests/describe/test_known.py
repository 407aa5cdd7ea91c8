"""Run files with a measured speed, read alike wherever a run file is read."""

from pathlib import Path

import pytest

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
ONE_OF = "write one of `step`, `tokens_per_s`, `tokens_per_s_per_gpu` and `mfu`"
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
    ],
)
def test_ways_to_say_how_fast_it_was(measured, tmp_path):
    found = known(tmp_path, f"measured: {measured}\n").measured
    assert found.seconds(TOKENS, GPUS, at_peak_s=1.0) == pytest.approx(4)


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
        ("measured: 5100\n", "known.yaml:5:1  "),
        ("measured: {mfu: 38}\n", "known.yaml:5:12  "),
    ],
)
def test_what_cannot_be_is_refused_with_its_line(measured, message, tmp_path):
    with pytest.raises(InputError) as caught:
        known(tmp_path, measured)
    assert message in str(caught.value)
