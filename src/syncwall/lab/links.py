"""A lab as links, so that flows which share them can be predicted.

Holds `links_of_lab`, `ends_of_lab`, and `rings_s`: how long rings of several jobs take at once.
"""

from collections.abc import Sequence

import numpy as np

from syncwall.lab.topology import Topology
from syncwall.network.fair import Usage, fluid_s
from syncwall.network.graph import Floats, Links, links_of, slowed
from syncwall.network.routes import Ends, Routes


def links_of_lab(topology: Topology) -> Links:
    """Every adapter and every link of switches."""
    rails, leaves, spines = topology.rails, topology.leaves, topology.spines
    host, nic = np.divmod(np.arange(topology.hosts * topology.nics), topology.nics)
    leaf = np.array([topology.leaf_of(one) for one in host.tolist()])
    rate = topology.rate_bytes_per_s
    each = leaves + spines
    names = [
        f"{kind}:{rail + 1}-{number + 1}"
        for rail in range(rails)
        for kind, count in (("leaf", leaves), ("spine", spines))
        for number in range(count)
    ]
    cables = [
        (rail * each + below, rail * each + leaves + above, topology.uplink_bytes_per_s)
        for rail in range(rails)
        for below in range(leaves)
        for above in range(spines)
    ]
    hosts = [f"h{number}" for number in range(topology.hosts)]
    return links_of(hosts, nic % rails * each + leaf, rate, names, cables, rails=rails > 1)


def ends_of_lab(topology: Topology) -> Ends:
    """The hosts of a lab as ranks, one each."""
    hosts = np.arange(topology.hosts)
    return Ends(hosts, np.zeros_like(hosts), 1, topology.nics, 1)


def rings_s(
    topology: Topology, jobs: Sequence[tuple[Sequence[int], float]],
    slow: dict[int, float] | None = None,
) -> Floats:  # fmt: skip
    """When each job has ended: its hosts in the order of a ring, and the bytes that each sends.

    `slow`: bytes a second of the adapters of some hosts.
    """
    parts = {f"node:h{host}": rate for host, rate in (slow or {}).items()}
    links = slowed(links_of_lab(topology), parts)
    routes = Routes(links, "static", ends_of_lab(topology))
    source = np.concatenate([np.asarray(hosts) for hosts, _ in jobs])
    target = np.concatenate([np.roll(hosts, -1) for hosts, _ in jobs])
    stream = np.repeat(np.arange(len(jobs)), [len(hosts) for hosts, _ in jobs])
    entries = routes.entries(source, target, np.random.default_rng(0), 1)
    usage = Usage.of(stream[entries.flow], entries.link, links.rates)
    return fluid_s(usage, [sent for _, sent in jobs])
