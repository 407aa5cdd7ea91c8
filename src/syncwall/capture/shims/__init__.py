"""What of PyTorch is replaced while a program is recorded: rows, by what they stand in for.

`TABLES` are applied together, in this order, by `recorder.recording`.
"""

from syncwall.capture.shims.device import DEVICE
from syncwall.capture.shims.kernels import KERNELS
from syncwall.capture.shims.parallel import PARALLEL
from syncwall.capture.shims.ranks import RANKS

TABLES = (RANKS, DEVICE, PARALLEL, KERNELS)
