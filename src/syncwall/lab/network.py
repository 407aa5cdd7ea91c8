"""From a topology to the commands that build it: nothing here is run.

Holds `LabNetwork` and `network`. Every host and every switch is a network namespace of its own,
joined by veth pairs; the machine's own network is not touched, and deleting the namespaces removes
all. Switches are bridges; where leaves have several ways up, they are routers, and the kernel
chooses a way for each connection by a hash of addresses and ports.

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
_ROUTER_SETTINGS: Final = (
    *_SETTINGS[-2:],
    "net.ipv4.ip_forward=1",
    "net.ipv4.fib_multipath_hash_policy=1",  # ports count
    "net.ipv4.conf.all.rp_filter=0",
    "net.ipv4.conf.default.rp_filter=0",
    "net.ipv4.conf.all.proxy_arp=1",
    "net.ipv4.conf.default.proxy_arp=1",
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
    for number, switch in enumerate(switches):
        routes = topology.uplinks > 1
        commands += _router_made(switch, number) if routes else _switch_made(switch)
    for host in range(topology.hosts):
        for nic in range(topology.nics):
            commands += _nic_made(topology, hosts[host], switches, host, nic)
    for rail in range(topology.rails):
        first = rail * _switches_of_a_rail(topology)
        mine = switches[first : first + _switches_of_a_rail(topology)]
        leaves, spines = mine[: topology.leaves], mine[topology.leaves :]
        commands += _spines_joined(topology, leaves, spines)
        if topology.uplinks > 1:
            commands += _routed(topology, leaves, spines, rail)
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
    return topology.leaves + topology.spines


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


def _router_made(namespace: str, number: int) -> tuple[Command, ...]:
    """It answers for all that it can reach, so that hosts need no routes.

    Its own address is where it asks from; nothing is ever sent to it.
    """
    own = f"10.78.{number // 250}.{number % 250 + 1}/32"
    return (
        ("ip", "netns", "add", namespace),
        ("ip", "netns", "exec", namespace, "sysctl", "-q", "-w", *_ROUTER_SETTINGS),
        ("ip", "-n", namespace, "link", "set", "lo", "up"),
        ("ip", "-n", namespace, "address", "add", own, "dev", "lo"),
    )


def _nic_made(
    topology: Topology, namespace: str, switches: tuple[str, ...], host: int, nic: int
) -> list[Command]:
    switch, end = port(topology, switches, host, nic)
    name, rate = f"eth{nic}", topology.rate_bytes_per_s
    return [
        ("ip", "link", "add", "name", name, "netns", namespace,
         "type", "veth", "peer", "name", end, "netns", switch),
        *_plugged(topology, switch, end),
        ("ip", "-n", namespace, "address", "add", f"{address(host, nic)}/24", "dev", name),
        ("ip", "-n", namespace, "link", "set", name, "up"),
        slowed(namespace, name, rate),
        slowed(switch, end, rate),
    ]  # fmt: skip


def _plugged(topology: Topology, switch: str, end: str) -> tuple[Command, ...]:
    """A port in use; a router must not wait, up to 0.8 s, before it answers for others."""
    up = ("ip", "-n", switch, "link", "set", end, "up")
    if topology.uplinks == 1:
        return ((*up, "master", "br0"),)
    at_once = f"net.ipv4.neigh.{end}.proxy_delay=0"
    return (up, ("ip", "netns", "exec", switch, "sysctl", "-q", "-w", at_once))


def _spines_joined(
    topology: Topology, leaves: tuple[str, ...], spines: tuple[str, ...]
) -> list[Command]:
    rate, commands = topology.uplink_bytes_per_s, list[Command]()
    for way, spine in enumerate(spines):
        for number, leaf in enumerate(leaves):
            up, down = f"uplink{way}", f"leaf{number}"
            commands += [
                ("ip", "link", "add", "name", up, "netns", leaf,
                 "type", "veth", "peer", "name", down, "netns", spine),
                *_plugged(topology, leaf, up),
                *_plugged(topology, spine, down),
                slowed(leaf, up, rate),
                slowed(spine, down, rate),
            ]  # fmt: skip
    return commands


def _routed(
    topology: Topology, leaves: tuple[str, ...], spines: tuple[str, ...], rail: int
) -> list[Command]:
    """A route to every adapter: over its port, over its leaf, or over any spine."""
    ways = [word for way in range(len(spines)) for word in ("nexthop", "dev", f"uplink{way}")]
    commands: list[Command] = []
    for host in range(topology.hosts):
        for nic in range(rail, topology.nics, topology.rails):
            to, home = f"{address(host, nic)}/32", topology.leaf_of(host)
            for number, leaf in enumerate(leaves):
                way = ["dev", f"h{host}n{nic}"] if number == home else ways
                commands.append(("ip", "-n", leaf, "route", "add", to, *way))
            commands += [
                ("ip", "-n", spine, "route", "add", to, "dev", f"leaf{home}") for spine in spines
            ]
    return commands
