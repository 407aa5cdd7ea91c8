"""Devices that differ from another one."""

import pytest

from syncwall.cost.calibration import calibration
from syncwall.describe import lookup
from syncwall.describe.choice import Dtype
from syncwall.describe.cluster import Cluster
from syncwall.describe.names import varied


def described(**changes):
    node = {"device": {"base": "h100-sxm", **changes}, "gpus": 1}
    return Cluster.model_validate({"node": node}).device


def test_a_power_limit_slows_down_what_multiplies():
    chip = described(power_limit="500 W")
    assert chip.clock_share == pytest.approx(0.845, abs=1e-3)
    plain, limited = calibration(lookup.device("h100-sxm")), calibration(chip)
    assert limited.training["2020-01"] == pytest.approx(plain.training["2020-01"] * 0.845, rel=1e-3)
    assert limited.attention.flash_3 == pytest.approx(plain.attention.flash_3 * 0.845, rel=1e-3)
    assert limited.elementwise == plain.elementwise
    assert not limited.is_measured


def test_a_limit_above_what_the_device_takes_changes_nothing():
    assert calibration(described(power_limit="900 W")) is calibration(lookup.device("h100-sxm"))


def test_a_variant_keeps_the_calibration_of_its_chip():
    chip = described(memory={"size": "64 GB"})
    assert (chip.like, chip.memory.size_bytes) == ("h100-sxm", 64e9)
    assert chip.memory.rate_bytes_per_s == 3.35e12
    assert calibration(chip).device == "h100-sxm"


def test_peaks_go_with_multiprocessors_and_clock():
    """Leonardo's A100: 124 multiprocessors at 1.395 GHz, 354 TFLOP/s in bf16."""
    chip = lookup.device("a100-sxm-64")
    assert chip.flop_per_s(Dtype.BF16) == pytest.approx(354.4e12, rel=1e-3)
    assert described(multiprocessors=66).flop_per_s(Dtype.BF16) == pytest.approx(989.4e12 / 2)
    stated = described(multiprocessors=66, peak={"bf16": "500 TFLOP/s"})
    assert stated.flop_per_s(Dtype.BF16) == 500e12


def test_a_variant_of_a_variant_is_still_the_same_chip():
    chip = varied(lookup.device("h100-sxm-500w"), {"memory": {"size": 80e9}})
    assert (chip.like, chip.power_limit_w) == ("h100-sxm", 500)


@pytest.mark.parametrize("name", ["v100-sxm-32", "gh200", "h800-sxm", "mi300x"])
def test_devices_that_nobody_measured_are_not_called_measured(name):
    assert not calibration(lookup.device(name)).is_measured
