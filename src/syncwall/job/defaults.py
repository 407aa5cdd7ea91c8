"""What is taken where a job file says nothing, each with its source.

Holds the constants that `syncwall.job.settled` uses.
"""

from typing import Final

DETECTION_S: Final = 600.0
"""Until a dead rank is noticed: the timeout of NCCL in PyTorch, with which Wan 2025 (table 3)
compares; MegaScale reports under 10 min with diagnosis (Jiang 2024, section 6.3)."""
DETECTION_SOURCE: Final = "timeout of NCCL in PyTorch"
QUICK_DETECTION_S: Final = 30.0
"""With inspection of NICs, switches and drivers: 2 to 60 s (Wan 2025, arXiv:2509.16293,
table 3)."""
RESTART_S: Final = 60.0
RESTART_PER_GPU_S: Final = 0.0085
"""Cold recovery of 200 s on 16,000 GPUs, 300 s on 22,000, 600 s on 64,000, 900 s on 98,000 (Meta
2026, arXiv:2602.00277, read from figure 2)."""
RESTART_SOURCE: Final = "line through Meta 2026, arXiv:2602.00277, figure 2"
REPAIR_S: Final = 86400.0
"""Nobody publishes it; assumed."""
STORAGE_PER_NODE: Final = 1e9
"""Bytes/s that a node writes: 1.2e9 for BLOOM (2.3 TB in 40 s from 48 nodes), 1e9 for Llama 3
(2 TB/s for 2,048 nodes; arXiv:2407.21783, section 3.3.1)."""
STORAGE_AT_MOST: Final = 100e9
"""Bytes/s of the whole job: 50e9 to 200e9 in 85,000 checkpoints of 40 runs (VAST 2026)."""
STORAGE_SOURCE: Final = "1 GB/s a node (BLOOM, Llama 3), at most 100 GB/s (VAST 2026)"
COPY_PER_GPU: Final = 1e9
"""Bytes/s of a GPU's copy to host memory: 405B on 8,960 GPUs stops for 0.59 s (ByteCheckpoint,
arXiv:2407.20143, table 8)."""
COPY_SOURCE: Final = "ByteCheckpoint, arXiv:2407.20143, table 8"
RACK_NODES: Final = 4
"""Nodes of 8 GPUs in a rack, as in a DGX SuperPOD with H100; assumed for others."""
TRAYS_SOURCE: Final = "trays are exchanged inside their rack (CoreWeave)"
"""A failed GPU of an NVL72 costs its tray of four, which is exchanged in the same rack and not by
one of another; workloads should tolerate two of 18 away, and with more the rack is drained
(CoreWeave 2025, docs.coreweave.com/docs/platform/instances/gb200)."""
SHORT_SHARE: Final = 0.01
"""Spares are chosen so that the job is short of nodes for less of the time, also on a cluster that
fails more often than nine of ten."""
LOAD: Final = 0.8
"""Mean power of a GPU in training over its TDP; assumed."""
HOST: Final = 0.5
"""Power of CPUs, NICs, switches and fans over that of the GPUs; assumed. A DGX H100 draws up to
10.2 kW with 5.6 kW of GPUs."""
PUE: Final = 1.2
"""Power of the building over that of the machines; assumed. New large sites state 1.1."""
