"""Communication is what its script makes of the measured tables, and how near it comes."""

import csv
import shutil
from pathlib import Path

import numpy as np
import pytest
from bench.accuracy.collectives import report
from bench.fit import collectives
from bench.fit.collectives import fit_transports
from bench.fit.search import search
from bench.fit.tables import HELD_OUT, is_held_out, nccl_tests

from tests.bench.numbers import same_numbers

ROOT = Path(__file__).parents[2]
TABLES = ROOT.parent / "shared/data/measured/01_collectives"
pytestmark = pytest.mark.skipif(
    not TABLES.is_dir(), reason="the measured tables are not beside the repository"
)


@pytest.fixture(scope="module")
def errors() -> dict[str, float]:
    return {line.name: line.error for line in report(TABLES)}


@pytest.mark.weekly
def test_the_fit_reproduces_the_files():
    """To 2%: logarithms differ in their last digit between processors; `--check` is exact."""
    for path, text in collectives.regenerated(TABLES).items():
        assert same_numbers(text, path.read_text()), path.name


def test_what_is_held_out_is_named():
    for nodes in (4, 8, 16, 32, 64):
        assert is_held_out(f"alps_gh200_{nodes}n_def_ofi1.13.0_142997")
    for nodes in (1, 2, 128, 256, 512):
        assert not is_held_out(f"alps_gh200_{nodes}n_def_ofi1.13.0_142995")
    for source in ("cw_gb200_20rack", "isambard_gh200_50n_ar", "mlperf50_google_h200_8n_r3"):
        assert is_held_out(source)


def test_fits_never_read_what_is_held_out(tmp_path):
    """With every time of a held-out source made unreadable, the fit finds the same values."""
    shutil.copytree(TABLES, tmp_path, dirs_exist_ok=True, copy_function=shutil.copyfile)
    path = tmp_path / "nccl_tests_rows.csv"
    with path.open(newline="") as file:
        rows = list(csv.DictReader(file))
    spoiled = [row for row in rows if row["source_id"].startswith(HELD_OUT)]
    for row in spoiled:
        row.update(dict.fromkeys(("size_bytes", "oop_time_us", "ip_time_us"), "unreadable"))
    with path.open("w", newline="") as file:
        writer = csv.DictWriter(file, rows[0].keys())
        writer.writeheader()
        writer.writerows(rows)
    assert len(spoiled) > 1000
    fits = [fit_transports(nccl_tests(d, held_out=False)) for d in (TABLES, tmp_path)]
    assert [each.values for each in fits[0]] == [each.values for each in fits[1]]
    with pytest.raises(ValueError, match="unreadable"):
        nccl_tests(tmp_path, held_out=True)


def test_eight_h100_are_within_8_percent(errors):
    """All 21 sizes of the four kinds, 512 B to 512 MB."""
    assert errors["h100_sxm, all kinds, 8 GPUs"] <= 0.08


@pytest.mark.parametrize(
    ("system", "gpus", "most"),
    [
        ("a100_sxm", 8, 0.09),
        ("h200_sxm", 8, 0.09),  # priced as the H100, of which it has the links
        ("b200_sxm", 8, 0.07),
        ("b300_sxm", 8, 0.07),
        ("gb200", 4, 0.07),
        ("gb300", 4, 0.07),
    ],
)
def test_other_devices_are_near(errors, system, gpus, most):
    assert errors[f"{system}, all kinds, {gpus} GPUs"] <= most
    assert errors[f"{system}, all kinds, fewer GPUs"] <= 0.09


def test_held_out_networks_stay_as_near_as_they_are(errors):
    """No fit has read these; the bounds are what was found, not what was aimed at."""
    assert errors["Alps GH200, 4-64 nodes"] <= 0.23
    assert errors["Isambard GH200"] <= 0.08
    assert errors["H200 8-node repeats"] <= 0.10


@pytest.mark.xfail(reason="21%; formulas are not chosen by this set, see communication.md")
def test_alps_is_within_15_percent(errors):
    assert errors["Alps GH200, 4-64 nodes"] <= 0.15


def test_a_search_finds_a_valley_and_keeps_its_limits():
    def loss(values):
        return float(np.log(values["a"] * values["b"] / 6) ** 2 + np.log(values["a"] / 2) ** 2 + 1)

    found = search(loss, {"a": 1.0, "b": 1.0}, {"a": (0.1, 10), "b": (0.1, 10)})
    assert found["a"] == pytest.approx(2, rel=0.01)
    assert found["b"] == pytest.approx(3, rel=0.01)
    assert search(loss, {"a": 1.0, "b": 1.0}, {"a": (0.1, 1.5), "b": (0.1, 10)})["a"] == 1.5
