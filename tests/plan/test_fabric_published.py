"""Counts of published fabrics and of the textbooks, reproduced exactly."""

from typing import Any

import pytest

from syncwall.describe import lookup
from syncwall.plan.fabric.options import sized
from syncwall.plan.fabric.question import Wiring, wiring_of
from syncwall.plan.fabric.tree import balanced

DGX_H100 = Wiring(gpus_per_node=8, nics_per_node=8, nic_bytes_per_s=50e9)
DGX_B300 = Wiring(gpus_per_node=8, nics_per_node=8, nic_bytes_per_s=100e9, radix=(144, 144, 144))
ONE_NIC: dict[str, Any] = {"gpus_per_node": 1, "nics_per_node": 1, "nic_bytes_per_s": 50e9}


def counts(kind, wiring, gpus):
    one = sized(kind, wiring, [gpus]).at(0)
    assert one.possible
    return one


@pytest.mark.parametrize(
    ("nodes", "leaves", "spines", "cables"),
    [(31, 8, 4, 256), (63, 16, 8, 512), (95, 24, 16, 768), (127, 32, 16, 1024)],
)
def test_superpod_h100(nodes, leaves, spines, cables):
    """DGX SuperPOD with DGX H100, RA-11333-001 V11, table 4: one to four scalable units.

    Three units have 16 spines, not 12: a leaf's 32 cables go to all spines in equal numbers.
    """
    one = counts("rail-optimised", DGX_H100, 8 * nodes)
    assert one.switches == {"leaf": leaves, "spine": spines, "core": 0}
    assert one.cables == {"node-leaf": 8 * nodes, "leaf-spine": cables, "spine-core": 0}
    assert one.shape["leaf_nodes"] == 32  # a scalable unit


@pytest.mark.parametrize(
    ("nodes", "leaves", "spines", "cores"),
    [
        (64, 16, 8, 0),
        (128, 32, 16, 0),
        (256, 64, 32, 0),
        (512, 128, 128, 64),
        (1024, 256, 256, 128),
        (2048, 512, 512, 256),
    ],
)
def test_superpod_b200(nodes, leaves, spines, cores):
    """DGX SuperPOD with DGX B200, architecture page: 2 to 64 scalable units of 32 nodes."""
    one = counts("rail-optimised", DGX_H100, 8 * nodes)
    assert one.switches == {"leaf": leaves, "spine": spines, "core": cores}
    between = 8 * nodes if cores else 0
    assert list(one.cables.values()) == [8 * nodes, 8 * nodes, between]


@pytest.mark.parametrize(
    ("nodes", "leaves", "spines"),
    [(72, 8, 4), (144, 16, 8), (288, 32, 18), (576, 64, 36), (1296, 144, 72)],
)
def test_superpod_b300_xdr(nodes, leaves, spines):
    """DGX SuperPOD with DGX B300 and InfiniBand XDR, table 3: 144-port switches of 800 Gb/s."""
    one = counts("rail-optimised", DGX_B300, 8 * nodes)
    assert one.switches == {"leaf": leaves, "spine": spines, "core": 0}
    assert one.cables["leaf-spine"] == 8 * nodes


def test_meta_24k():
    """Llama 3 herd of models, arXiv:2407.21783, section 3.3.1.

    Racks of two servers on one switch, 192 racks a pod of 3,072 GPUs without oversubscription,
    eight pods, one to seven above. Port counts of the modular switches are ours: 192 down and
    28 up, the next whole number, so a share of 1/6.86.
    """
    wiring = Wiring(8, 8, 50e9, radix=(32, 220, 256), oversubscription=(1.0, 7.0))
    one = counts("fat-tree-3", wiring, 24_576)
    assert one.shape["leaf_nodes"] == 2
    assert one.switches["leaf"] == 8 * 192
    assert one.shape["pods"] == 8
    assert one.shape["pod_nodes"] * 8 == 3_072
    assert 1 / one.bisection_share == pytest.approx(7, rel=0.03)
    assert one.shape["down"] == one.shape["up"]


