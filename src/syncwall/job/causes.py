"""Failures of a machine by cause: rates of a study times what the machine has of each part.

Holds `Machine` and `causes_of`.
"""

from dataclasses import dataclass
from typing import Self

from syncwall.describe import Cluster, Failures
from syncwall.describe.failures import FailureRates, Part, Taken
from syncwall.job.defaults import RACK_NODES
from syncwall.job.plan import DAY_S, Cause


@dataclass(frozen=True, slots=True)
class Machine:
    """What can fail, and what fails with it."""

    parts: dict[Part, int]
    """How many there are of each."""
    nodes: int
    domain_nodes: int
    """Nodes that a failed GPU or node takes away."""
    rack_nodes: int

    @classmethod
    def of(cls, said: Failures, cluster: Cluster) -> Self:
        """The part of `cluster` that is in use; `said` may set how much fails together."""
        nodes, per_node = int(cluster.nodes), int(cluster.gpus_per_node)
        gpus = int(said.domain_gpus or cluster.domain_gpus)
        domain = min(max(-(-gpus // per_node), 1), nodes)
        rack = min(int(said.rack_nodes or max(domain, RACK_NODES)), nodes)
        nics = cluster.node.nics
        leaf = min(cluster.fabric.tiers[0].nodes or nodes, nodes)
        parts: dict[Part, int] = {
            "gpu": nodes * per_node,
            "node": nodes,
            "nic": nodes * int(nics.count) if nics else 0,
            "switch": -(-nodes // leaf) * int(cluster.fabric.rails),
            "rack": -(-nodes // rack),
            "job": 1,
        }
        return cls(parts, nodes, domain, rack)

    def taken(self, what: Taken) -> int:
        """Nodes that are away while `what` is repaired."""
        return {"nothing": 0, "node": 1, "domain": self.domain_nodes, "rack": self.rack_nodes}[what]

    def all_alike(self, per_1000_node_days: float) -> tuple[Cause, ...]:
        """Failures of nodes only, so many of 1,000 in a day."""
        per_s = per_1000_node_days / 1000.0 / DAY_S * self.nodes
        return (Cause("node", per_s, self.domain_nodes),)


def causes_of(rates: FailureRates, machine: Machine) -> tuple[Cause, ...]:
    """What stops a job on `machine` if its parts fail as in `rates`."""
    return tuple(
        Cause(
            cause.name,
            cause.per_1000_days / 1000.0 / DAY_S * machine.parts[cause.per],
            machine.taken(cause.takes),
        )
        for cause in rates.causes
    )
