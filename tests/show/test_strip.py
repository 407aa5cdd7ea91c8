from syncwall.show.strip import strips
from syncwall.timeline.streams import Interval


def test_busy_times_are_drawn_and_idle_ones_are_not():
    intervals = [
        Interval("a", "GEMM", "compute", "forward", 0.0, 1.0),
        Interval("b", "exposed DP", "reduce", "backward", 1.0, 2.0),
    ]
    assert strips(intervals, width=4) == {"compute": "██  ", "network": "  ██"}


def test_a_half_busy_cell_is_half_high():
    half = Interval("a", "x", "compute", "forward", 0.0, 0.5)
    drawn = strips([half, Interval("b", "x", "tensor", "forward", 0.0, 1.0)], width=1)
    assert drawn == {"compute": "▄", "network": "█"}
