"""The plan of a network, without making one."""

import re
from collections import Counter

from hypothesis import given
from hypothesis import strategies as st

from syncwall.lab.virtual_network import Topology, adapter_address, network, port


@st.composite
def topologies(draw):
    hosts, nics = draw(st.integers(1, 6)), draw(st.integers(1, 3))
    leaves = draw(st.integers(1, hosts))
    return Topology(
        hosts=hosts,
        workers=draw(st.integers(1, 4)),
        nics=nics,
        rails=draw(st.sampled_from([1, nics])),
        leaves=leaves,
        oversubscription=draw(st.sampled_from([1.0, 4.0])) if leaves > 1 else 1.0,
        rate_bytes_per_s=draw(st.sampled_from([1e6, 12.5e6, 1.25e9])),
    )


@given(topologies())
def test_every_command_stays_inside_namespaces_of_the_lab(topology):
    made = network(topology, "x-1")
    for command in made.commands:
        words = " ".join(command)
        named = re.findall(r"(?:-n|netns|netns add|netns exec) (syncwall-\S+)", words)
        assert named, words
        assert set(named) <= set(made.namespaces)


@given(topologies())
def test_every_link_has_two_ends_and_each_is_slowed(topology):
    made = network(topology, "x-1")
    pairs = [command for command in made.commands if "veth" in command]
    queues = [command for command in made.commands if "tbf" in command]
    assert len(queues) == 2 * len(pairs)
    ends = Counter((command[2], command[6]) for command in queues)
    assert not ends or max(ends.values()) == 1
    assert all(len(name) <= 15 for _, name in ends)


@given(topologies())
def test_namespaces_are_made_before_they_are_used(topology):
    made = network(topology, "x-1")
    known: set[str] = set()
    for command in made.commands:
        if command[:3] == ("ip", "netns", "add"):
            known.add(command[3])
        used = {word for word in command if word.startswith("syncwall-")}
        assert used <= known
    assert known == set(made.namespaces)


def test_one_host_has_no_network():
    made = network(Topology(hosts=1, workers=4), "x-1")
    assert made.namespaces == ("syncwall-x-1-h0",)
    assert not any("veth" in command for command in made.commands)


def test_a_rail_has_a_switch_of_its_own():
    topology = Topology(hosts=2, nics=2, rails=2)
    made = network(topology, "x")
    assert made.switches == ("syncwall-x-s0", "syncwall-x-s1")
    assert port(topology, made.switches, 1, 1) == ("syncwall-x-s1", "h1n1")
    assert adapter_address(1, 1) == "10.77.1.2"


def test_leaves_are_joined_by_a_spine_at_the_oversubscribed_rate():
    made = network(Topology(hosts=4, leaves=2, oversubscription=4.0, rate_bytes_per_s=12.5e6), "x")
    assert len(made.switches) == 3
    uplinks = [command for command in made.commands if "tbf" in command and "uplink0" in command]
    assert [command[10] for command in uplinks] == ["50000000bit"] * 2


def test_several_ways_up_are_routed_over_a_spine_each():
    made = network(Topology(hosts=4, leaves=2, uplinks=2, rate_bytes_per_s=12.5e6), "x")
    assert len(made.switches) == 4
    assert not any("br0" in command for command in made.commands)
    rates = [command[10] for command in made.commands if "tbf" in command and "leaf1" in command]
    assert rates == ["100000000bit"] * 2
    there = ("ip", "-n", "syncwall-x-s0", "route", "add", "10.77.0.3/32")
    assert (*there, "nexthop", "dev", "uplink0", "nexthop", "dev", "uplink1") in made.commands
    below = ("ip", "-n", "syncwall-x-s3", "route", "add", "10.77.0.3/32", "dev", "leaf1")
    assert below in made.commands


def test_a_slow_link_has_a_bucket_for_the_largest_packet():
    made = network(Topology(hosts=2, rate_bytes_per_s=1e6), "x")
    queue = next(command for command in made.commands if "tbf" in command)
    assert queue[-4:] == ("burst", "100000b", "limit", "256000000b")
