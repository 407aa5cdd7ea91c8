"""The calibrations of kernels are what their script makes of the measured tables."""

from pathlib import Path

import pytest

from tests.bench.numbers import same_numbers

ROOT = Path(__file__).parents[2]
TABLES = ROOT.parent / "shared/data/measured/03_gemm_attention"


@pytest.mark.weekly
@pytest.mark.skipif(not TABLES.is_dir(), reason="the measured tables are not beside the repository")
def test_the_fit_reproduces_the_calibrations(capsys):
    """To 2%: the last digit of an optimiser depends on the processor; `--check` is exact."""
    pytest.importorskip("scipy", reason="fits need scipy")
    from bench.fit import kernels

    texts = kernels.regenerated(TABLES)
    assert len(texts) == len(kernels.TARGETS)
    for path, text in texts.items():
        assert same_numbers(text, path.read_text()), path.name
    assert "h100-sxm gemm bf16: error mean" in capsys.readouterr().out


def test_numbers_are_compared_not_bytes():
    text = "gemm:\n  efficiency: 0.803\n  launch: 3.1 us\n  fitted:\n    kernels: 12 rows\n"
    assert same_numbers(text.replace("0.803", "0.804").replace("12 rows", "other"), text)
    assert same_numbers(text.replace("3.1 us", "3.12 us"), text)
    assert not same_numbers(text.replace("3.1 us", "3.12 ms"), text)
    assert not same_numbers(text.replace("3.1 us", "3.4 us"), text)
    assert not same_numbers(text.replace("0.803", "0.9"), text)
    assert not same_numbers(text.replace("launch", "start"), text)
    assert not same_numbers(text + "more: 1\n", text)
