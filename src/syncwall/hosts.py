"""Names of hosts: this machine's own, and the first one of a job.

Holds `LOOPBACK` and `first_of_slurm`.
"""

import re
from collections.abc import Mapping
from typing import Final

LOOPBACK: Final = frozenset({"127.0.0.1", "localhost", "::1"})


def first_of_slurm(environ: Mapping[str, str]) -> str:
    """The first of Slurm's nodes, which it writes as "gpu[03-10,12],login1"; empty without them."""
    nodes = environ.get("SLURM_STEP_NODELIST") or environ.get("SLURM_JOB_NODELIST") or ""
    found = re.match(r"([^,\[]+)(?:\[(\d+))?", nodes)
    return found[1] + (found[2] or "") if found else ""
