"""One block of a calibration file is rewritten, the rest stays byte for byte."""

import importlib.util
from pathlib import Path
from types import ModuleType

import pytest
import yaml

PATH = Path(__file__).parents[2] / "bench/fit/blocks.py"
TEXT = """\
title: A device  # with a comment
gemm: {efficiency: 0.80, in_training: 0.9, low_precision: {fp8: 0.78}}
# of nobody
network:
  nic: 0.8   # kept

  fitted:
    collectives: >-
      some
      text
note: the end
"""


@pytest.fixture(scope="module")
def blocks() -> ModuleType:
    spec = importlib.util.spec_from_file_location("blocks", PATH)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_values_not_given_and_other_blocks_stay(blocks):
    changed = blocks.with_block(TEXT, "gemm", {"efficiency": 0.75}, {"kernels": "12 rows"})
    assert yaml.safe_load(changed)["gemm"] == {
        "efficiency": 0.75,
        "in_training": 0.9,
        "low_precision": {"fp8": 0.78},
        "fitted": {"kernels": "12 rows"},
    }
    assert changed.startswith("title: A device  # with a comment\ngemm:\n  efficiency: 0.75\n")
    assert changed.endswith(TEXT[TEXT.index("# of nobody") :])


def test_writing_twice_changes_nothing(blocks, tmp_path):
    path = tmp_path / "device.yaml"
    path.write_text(TEXT)
    said = {"kernels": "words " * 60}
    blocks.write_block(path, "network", {"nic": 0.7}, said)
    once = path.read_text()
    blocks.write_block(path, "network", {"nic": 0.7}, said)
    assert path.read_text() == once
    assert set(yaml.safe_load(once)["network"]["fitted"]) == {"collectives", "kernels"}
    assert once.endswith("\nnote: the end\n")


def test_a_new_block_goes_to_the_end(blocks):
    changed = blocks.with_block(TEXT, "attention", {"backward": 0.8}, {})
    assert changed == TEXT + "attention:\n  backward: 0.8\n"
