from syncwall.cause import Cause
from syncwall.show.prediction import strips
from syncwall.timeline.streams import Interval


def test_busy_times_are_drawn_and_idle_ones_are_not():
    intervals = [
        Interval("a", Cause.GEMM, "compute", "forward", 0.0, 1.0),
        Interval("b", Cause.EXPOSED_DP, "reduce", "backward", 1.0, 2.0),
    ]
    assert strips(intervals, width=14) == ["compute  ██", "network    ██"]


def test_a_half_busy_cell_is_half_high():
    half = Interval("a", Cause.GEMM, "compute", "forward", 0.0, 0.5)
    drawn = strips([half, Interval("b", Cause.EXPOSED_TP, "tensor", "forward", 0.0, 1.0)], width=11)
    assert drawn == ["compute  ▄", "network  █"]
