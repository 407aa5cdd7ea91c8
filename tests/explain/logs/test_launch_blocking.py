"""Blocking launches and the broadcast of buffers, on made-up and on real summaries.

Real ones: nsys reports of rank 0 of Anemoi on Isambard-AI (T. Lazauskas, Alan Turing Institute,
2026, github.com/alan-turing-institute/anemoi_on_isambard-ai), 1 to 100 nodes.
"""

import csv
from dataclasses import replace

import pytest

from syncwall.explain.logs import blocking, buffer_broadcast, nsys_findings, step_of
from syncwall.read.nsys_stats import NsysRow, read_nsys_stats
from tests.read.nccl_samples import MEASURED, nsys

REPORTS = MEASURED / "04_traces" / "isambard_nsys_reports"
needs_reports = pytest.mark.skipif(not REPORTS.is_dir(), reason="needs the reports in ../shared")


@pytest.fixture
def read(tmp_path):
    def reader(**changes):
        path = tmp_path / "report.txt"
        path.write_text(nsys(**changes))
        return read_nsys_stats(path)

    return reader


def test_blocking_launches_last_as_long_as_kernels(read):
    report = read(launch_ns=700_000_000, wait_ns=1_000_000)
    normal, blocked = blocking(read()), blocking(report)
    assert normal is not None
    assert not normal.seen
    assert blocked is not None
    assert blocked.seen
    assert blocked.launches.per_step == 100
    assert any("CUDA_LAUNCH_BLOCKING" in f.why for f in nsys_findings(report))


def test_long_launches_behind_a_full_queue_are_not_blocking(read):
    """A host that is far ahead waits in launches too, but even longer at the end of the step."""
    found = blocking(read(launch_ns=500_000_000, wait_ns=600_000_000))
    assert found is not None
    assert not found.seen


def test_broadcast_a_step(read):
    found = buffer_broadcast(read())
    assert found is not None
    assert found.per_step_s == pytest.approx(0.005)
    assert found.calls_per_step == 2
    assert found.slowdown == pytest.approx(100 / 95)


@needs_reports
@pytest.mark.parametrize(("nodes", "milliseconds"), [(10, 23.6), (25, 37.1), (50, 62.1), (100, 101.6)])
def test_published_broadcast_cost(nodes, milliseconds):
    """Published: 23.6, 37.1, 62.1 and 101.6 ms a step at 10, 25, 50 and 100 nodes."""
    stats = read_nsys_stats(next(REPORTS.glob(f"{nodes}nodes__*")))
    found = buffer_broadcast(stats)
    assert found is not None
    assert round(found.per_step_s * 1e3, 1) == milliseconds
    assert any("broadcast_buffers=False" in f.next for f in nsys_findings(stats))


@needs_reports
def test_published_cost_of_blocking_launches():
    """Published: a launch of 215.3 in place of 11.8 µs, 625,691 of them, 987 to 1,234 ms: 25%.

    Of the slow run only this table is published: its step and launches are set into the report of
    the healthy run. Against that run's median (977 ms) the step is 26% longer.
    """
    healthy = read_nsys_stats(next(REPORTS.glob("1gpu__*")))
    seen, healthy_step = blocking(healthy), step_of(healthy)
    assert seen is not None
    assert not seen.seen
    assert round(seen.launches.per_step) == 3130
    assert seen.launches.mean_s == pytest.approx(11.8e-6, rel=0.01)
    assert healthy_step is not None
    step = replace(healthy_step, median_s=1.234, mean_s=1.234, total_s=200 * 1.234)
    launch = NsysRow("cudaLaunchKernel", 625_691, 625_691 * 215.3e-6, 215.3e-6)
    tables = healthy.tables | {"nvtx_sum": (step,), "cuda_api_sum": (launch,)}
    slow = blocking(replace(healthy, tables=tables), healthy)
    assert slow is not None
    assert slow.seen
    assert slow.slowdown is not None
    assert round(slow.slowdown, 2) == 1.26
    assert round(slow.launches.mean_s * 1e6) == 215


@needs_reports
@pytest.mark.parametrize("path", sorted(REPORTS.glob("*")), ids=lambda path: path.name[:30])
def test_no_published_report_blocks_and_steps_agree_with_the_table(path):
    stats = read_nsys_stats(path)
    found, step = blocking(stats), step_of(stats)
    assert found is not None
    assert not found.seen
    with (REPORTS.parent / "isambard_step_decomposition.csv").open() as file:
        row = next(r for r in csv.DictReader(file) if r["report_file"] == path.name)
    assert step is not None
    assert step.count == int(row["steps"])
    for name in ("step", "backward", "optimizer"):
        part = stats.row("nvtx_sum", name)
        assert part is not None
        assert part.median_s is not None
        assert part.median_s * 1e3 == pytest.approx(float(row[f"median_{name}_ms"]), abs=0.006)
