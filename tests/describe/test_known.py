"""Run files with a measured speed."""

from pathlib import Path

import pytest

from syncwall.describe.known import KnownRun
from syncwall.describe.reading import read
from syncwall.problems import InputError

RUN = """\
model: llama-3.1-8b
cluster: dgx-h100
nodes: 4
layout: {shard: fsdp, global_batch: 128}
"""
ONE_OF = "write one of `step`, `tokens_per_s` and `tokens_per_s_per_gpu`"


def known(tmp_path: Path, measured: str) -> KnownRun:
    path = tmp_path / "known.yaml"
    path.write_text(RUN + measured)
    return read(path, KnownRun)


@pytest.mark.parametrize(
    "measured", ["{step: 4 s}", "{tokens_per_s: 262144}", "{tokens_per_s_per_gpu: 8192}"]
)
def test_three_ways_to_say_how_fast_it_was(measured, tmp_path):
    assert known(tmp_path, f"measured: {measured}\n").measured_s == pytest.approx(4)


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
        ("measured: fast\n", "known.yaml:5:1  "),
    ],
)
def test_what_cannot_be_is_refused_with_its_line(measured, message, tmp_path):
    with pytest.raises(InputError) as caught:
        known(tmp_path, measured)
    assert message in str(caught.value)