@pytest.mark.parametrize("k", [4, 8, 48, 64])
def test_fat_tree_of_al_fares(k):
    """Al-Fares et al. 2008: k-port switches, k^3/4 hosts, 5k^2/4 switches; 27,648 for k = 48."""
    wiring = Wiring(**ONE_NIC, radix=(k, k, k))
    one = counts("fat-tree-3", wiring, k**3 // 4)
    assert one.switches == {"leaf": k * k // 2, "spine": k * k // 2, "core": k * k // 4}
    assert one.total_switches == 5 * k * k // 4
    assert one.total_cables == 3 * k**3 // 4
    assert one.bisection_share == 1
    assert one.most_gpus == k**3 // 4
    assert not sized("fat-tree-3", wiring, [k**3 // 4 + 1]).at(0).possible


@pytest.mark.parametrize("k", [4, 40, 64])
def test_two_tiers_reach_half_the_square(k):
    """A folded Clos of two tiers: k^2/2 ends, k leaves, k/2 spines; 2,048 ends for k = 64."""
    wiring = Wiring(**ONE_NIC, radix=(k, k, k))
    one = counts("fat-tree-2", wiring, k * k // 2)
    assert (one.switches["leaf"], one.switches["spine"]) == (k, k // 2)
    assert one.most_gpus == k * k // 2


def test_dragonfly_of_kim():
    """Kim et al. 2008: a = 2p = 2h, N = ap(ah + 1); 64 ports reach over 256K ends."""
    assert balanced(63) == balanced(64) == (16, 32, 16)
    one = counts("dragonfly", Wiring(**ONE_NIC), 262_656)
    assert one.most_gpus == 32 * 16 * (32 * 16 + 1) == 262_656
    assert one.switches["router"] == 32 * 513
    assert one.cables == {
        "node-router": 262_656,
        "local": 513 * 32 * 31 // 2,
        "global": 513 * 512 // 2,
    }
    assert one.hops == 4  # three links between switches: local, global, local
    assert not sized("dragonfly", Wiring(**ONE_NIC), [262_657]).at(0).possible


def test_frontier():
    """Frontier: 74 cabinets, each a group of 32 switches and 128 nodes with four NICs.

    Source: glennklockwood.com/garden/systems/frontier; Cray EX switches have 16 ports to nodes.
    """
    wiring = Wiring(gpus_per_node=4, nics_per_node=4, nic_bytes_per_s=25e9)
    one = counts("dragonfly", wiring, 74 * 128 * 4)
    assert one.shape["pods"] == 74
    assert one.switches["router"] == 74 * 32
    assert (one.shape["down"], one.shape["group"]) == (16, 32)


@pytest.mark.parametrize(
    ("gpus", "radix", "cost", "power"),
    [(32_768, 64, 0.38, 0.37), (65_536, 256, 0.77, 0.75)],
)
def test_rail_only_saves_what_its_paper_says(gpus, radix, cost, power):
    """Wang et al., "Rail-only", arXiv:2307.12169: 38 to 77% of the cost, 37 to 75% of the power.

    Domains of 256 GPUs. Cost and power are sums over switches and transceivers, so what is saved
    lies between the shares of the two that are saved. Which sizes give the ends of the range is
    our reading.
    """
    wiring = Wiring(256, 256, 50e9, radix=(radix,) * 3)
    rails = counts("rail-only", wiring, gpus)
    clos = counts("fat-tree-3", Wiring(**ONE_NIC, radix=(radix,) * 3), gpus)
    switches = 1 - rails.total_switches / clos.total_switches
    optics = 1 - rails.optics() / clos.optics()
    for saved in (cost, power):
        assert optics - 0.005 < saved < switches + 0.005


def test_switches_of_the_catalogue_are_split():
    """SN5600: 64 ports of 800, 128 of 400, 256 of 200 Gb/s (its manual, data interfaces)."""
    switch = lookup.switch("sn5600")
    assert [switch.ports_at(rate) for rate in (100e9, 50e9, 25e9, 12.5e9)] == [64, 128, 256, 256]
    assert lookup.switch("qm9700").ports_at(100e9) == 0


def test_a_rack_is_the_unit_of_rails():
    wiring = wiring_of(lookup.cluster("gb200-nvl72"))
    assert (wiring.domain_nodes, wiring.nics_per_node) == (18, 4)
    one = counts("rail-only", wiring, 72 * 64)
    assert one.switches == {"leaf": 72, "spine": 0, "core": 0}
