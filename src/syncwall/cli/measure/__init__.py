"""`syncwall measure`: what links, devices and training steps really reach.

Holds `PARTS`.
"""

from typing import Final

PARTS: Final = {
    "collectives": "time of all-reduce and the others over sizes, with bus bandwidth",
    "links": "rate between every pair of ranks; the slow one is named",
    "matmul": "rate of matrix multiplications and other kernels of a step",
    "step": "a real DDP or FSDP2 training step, with its ledger",
    "calibration": "results as one file for `predict --calibration`",
}
