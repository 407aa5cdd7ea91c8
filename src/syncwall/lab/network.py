"""From a topology to the commands that build it: nothing here is run.

Holds `LabNetwork` and `network`. Every host and every switch is a network namespace of its own,
joined by veth pairs; the machine's own network is not touched, and deleting the namespaces removes
all.

A link is slowed with a token bucket (`tbf`) at each of its ends. Its queue is longer than all that
TCP may have under way, so that nothing is ever dropped and a link is used up to its rate.
"""

from dataclasses import dataclass
from typing import Final

from syncwall.lab.topology import Topology

PREFIX: Final = "syncwall-"
_BURST_S: Final = 0.002
_LEAST_BURST_BYTES: Final = 100_000
"""Above 64 kB, the largest packet that TCP hands down: a smaller bucket would cut it up."""
_QUEUE_BYTES: Final = 256_000_000
_SETTINGS: Final = (
    "net.ipv4.tcp_congestion_control=reno",  # the one that every kernel has
    "net.ipv4.tcp_wmem=4096 65536 1048576",
    "net.ipv4.tcp_rmem=4096 131072 4194304",
    "net.ipv4.tcp_slow_start_after_idle=0",
    "net.ipv4.conf.all.rp_filter=0",
    "net.ipv4.conf.default.rp_filter=0",
    "net.ipv4.conf.all.arp_ignore=1",  # a NIC answers for its own address only
    "net.ipv4.conf.all.arp_announce=2",
    "net.ipv6.conf.all.disable_ipv6=1",
    "net.ipv6.conf.default.disable_ipv6=1",
)

Command = tuple[str, ...]


@dataclass(frozen=True)
class LabNetwork:
    """What has to be made for one lab."""

    lab: str
    hosts: tuple[str, ...]
    """Namespaces of the hosts."""
    switches: tuple[str, ...]
    """Namespaces of the switches."""
    commands: tuple[Command, ...]
    """In this order; the first ones make the namespaces."""

    @property
    def namespaces(self) -> tuple[str, ...]:
        """All that is made."""
        return self.hosts + self.switches


def network(topology: Topology, lab: str) -> LabNetwork:
    """The network of `topology` under the name `lab`."""
    hosts = tuple(host_namespace(lab, host) for host in range(topology.hosts))
    if topology.hosts == 1:
        return LabNetwork(lab, hosts, (), _host_made(hosts[0]))
    count = topology.rails * _switches_of_a_rail(topology)
    switches = tuple(f"{PREFIX}{lab}-s{number}" for number in range(count))
    commands = [step for host in hosts for step in _host_made(host)]
    commands += [step for switch in switches for step in _switch_made(switch)]
    for host in range(topology.hosts):
        for nic in range(topology.nics):
            commands += _nic_made(topology, hosts[host], switches, host, nic)
    for rail in range(topology.rails if topology.leaves > 1 else 0):
        commands += _spine_joined(topology, switches, rail)
    return LabNetwork(lab, hosts, switches, tuple(commands))


def host_namespace(lab: str, host: int) -> str:
    """The namespace that is a host."""
    return f"{PREFIX}{lab}-h{host}"


def address(host: int, nic: int = 0) -> str:
    """IPv4 address of an adapter."""
    return f"10.77.{nic}.{host + 1}"


def slowed(namespace: str, interface: str, rate_bytes_per_s: float, how: str = "add") -> Command:
    """The command that limits, or `how` = "change" limits anew, what an interface sends."""
    burst_bytes = max(rate_bytes_per_s * _BURST_S, _LEAST_BURST_BYTES)
    return (
        "tc", "-n", namespace, "qdisc", how, "dev", interface, "root", "tbf",
        "rate", f"{rate_bytes_per_s * 8:.0f}bit", "burst", f"{burst_bytes:.0f}b",
        "limit", f"{max(_QUEUE_BYTES, 2 * burst_bytes):.0f}b",
    )  # fmt: skip


def port(topology: Topology, switches: tuple[str, ...], host: int, nic: int) -> tuple[str, str]:
    """Namespace and interface of the switch port that an adapter hangs on."""
    rail = nic % topology.rails
    first = rail * _switches_of_a_rail(topology)
    return switches[first + topology.leaf_of(host)], f"h{host}n{nic}"


def _switches_of_a_rail(topology: Topology) -> int:
    return topology.leaves + (topology.leaves > 1)


def _host_made(namespace: str) -> tuple[Command, ...]:
    return (
        ("ip", "netns", "add", namespace),
        ("ip", "netns", "exec", namespace, "sysctl", "-q", "-w", *_SETTINGS),
        ("ip", "-n", namespace, "link", "set", "lo", "up"),
    )


def _switch_made(namespace: str) -> tuple[Command, ...]:
    return (
        ("ip", "netns", "add", namespace),
        ("ip", "netns", "exec", namespace, "sysctl", "-q", "-w", *_SETTINGS[-2:]),
        ("ip", "-n", namespace, "link", "add", "br0", "type", "bridge"),
        ("ip", "-n", namespace, "link", "set", "br0", "up"),
    )


def _nic_made(
    topology: Topology, namespace: str, switches: tuple[str, ...], host: int, nic: int
) -> list[Command]:
    switch, end = port(topology, switches, host, nic)
    name, rate = f"eth{nic}", topology.rate_bytes_per_s
    return [
        ("ip", "link", "add", "name", name, "netns", namespace,
         "type", "veth", "peer", "name", end, "netns", switch),
        ("ip", "-n", switch, "link", "set", end, "master", "br0", "up"),
        ("ip", "-n", namespace, "address", "add", f"{address(host, nic)}/24", "dev", name),
        ("ip", "-n", namespace, "link", "set", name, "up"),
        slowed(namespace, name, rate),
        slowed(switch, end, rate),
    ]  # fmt: skip


def _spine_joined(topology: Topology, switches: tuple[str, ...], rail: int) -> list[Command]:
    first = rail * _switches_of_a_rail(topology)
    spine, rate = switches[first + topology.leaves], topology.uplink_bytes_per_s
    commands: list[Command] = []
    for number in range(topology.leaves):
        leaf, down = switches[first + number], f"leaf{number}"
        commands += [
            ("ip", "link", "add", "name", "uplink", "netns", leaf,
             "type", "veth", "peer", "name", down, "netns", spine),
            ("ip", "-n", leaf, "link", "set", "uplink", "master", "br0", "up"),
            ("ip", "-n", spine, "link", "set", down, "master", "br0", "up"),
            slowed(leaf, "uplink", rate),
            slowed(spine, down, rate),
        ]  # fmt: skip
    return commands
