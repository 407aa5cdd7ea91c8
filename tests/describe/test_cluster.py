from typing import Any

import pytest
from pydantic import ValidationError

from syncwall.describe import Cluster, Nics
from tests.describe.samples import cluster


def test_sixteen_thousand_gpus_on_eight_rails_with_an_oversubscribed_spine():
    machine = cluster(
        nodes=2048,
        fabric={
            "rails": 8,
            "tiers": [
                {"name": "leaf", "nodes": 16},
                {"name": "pod", "nodes": 384},
                {"name": "spine", "oversubscription": "1:7"},
            ],
        },
    )
    assert machine.gpus == 16_384
    assert machine.fabric.tiers[-1].oversubscription == 7
    assert machine.domain_gpus == 8


@pytest.mark.parametrize(
    ("nodes", "gpus", "groups", "share"),
    [(1, 4, ((0, 1, 2, 3),), 6.25e9), (2, 2, ((0, 1),), 12.5e9), (4, 1, ((0,),), 25e9)],
)
def test_four_gpus_over_one_two_or_four_nodes_with_one_shared_nic(nodes, gpus, groups, share):
    machine = cluster(gpus=4, nics={"count": 1, "rate": "200 Gb/s"}).using(nodes, gpus)
    assert machine.gpus == 4
    assert machine.nic_groups == groups
    assert machine.nic_bytes_per_s_per_gpu == share


def test_a_scale_up_domain_may_be_larger_than_a_node():
    machine = cluster(gpus=4, scale_up={"gpus": 72, "topology": "switch", "rate": "900 GB/s"})
    assert machine.using(nodes=18).domain_gpus == 72
    assert machine.using(nodes=36).domain_gpus == 72
    assert machine.using(nodes=2).domain_gpus == 8
    assert machine.using(nodes=18, gpus_per_node=2).domain_gpus == 36


def test_fewer_gpus_of_a_mesh_have_fewer_links_but_not_behind_a_switch():
    mesh = cluster(gpus=4, scale_up={"gpus": 4, "topology": "mesh", "rate": "300 GB/s"}).scale_up
    switch = cluster(gpus=4, scale_up={"gpus": 4, "topology": "switch", "rate": "300 GB/s"}).scale_up
    assert mesh is not None
    assert switch is not None
    assert mesh.rate_among(2) == 100e9
    assert mesh.rate_among(4) == switch.rate_among(2) == 300e9


def test_several_nics_of_one_gpu():
    machine = cluster(gpus=2, nics={"count": 8, "rate": "100 Gb/s"}, scale_up=None)
    assert machine.nic_groups == ((0,),) * 4 + ((1,),) * 4
    assert machine.nic_bytes_per_s_per_gpu == 50e9


def test_nics_that_serve_stated_gpus():
    nics = {"count": 2, "rate": "200 Gb/s", "serves": [[0, 3], [1, 2]]}
    machine = cluster(gpus=4, nics=nics)
    assert machine.nic_groups == ((0, 3), (1, 2))
    assert machine.using(gpus_per_node=1).nic_groups == ((0,),)


@pytest.mark.parametrize("gpus", range(1, 17))
@pytest.mark.parametrize("nics", range(1, 17))
def test_gpus_are_dealt_out_completely_and_evenly(gpus, nics):
    groups = cluster(gpus=gpus, nics={"count": nics, "rate": "1 GB/s"}).nic_groups
    assert {gpu for group in groups for gpu in group} == set(range(gpus))
    assert max(map(len, groups)) - min(map(len, groups)) <= 1


@pytest.mark.parametrize(
    ("changes", "reason"),
    [
        ({"gpus_per_node": 9}, "9 GPUs a node are asked for, a node has 8"),
        ({"nodes": 3, "built_nodes": 2}, "3 nodes are asked for, 2 exist"),
        ({"nodes": 5, "fabric": {"tiers": [{"name": "leaf", "nodes": 4}]}}, "fabric connects 4"),
        ({"nodes": 2, "nics": None}, "without NICs"),
        ({"nodes": 1, "nics": None, "scale_up": None}, "domains of 1 cannot work"),
        ({"fabric": {"rails": 3}}, "3 rails cannot share 8 NICs"),
        ({"fabric": {"tiers": []}}, "at least one tier"),
        ({"fabric": {"tiers": [{"name": "a"}, {"name": "b"}]}}, "only the last tier"),
        ({"nics": {"count": 2, "rate": "1 GB/s", "serves": [[0], [1]]}}, "every GPU from 0 to 7"),
        ({"nics": {"count": 2, "rate": "1 GB/s", "serves": [[0]]}}, "each of 2 NICs"),
    ],
)
def test_machines_that_cannot_be_are_refused(changes: dict[str, Any], reason):
    with pytest.raises(ValidationError, match=reason):
        cluster(**changes)


def test_tiers_must_grow():
    tiers = [{"name": "a", "nodes": 4}, {"name": "b", "nodes": 4}]
    with pytest.raises(ValidationError, match="more nodes than the one below"):
        cluster(fabric={"tiers": tiers})


def test_a_million_gpus_are_a_number_like_any_other():
    assert cluster(nodes=125_000).gpus == 1_000_000


def test_using_nothing_changes_nothing():
    machine = cluster(nodes=4)
    assert machine.using() == machine
    assert isinstance(machine.using(), Cluster)


@pytest.mark.parametrize(
    ("stated", "transport", "direct"),
    [
        ({}, "tcp", False),
        ({"link": "ethernet-25"}, "tcp", False),
        ({"link": "roce-25"}, "rdma", True),
        ({"link": "infiniband-hdr"}, "rdma", True),
        ({"link": "efa-v3"}, "rdma", True),
        ({"transport": "rdma"}, "rdma", True),
        ({"link": "infiniband-hdr", "transport": "tcp"}, "tcp", False),
        ({"link": "roce-25", "gpu_direct": False}, "rdma", False),
    ],
)
def test_a_network_that_does_not_say_rdma_is_tcp(stated, transport, direct):
    nics = Nics.model_validate({"count": 1, "rate": "25 Gb/s", **stated})
    assert (nics.transport, nics.gpu_direct) == (transport, direct)


def test_a_described_network_keeps_its_transport_when_it_is_read_again():
    nics = Nics(count=1, rate_bytes_per_s=3.125e9, link="roce-25")
    assert Nics.model_validate(nics.model_dump()) == nics
