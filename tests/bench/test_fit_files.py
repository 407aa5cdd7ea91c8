"""One block of a calibration file is rewritten, the rest stays byte for byte."""

import yaml
from bench.fit.files import update, with_block

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


def test_values_not_given_and_other_blocks_stay():
    changed = with_block(TEXT, "gemm", {"efficiency": 0.75}, {"kernels": "12 rows"})
    assert yaml.safe_load(changed)["gemm"] == {
        "efficiency": 0.75,
        "in_training": 0.9,
        "low_precision": {"fp8": 0.78},
        "fitted": {"kernels": "12 rows"},
    }
    assert changed.startswith("title: A device  # with a comment\ngemm:\n  efficiency: 0.75\n")
    assert changed.endswith(TEXT[TEXT.index("# of nobody") :])


def test_writing_twice_changes_nothing(tmp_path):
    path = tmp_path / "device.yaml"
    path.write_text(TEXT)
    said = {"kernels": "words " * 60}
    update({path: with_block(TEXT, "network", {"nic": 0.7}, said)}, check=False)
    once = path.read_text()
    again = with_block(once, "network", {"nic": 0.7}, said)
    assert again == once
    assert update({path: again}, check=True) == 0
    assert set(yaml.safe_load(once)["network"]["fitted"]) == {"collectives", "kernels"}
    assert once.endswith("\nnote: the end\n")


def test_a_new_block_goes_to_the_end():
    changed = with_block(TEXT, "attention", {"backward": 0.8}, {})
    assert changed == TEXT + "attention:\n  backward: 0.8\n"


def test_a_check_writes_nothing(tmp_path, capsys):
    path = tmp_path / "device.yaml"
    path.write_text(TEXT)
    assert update({path: TEXT + "more: 1\n"}, check=True) == 1
    assert path.read_text() == TEXT
    assert capsys.readouterr().out == "differs: device.yaml\n"
