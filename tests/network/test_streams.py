"""Who sends to whom in a collective."""

import numpy as np

from syncwall.network.flows import all_to_all, place_groups, ring_flows, transfer, tree_flows


def pairs(found):
    return sorted(zip(found.source.tolist(), found.target.tolist(), strict=True))


def test_a_ring_goes_round_the_domains_of_its_group():
    """Two groups of four ranks with stride 2 on 8 GPUs in domains of 2."""
    assert pairs(ring_flows(place_groups(8, 4, 2, 2))) == [
        (0, 2),
        (1, 3),
        (2, 4),
        (3, 5),
        (4, 6),
        (5, 7),
        (6, 0),
        (7, 1),
    ]


def test_a_ring_inside_a_domain_needs_no_nic():
    assert not len(ring_flows(place_groups(64, 8, 1, 8)))
    assert not len(tree_flows(place_groups(64, 8, 1, 8)))
    assert not len(all_to_all(place_groups(64, 8, 1, 8)))
    assert not len(transfer(place_groups(64, 8, 1, 8)))


def test_a_rack_of_72_gpus_is_one_domain():
    found = ring_flows(place_groups(288, 72, 4, 72))
    assert len(found) == 288
    assert (found.source // 72 != found.target // 72).all()
    assert not len(ring_flows(place_groups(288, 18, 4, 72)))


def test_a_group_over_whole_domains_has_a_ring_for_every_gpu_of_one():
    found = ring_flows(place_groups(32, 32, 1, 8))
    assert len(found) == 32
    assert (found.source % 8 == found.target % 8).all()
    assert len(np.unique(found.stream)) == 8


def test_trees_join_all_domains_twice_and_carry_half_each():
    for domains in (2, 3, 7, 8, 16):
        found = tree_flows(place_groups(domains * 8, domains, 8, 8))
        assert len(found) == 8 * 2 * 2 * (domains - 1)
        assert (found.part == 0.5).all()
        mine = found.source % 8 == 0
        assert set(found.source[mine] // 8) == set(range(domains))


def test_no_domain_of_an_even_number_is_inside_both_trees():
    """Every one has at most the flows of one inner node and one leaf: 3 + 1."""
    found = tree_flows(place_groups(16 * 8, 16, 8, 8))
    assert np.bincount(found.source).max() <= 4


def test_an_all_to_all_reaches_everybody_of_its_group_elsewhere():
    found = all_to_all(place_groups(64, 16, 2, 8))
    assert len(found) == 64 * 12
    assert (found.source % 2 == found.target % 2).all()
    assert (found.source // 32 == found.target // 32).all()
    assert (found.source // 8 != found.target // 8).all()
    assert np.allclose(np.bincount(found.source, found.part), 1.0)


def test_the_last_stage_sends_to_none():
    """Two pipelines of four stages on 32 GPUs, two stages in a domain."""
    found = transfer(place_groups(32, 4, 4, 8))
    assert pairs(found) == [(n + 4 + 16 * k, n + 8 + 16 * k) for k in range(2) for n in range(4)]
