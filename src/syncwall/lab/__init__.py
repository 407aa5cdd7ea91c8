"""Several real hosts on one Linux machine: network namespaces, shaped links, real processes.

Holds `Topology`, `Experiment`, `lab` and what runs in it. See `docs/reference/lab.md`.
"""

from syncwall.lab.experiment import Experiment, LabJob, read_experiment
from syncwall.lab.experiment_run import LabRecord, result_of, run_experiment, run_topology
from syncwall.lab.virtual_hosts import Hosts, lab
from syncwall.lab.virtual_network import Topology

__all__ = [
    "Experiment",
    "Hosts",
    "LabJob",
    "LabRecord",
    "Topology",
    "lab",
    "read_experiment",
    "result_of",
    "run_experiment",
    "run_topology",
]
