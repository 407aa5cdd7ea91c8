"""The hosts and links of a lab as numbers, as links for predictions, and as commands that
build them.

Every host and every switch is a network namespace of its own, joined by veth pairs; the machine's
own network is not touched, and deleting the namespaces removes all. Switches are bridges; where
leaves have several ways up, they are routers, and the kernel chooses a way for each connection by a
hash of addresses and ports.

A link is slowed with a token bucket (`tbf`) at each of its ends. Its queue is longer than all that
TCP may have under way, so that nothing is ever dropped and a link is used up to its rate.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Annotated, Any, Final, Self

import numpy as np
from pydantic import BeforeValidator, Field, model_validator

from syncwall import units
from syncwall.describe.base import BytesPerSecond, Description, Positive
from syncwall.network.flows import Usage, fluid_s
from syncwall.network.graph import Floats, Links, links_of
from syncwall.network.graph import slowed as graph_slowed
from syncwall.network.routing import Ends, Routes
from syncwall.units import Dimension

MAX_HOSTS, MAX_WORKERS, MAX_NICS, MAX_UPLINKS = 200, 64, 16, 16
DEFAULT_RATE_BYTES_PER_S = 125e6


class Topology(Description):
    """One lab: every host has the same workers and the same adapters."""

    hosts: Positive
    workers: Positive = 1
    """Processes of a job on each host."""
    rate_bytes_per_s: BytesPerSecond = Field(DEFAULT_RATE_BYTES_PER_S, alias="rate")
    """One adapter, one way."""
    nics: Positive = 1
    """Adapters of each host, eth0 first."""
    serves: tuple[tuple[int, ...], ...] | None = None
    """For each adapter the workers that use it; None deals them out evenly, neighbours together."""
    rails: Positive = 1
    """Separate switches: adapter i of every host hangs on rail i mod `rails`."""
    leaves: Positive = 1
    """Switches of one rail that hosts hang on; above 1, a spine switch joins them."""
    oversubscription: Annotated[float, Field(ge=1, le=1000)] = 1.0
    """Rate of a leaf's hosts over that of its links to the spine."""
    uplinks: Positive = 1
    """Links from a leaf up; above 1, each goes to a spine switch of its own, and the kernel hashes
    every connection to one of them (ECMP)."""

    @model_validator(mode="after")
    def _can_be_built(self) -> Self:
        for count, most, what in (
            (self.hosts, MAX_HOSTS, "hosts"),
            (self.workers, MAX_WORKERS, "workers on a host"),
            (self.nics, MAX_NICS, "NICs on a host"),
            (self.uplinks, MAX_UPLINKS, "uplinks of a leaf"),
        ):
            if count > most:
                raise ValueError(f"{count} {what} are asked for, a lab has at most {most}")
        if not 1e3 <= self.rate_bytes_per_s <= 50e9:
            raise ValueError("a link of a lab has a rate between 8 kb/s and 400 Gb/s")
        if self.rails not in (1, self.nics):
            raise ValueError(f"`rails` is 1 or the number of NICs, {self.nics}")
        if self.leaves > self.hosts:
            raise ValueError(f"{self.leaves} leaves for {self.hosts} hosts: some would be empty")
        for name in ("oversubscription", "uplinks"):
            if getattr(self, name) > 1 and self.leaves == 1:
                raise ValueError(f"`{name}` needs `leaves` of 2 or more")
        if self.serves is not None:
            self._every_worker_is_served(self.serves)
        return self

    def _every_worker_is_served(self, serves: tuple[tuple[int, ...], ...]) -> None:
        if len(serves) != self.nics:
            raise ValueError(f"`serves` must list the workers of each of {self.nics} NICs")
        if sorted({worker for group in serves for worker in group}) != list(range(self.workers)):
            raise ValueError(f"`serves` must name every worker from 0 to {self.workers - 1}")

    @property
    def world(self) -> int:
        """Processes of a job."""
        return self.hosts * self.workers

    @property
    def place(self) -> str:
        """Hosts x workers of each, such as "2x2"."""
        return f"{self.hosts}x{self.workers}"

    @property
    def link(self) -> str:
        """Rate of a link; empty on one host."""
        return rate_text(self.rate_bytes_per_s) if self.hosts > 1 else ""

    @property
    def label(self) -> str:
        """What people call it, such as "2x2 at 100 Mb/s"."""
        return f"{self.place} at {self.link}" if self.link else self.place

    def host_of(self, rank: int) -> int:
        """The host on which the worker of a rank runs."""
        return rank // self.workers

    def leaf_of(self, host: int) -> int:
        """The leaf that a host hangs on: neighbours together."""
        return host * self.leaves // self.hosts

    @property
    def spines(self) -> int:
        """Switches of one rail that join its leaves."""
        return self.uplinks if self.leaves > 1 else 0

    def nics_of(self, worker: int) -> tuple[int, ...]:
        """The adapters that a worker of a host uses."""
        if self.serves is not None:
            return tuple(nic for nic, group in enumerate(self.serves) if worker in group)
        if self.nics > self.workers:
            first, end = (number * self.nics // self.workers for number in (worker, worker + 1))
            return tuple(range(first, end))
        return (worker * self.nics // self.workers,)

    @property
    def uplink_bytes_per_s(self) -> float:
        """Rate of a link between a leaf and a spine, for the leaf with the most hosts."""
        nics = -(-self.hosts // self.leaves) * (self.nics // self.rails)
        return nics * self.rate_bytes_per_s / self.oversubscription / self.uplinks

    def to_dict(self) -> dict[str, Any]:
        """As JSON."""
        return self.model_dump(mode="json", by_alias=False)


def rate_text(rate_bytes_per_s: float) -> str:
    """A rate as networks state it."""
    unit = "Gb/s" if rate_bytes_per_s >= 125e6 else "Mb/s"
    return units.format(rate_bytes_per_s, Dimension.BYTES_PER_S, digits=6, unit=unit)


def _place(value: Any) -> Any:
    """Read "2x2" as two hosts with two workers each."""
    if isinstance(value, str) and value.count("x") == 1:
        hosts, workers = value.split("x")
        if all(side.isascii() and side.isdecimal() and 1 <= len(side) <= 4 for side in (hosts, workers)):
            return int(hosts), int(workers)
    if isinstance(value, tuple):
        return value
    raise ValueError(f'"{value}" is not a place: write hosts x workers per host, for example "2x2"')


Placement = Annotated[tuple[Positive, Positive], BeforeValidator(_place)]
"""Hosts and workers on each."""


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


def adapter_address(host: int, nic: int = 0) -> str:
    """IPv4 address of an adapter."""
    return f"10.77.{nic}.{host + 1}"


def limit_command(namespace: str, interface: str, rate_bytes_per_s: float, how: str = "add") -> Command:
    """The command that limits, or `how` = "change" limits anew, what an interface sends."""
    burst_bytes = max(rate_bytes_per_s * _BURST_S, _LEAST_BURST_BYTES)
    return (
        "tc",
        "-n",
        namespace,
        "qdisc",
        how,
        "dev",
        interface,
        "root",
        "tbf",
        "rate",
        f"{rate_bytes_per_s * 8:.0f}bit",
        "burst",
        f"{burst_bytes:.0f}b",
        "limit",
        f"{max(_QUEUE_BYTES, 2 * burst_bytes):.0f}b",
    )


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
        (
            "ip",
            "link",
            "add",
            "name",
            name,
            "netns",
            namespace,
            "type",
            "veth",
            "peer",
            "name",
            end,
            "netns",
            switch,
        ),
        *_plugged(topology, switch, end),
        ("ip", "-n", namespace, "address", "add", f"{adapter_address(host, nic)}/24", "dev", name),
        ("ip", "-n", namespace, "link", "set", name, "up"),
        limit_command(namespace, name, rate),
        limit_command(switch, end, rate),
    ]


def _plugged(topology: Topology, switch: str, end: str) -> tuple[Command, ...]:
    """A port in use; a router must not wait, up to 0.8 s, before it answers for others."""
    up = ("ip", "-n", switch, "link", "set", end, "up")
    if topology.uplinks == 1:
        return ((*up, "master", "br0"),)
    at_once = f"net.ipv4.neigh.{end}.proxy_delay=0"
    return (up, ("ip", "netns", "exec", switch, "sysctl", "-q", "-w", at_once))


def _spines_joined(topology: Topology, leaves: tuple[str, ...], spines: tuple[str, ...]) -> list[Command]:
    rate, commands = topology.uplink_bytes_per_s, list[Command]()
    for way, spine in enumerate(spines):
        for number, leaf in enumerate(leaves):
            up, down = f"uplink{way}", f"leaf{number}"
            commands += [
                (
                    "ip",
                    "link",
                    "add",
                    "name",
                    up,
                    "netns",
                    leaf,
                    "type",
                    "veth",
                    "peer",
                    "name",
                    down,
                    "netns",
                    spine,
                ),
                *_plugged(topology, leaf, up),
                *_plugged(topology, spine, down),
                limit_command(leaf, up, rate),
                limit_command(spine, down, rate),
            ]
    return commands


def _routed(topology: Topology, leaves: tuple[str, ...], spines: tuple[str, ...], rail: int) -> list[Command]:
    """A route to every adapter: over its port, over its leaf, or over any spine."""
    ways = [word for way in range(len(spines)) for word in ("nexthop", "dev", f"uplink{way}")]
    commands: list[Command] = []
    for host in range(topology.hosts):
        for nic in range(rail, topology.nics, topology.rails):
            to, home = f"{adapter_address(host, nic)}/32", topology.leaf_of(host)
            for number, leaf in enumerate(leaves):
                way = ["dev", f"h{host}n{nic}"] if number == home else ways
                commands.append(("ip", "-n", leaf, "route", "add", to, *way))
            commands += [("ip", "-n", spine, "route", "add", to, "dev", f"leaf{home}") for spine in spines]
    return commands


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
    topology: Topology,
    jobs: Sequence[tuple[Sequence[int], float]],
    slow: dict[int, float] | None = None,
) -> Floats:
    """When each job has ended: its hosts in the order of a ring, and the bytes that each sends.

    `slow`: bytes a second of the adapters of some hosts.
    """
    parts = {f"node:h{host}": rate for host, rate in (slow or {}).items()}
    links = graph_slowed(links_of_lab(topology), parts)
    routes = Routes(links, "static", ends_of_lab(topology))
    source = np.concatenate([np.asarray(hosts) for hosts, _ in jobs])
    target = np.concatenate([np.roll(hosts, -1) for hosts, _ in jobs])
    stream = np.repeat(np.arange(len(jobs)), [len(hosts) for hosts, _ in jobs])
    entries = routes.entries(source, target, np.random.default_rng(0), 1)
    usage = Usage.of(stream[entries.flow], entries.link, links.rates)
    return fluid_s(usage, [sent for _, sent in jobs])
