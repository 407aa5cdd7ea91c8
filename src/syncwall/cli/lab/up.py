"""`syncwall lab up`: make the hosts and links of an experiment, and leave them there.

Holds `up`.
"""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import tyro

from syncwall.problems import InputError

if TYPE_CHECKING:
    from syncwall.lab.topology import Topology


def up(
    file: Annotated[Path, tyro.conf.Positional, tyro.conf.arg(metavar="FILE")],
    /,
    place: Annotated[str | None, tyro.conf.arg(metavar="HxW")] = None,
    rate: Annotated[str | None, tyro.conf.arg(metavar="RATE")] = None,
) -> int:
    """Make the hosts and links of an experiment; needs root.

    Args:
        file: The experiment (YAML).
        place: Hosts x workers on each, such as 2x2; the first of the experiment if left out.
        rate: Rate of a link, such as 100Mb/s; the first of the experiment if left out.
    """
    from syncwall.lab import machine
    from syncwall.lab.experiment import read_experiment
    from syncwall.lab.network import address

    experiment = read_experiment(file)
    topology = _chosen(experiment.topologies(), place, rate)
    made = machine.up(topology, machine.new_name(experiment.name))
    print(f"{made.lab}: {topology.label}\n")
    for host, namespace in enumerate(made.hosts):
        nics = range(topology.nics if topology.hosts > 1 else 0)
        addresses = ", ".join(f"eth{nic} {address(host, nic)}" for nic in nics) or "lo 127.0.0.1"
        print(f"  h{host}  {addresses}   ip netns exec {namespace} bash")
    print(f"\nremove it with: syncwall lab down {made.lab}")
    return 0


def _chosen(topologies: "list[Topology]", place: str | None, rate: str | None) -> "Topology":
    from syncwall import units

    try:
        wanted = units.parse(rate, units.Dimension.BYTES_PER_S) if rate else None
    except ValueError as error:
        raise InputError.of(f"--rate: {error}") from None
    for topology in topologies:
        fits = wanted is None or topology.hosts == 1 or topology.rate_bytes_per_s == wanted
        if fits and place in (None, topology.place):
            return topology
    there = ", ".join(topology.label for topology in topologies)
    raise InputError.of(f"the experiment has no {place or 'place'} at that rate; it has {there}")
