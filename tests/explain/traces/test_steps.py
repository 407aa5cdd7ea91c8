"""Steps are found with and without the profiler's marks."""

from syncwall.explain.traces.activity import device_windows, trace_steps
from syncwall.read.kineto import read_trace
from tests.read.traces import event, launched, step, written


def trace(tmp_path, events):
    return read_trace(written(tmp_path / "t.json", events))


def ends(steps):
    return [(s.start_ns // 1000, s.end_ns // 1000) for s in steps]


def test_marks_close_up_unless_something_else_lies_between(tmp_path):
    found, by = trace_steps(trace(tmp_path, [step(1, 0, 100), step(2, 103, 97), step(3, 300, 100)]))
    assert by == "marks"
    assert ends(found) == [(0, 103), (103, 200), (300, 400)]


def test_annotated_optimizer_steps(tmp_path):
    work = [event("cpu_op", "aten::mm", 100 * i, 50) for i in range(4)]
    marks = [event("user_annotation", "Optimizer.step#SGD.step", 100 * i + 80, 10) for i in range(4)]
    found, by = trace_steps(trace(tmp_path, work + marks))
    assert by == "optimizer"
    assert ends(found) == [(90, 190), (190, 290), (290, 390)]


def test_kernels_of_the_optimizer(tmp_path):
    events = []
    for i in range(5):
        at = 1000 * i + 7 * (i % 2)
        events += launched("volta_sgemm_128x32_nt", at, at + 10, 700, 10 * i + 1)
        for j in range(3):
            events += launched(
                "multi_tensor_apply_kernel<Adam>", at + 20, at + 800 + 20 * j, 15, 10 * i + 2 + j
            )
    found, by = trace_steps(trace(tmp_path, events))
    assert by == "optimizer"
    assert len(found) == 4
    assert all(abs(s.end_ns - s.start_ns - 1_000_000) <= 7_000 for s in found)


def test_what_comes_back_at_even_distances(tmp_path):
    events = [
        event("cpu_op", name, 1000 * i + at, 50)
        for i in range(6)
        for at, name in ((0, "aten::embedding"), (200, "aten::mm"), (400, "aten::mm"))
    ]
    found, by = trace_steps(trace(tmp_path, events))
    assert by == "period"
    assert [s.end_ns - s.start_ns for s in found] == [1_000_000] * 5


def test_a_single_step_is_the_whole_trace(tmp_path):
    events = [event("cpu_op", f"aten::op{i}", 10 * i, 9) for i in range(20)]
    found, by = trace_steps(trace(tmp_path, events))
    assert by == "whole trace"
    assert ends(found) == [(0, 199)]


def test_queued_work_counts_to_the_step_that_asked_for_it(tmp_path):
    """The host is a whole step ahead: its step of 100 us asks for 300 us of work."""
    events = [step(1, 0, 100), step(2, 100, 100)]
    events += launched("gemm_a", 10, 20, 300, 1) + launched("gemm_b", 110, 320, 300, 2)
    t = trace(tmp_path, events)
    start, end = device_windows(t, trace_steps(t)[0])
    assert start.tolist() == [0, 320_000]
    assert end.tolist() == [320_000, 620_000]
