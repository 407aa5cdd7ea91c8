"""From when on something is a finding: every number of the judges, and why it is that one.

Holds `Thresholds` and `THRESHOLDS`, those in force. They were fixed before the runs that are
reported in `docs/explanation/watch.md`.
"""

from dataclasses import dataclass
from typing import Final


@dataclass(frozen=True, slots=True)
class Thresholds:
    """All of them."""

    poll_s: float = 0.25
    """Between two looks at rings and processes: a stopped rank is named within 0.5 s."""
    judge_s: float = 1.0
    """Between two judgements of speed; those of processes are made at every look."""

    hang_floor_s: float = 3.0
    """Silence that no short step explains: pauses of garbage collection and of the file system are
    below a second."""
    hang_steps: float = 5.0
    """Silence in steps: a rank that is this late has never caught up in the prototype's runs."""
    hang_beyond_longest: float = 1.5
    """A silence is no hang below this multiple of the longest one that the rank has survived."""
    nobody_waits_s: float = 60.0
    """Silence of ranks of which none waits for another: they are busy with the same thing, such as
    what a script does after its last step."""
    start_s: float = 600.0
    """Before the first steps: loading, compiling and the first collective take minutes."""
    save_s: float = 600.0
    """Within a checkpoint or an evaluation: they are long, and only some ranks write."""

    cascade_s: float = 10.0
    """A rank that dies so soon after another dies of it: its collective breaks, or torchrun ends
    it; torchrun waits 30 s before it kills, but sends the first signal at once."""
    node_silent_s: float = 3.0
    """A node whose report stays the same; reports come four times a second."""

    throttled_s: float = 15.0
    """For which clocks are held down: a burst of work does so for moments."""
    device_error_s: float = 600.0
    """For which an error of a device is told: what it does to the job comes later."""

    window: int = 25
    """Steps of which medians are compared; one in four ranks may have a hiccup a window."""
    windows: int = 3
    """In a row, so that a straggler is named within 100 steps and a busy minute is not one."""
    straggler_share: float = 0.03
    """By which own time must exceed the median of the ranks, as a share of it, in each window."""
    straggler_deviations: float = 5.0
    """The same of the mean of the windows, in median absolute deviations of the ranks."""
    straggler_mean: float = 0.06
    """The same in the mean of the windows: of a healthy run of 1,450 steps 1 of 58 windows was
    over 3%, and three in a row with 6% on average are not what a shared machine does."""
    fewest_ranks: int = 3
    """To call one of two ranks slow needs no statistics: the other is the only measure. Then the
    deviation is not known, and `straggler_two` holds."""
    straggler_two: float = 0.08
    """The share that holds in every window with two ranks."""

    slowed_share: float = 0.10
    """That the job's step grew by, against the median of all windows before."""
    slowed_windows: int = 3
    """In a row ..."""
    slowed_s: float = 30.0
    """... and for so long: a busy second of a machine is nobody's concern."""
    reference_windows: int = 4
    """That a slow-down is measured against at least, the first one left out: it warms up."""
    predicted_windows: int = 2
    """Beyond the interval of a prediction, in a row."""


THRESHOLDS: Final = Thresholds()
