"""A run that was measured.

Holds `KnownRun`: a run file whose key `measured` is not left out.
"""

from syncwall.describe.measured_speed import MeasuredSpeed
from syncwall.describe.run import Run


class KnownRun(Run):
    """A training run with its measured speed."""

    measured: MeasuredSpeed
