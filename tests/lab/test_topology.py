import pytest
from pydantic import ValidationError

from syncwall.lab.virtual_network import Topology


def test_workers_share_nics_as_neighbours():
    topology = Topology(hosts=2, workers=4, nics=2)
    assert [topology.nics_of(worker) for worker in range(4)] == [(0,), (0,), (1,), (1,)]


def test_a_worker_has_several_nics_if_there_are_more():
    topology = Topology(hosts=2, workers=2, nics=4)
    assert [topology.nics_of(worker) for worker in range(2)] == [(0, 1), (2, 3)]


def test_serves_decides_who_uses_which_nic():
    topology = Topology(hosts=2, workers=3, nics=2, serves=((0,), (1, 2)))
    assert [topology.nics_of(worker) for worker in range(3)] == [(0,), (1,), (1,)]


def test_hosts_are_dealt_over_leaves_as_neighbours():
    topology = Topology(hosts=4, leaves=2, oversubscription=2.0, rate_bytes_per_s=12.5e6)
    assert [topology.leaf_of(host) for host in range(4)] == [0, 0, 1, 1]
    assert topology.uplink_bytes_per_s == 12.5e6


def test_labels_are_those_of_networks():
    assert Topology(hosts=2, workers=2, rate_bytes_per_s=12.5e6).label == "2x2 at 100 Mb/s"
    assert Topology(hosts=2, rate_bytes_per_s=125e6).label == "2x1 at 1 Gb/s"
    assert Topology(hosts=1, workers=4).label == "1x4"


@pytest.mark.parametrize(
    ("fields", "reason"),
    [
        ({"hosts": 201}, "201 hosts are asked for"),
        ({"hosts": 2, "nics": 4, "rails": 3}, "`rails` is 1 or the number of NICs"),
        ({"hosts": 2, "leaves": 3}, "3 leaves for 2 hosts"),
        ({"hosts": 2, "oversubscription": 2.0}, "needs `leaves`"),
        ({"hosts": 2, "workers": 2, "serves": ((0,),)}, "every worker"),
        ({"hosts": 2, "nics": 2, "serves": ((0,),)}, "each of 2 NICs"),
        ({"hosts": 2, "rate": 1.0}, "between 8 kb/s"),
    ],
)
def test_what_cannot_be_built_is_refused(fields, reason):
    with pytest.raises(ValidationError, match=reason):
        Topology.model_validate(fields)
