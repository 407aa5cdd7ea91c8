"""Summaries of nsys, as text and as CSV."""

import pytest

from syncwall.problems import InputError
from syncwall.read.nsys_stats import read_nsys_stats
from tests.read.nccl_samples import nsys


def test_text_tables(tmp_path):
    path = tmp_path / "report.txt"
    path.write_text(nsys())
    stats = read_nsys_stats(path)
    assert {name: len(rows) for name, rows in stats.tables.items()} == {
        "nvtx_sum": 1,
        "cuda_api_sum": 2,
        "cuda_gpu_kern_sum": 2,
    }
    step = stats.row("nvtx_sum", "step")
    assert step is not None
    assert step.count == 10
    assert (step.total_s, step.median_s) == pytest.approx((1, 0.09))
    assert stats.rows("cuda_gpu_kern_sum", "gemm")[0].name == "gemm<int, (bool)1>"


def test_csv(tmp_path):
    path = tmp_path / "report_cuda_api_sum.csv"
    path.write_text(
        "Time (%),Total Time (ns),Num Calls,Avg (ns),Med (ns),Min (ns),Max (ns),StdDev (ns),Name\n"
        '90.0,2000000,100,20000.0,19000.0,1,2,0.0,"f(int, int)"\n'
    )
    (row,) = read_nsys_stats(path).tables["cuda_api_sum"]
    assert (row.name, row.count) == ("f(int, int)", 100)
    assert row.mean_s == pytest.approx(2e-5)


def test_other_text_is_an_error(tmp_path):
    path = tmp_path / "x.txt"
    path.write_text("hello\n")
    with pytest.raises(InputError, match="nsys stats"):
        read_nsys_stats(path)
