"""What of PyTorch is replaced while a program is recorded: rows, by what they stand in for.

`TABLES` are applied together, in this order, by `recorder.recording`.
"""

from syncwall.capture.shims.compiled_kernels import KERNELS
from syncwall.capture.shims.cuda_calls import DEVICE
from syncwall.capture.shims.fsdp1 import FSDP1
from syncwall.capture.shims.parallel import PARALLEL
from syncwall.capture.shims.placeholders import VALUES
from syncwall.capture.shims.process_groups import RANKS

TABLES = (RANKS, DEVICE, VALUES, PARALLEL, FSDP1, KERNELS)
