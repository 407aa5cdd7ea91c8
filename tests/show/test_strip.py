from syncwall.show.strip import strips
from syncwall.timeline.streams import Interval


def test_busy_times_are_drawn_and_idle_ones_are_not():
    intervals = [
        Interval("a", "GEMM", "compute", 0.0, 1.0),
        Interval("b", "exposed DP", "reduce", 1.0, 2.0),
    ]
    assert strips(intervals, width=4) == {"compute": "██  ", "network": "  ██"}


def test_a_half_busy_cell_is_half_high():
    drawn = strips([Interval("a", "x", "compute", 0.0, 0.5), Interval("b", "x", "tensor", 0, 1)], 1)
    assert drawn == {"compute": "▄", "network": "█"}
