"""NCCL's own predictions, as it logged them, and its choices."""

import numpy as np
import pytest

from syncwall.cost.nccl import GENERATIONS, ChannelGraph, NcclGroup, Tuner, constants

GB = 1e9


@pytest.mark.parametrize(("size", "logged_us"), [(4, 25.200462), (256, 25.229528), (512, 25.259054)])
def test_the_times_that_nccl_logged_for_24_h100(size, logged_us):
    """NVIDIA/nccl issue 1453: 3 nodes of 8 H100, Intel CPUs, plain tree."""
    graph = ChannelGraph(8, 45 * GB, 45 * GB, 8, 45 * GB, 45 * GB, tree_penalty=0.85)
    tuner, group = Tuner("hopper"), NcclGroup(24, 3)
    assert tuner.seconds("all-reduce", size, group, graph) * 1e6 == pytest.approx(logged_us, rel=1e-6)
    assert tuner.chosen("all-reduce", size, group, graph) == "Tree/LL"


@pytest.mark.parametrize(
    ("kind", "choice", "logged_us", "logged_gb_per_s"),
    [
        ("all-reduce", "Tree/LL", 16.8, 0.5),
        ("all-reduce", "Tree/Simple", 36.4, 1.9),
        ("all-reduce", "Ring/LL", 16.6, 1.2),
        ("all-reduce", "Ring/Simple", 36.4, 2.4),
        ("all-gather", "Ring/LL", 11.6, 2.4),
        ("all-gather", "Ring/Simple", 22.4, 4.8),
        ("all-gather", "PAT/Simple", 17.6, 3.6),
        ("reduce-scatter", "Ring/Simple", 22.4, 4.8),
        ("broadcast", "Ring/LL", 9.3, 1.2),
        ("broadcast", "Ring/Simple", 22.4, 2.4),
    ],
)
def test_the_tuning_table_that_nccl_logged_over_sockets(kind, choice, logged_us, logged_gb_per_s):
    """NCCL 2.29.7, two nodes of one GPU; printed to one decimal, without corrections."""
    graph = ChannelGraph(
        2, 1.2 * GB, 1.2 * GB, 2, 2.4 * GB, 2.4 * GB, nvlink=False, tree_penalty=0.85, ll128=False
    )
    uncorrected = 2.0**40
    found = Tuner("blackwell").choices(kind, uncorrected, NcclGroup(2, 2), graph)[choice]
    plateau = 1.4 if (kind, choice) == ("all-reduce", "Ring/Simple") else 1.0
    assert float(found[0]) / plateau == pytest.approx(logged_us, abs=0.0501)
    assert float(found[1]) / GB == pytest.approx(logged_gb_per_s, abs=0.0501)


@pytest.mark.parametrize(
    ("generation", "links", "ring", "switch_at"),
    [("hopper", 18 * 20.6, (12, 30), 5), ("blackwell", 18 * 40.1, (16, 45), 6)],
)
def test_in_switch_reduction_is_chosen_from_the_observed_number_of_gpus_on(
    generation, links, ring, switch_at
):
    """8 GiB with NCCL 2.27.7: H200 ring up to 4 GPUs, B200 up to 5 (ml-engineering)."""
    tuner = Tuner(generation, version="2.27")
    speeds = constants()["intra_speeds"][GENERATIONS.index(generation)]
    chosen = {}
    for gpus in range(4, 9):
        head = max(speed for speed in speeds if speed <= links / (gpus + 1)) * GB
        channels, speed = ring[0], ring[1] * GB
        graph = ChannelGraph(channels, speed, speed, channels, speed, speed, gpus, head)
        chosen[gpus] = tuner.chosen("all-reduce", 8 * 2**30, NcclGroup(gpus, 1), graph)
    expected = {g: "Ring/Simple" if g < switch_at else "NVLS/Simple" for g in range(4, 9)}
    assert chosen == expected


def test_switches_that_form_sums_serve_only_groups_of_several_nodes():
    graph = ChannelGraph(8, 45 * GB, 45 * GB, 8, 45 * GB, 45 * GB, sharp=True)
    tuner = Tuner("hopper")
    inside = tuner.choices("all-reduce", 2.0**30, NcclGroup(8, 1), graph)
    across = tuner.choices("all-reduce", 2.0**30, NcclGroup(16, 2), graph)
    for way in ("CollNetDirect/Simple", "CollNetChain/Simple"):
        assert float(inside[way][1]) == 0.0
        assert float(across[way][1]) > 0.0


def test_arrays_and_single_sizes_agree():
    graph = ChannelGraph(8, 45 * GB, 45 * GB, 8, 45 * GB, 45 * GB, 8, 40 * GB)
    sizes, tuner = 2.0 ** np.arange(3, 34), Tuner("hopper")
    for kind in ("all-reduce", "all-gather", "reduce-scatter", "broadcast"):
        for ranks, nodes in ((8, 1), (16, 2), (64, 8)):
            group = NcclGroup(ranks, nodes)
            together = tuner.seconds(kind, sizes, group, graph)
            singly = [float(tuner.seconds(kind, s, group, graph)) for s in sizes]
            np.testing.assert_array_equal(together, singly)
