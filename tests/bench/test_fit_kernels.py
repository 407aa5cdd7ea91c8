"""The calibrations of kernels are what their script makes of the measured tables."""

import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
TABLES = ROOT.parent / "shared/data/measured/03_gemm_attention"


@pytest.mark.slow
@pytest.mark.skipif(not TABLES.is_dir(), reason="the measured tables are not beside the repository")
def test_the_fit_reproduces_the_calibrations():
    pytest.importorskip("scipy", reason="fits need scipy")
    command = [sys.executable, "bench/fit/kernels.py", str(TABLES), "--check"]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert "h100-sxm gemm bf16: error mean" in done.stdout
