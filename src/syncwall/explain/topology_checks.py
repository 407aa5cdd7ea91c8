"""A host's topology against its description, what a job used and how its processes are bound.

Holds `check_topology`, which runs every check.
"""

from collections.abc import Mapping
from itertools import chain

from syncwall.describe import Cluster, Run
from syncwall.explain.finding import Finding, worst_first
from syncwall.explain.node_checks import check_gpus, check_links, check_nics
from syncwall.explain.placement_checks import (
    check_direct,
    check_distance,
    check_memory_nodes,
    check_pcie,
    check_peers,
    check_shared,
)
from syncwall.explain.used_checks import Used, check_used
from syncwall.read.topology import Topology

_CHECKS = (
    check_gpus,
    check_links,
    check_nics,
    check_distance,
    check_shared,
    check_pcie,
    check_direct,
    check_peers,
)


def check_topology(
    topology: Topology,
    machine: Cluster,
    run: Run | None = None,
    used: Used | None = None,
    bound: Mapping[int, frozenset[int]] | None = None,
) -> tuple[Finding, ...]:
    """What is wrong with the host for this machine's description, the worst first.

    With `run` (on `machine` as described) each finding that the model can price says what it costs.
    `used` adds what NCCL did, `bound` the processors that each GPU's process may use.
    """
    found = chain(
        chain.from_iterable(check(topology, machine, run) for check in _CHECKS),
        check_memory_nodes(topology, bound),
        check_used(topology, machine, used, run) if used else (),
    )
    return worst_first(found)
