"""Real benchmarks on torch.distributed and on the device.

Holds `Result`, the file in which every measurement ends. Nothing here imports torch before a
benchmark runs.
"""

from syncwall.measure.result import Result

__all__ = ["Result"]
