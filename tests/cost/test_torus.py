"""Collectives on a torus: what the formula says, and laws that any torus obeys."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import syncwall as sw
from syncwall.answer.pricing import Pricing
from syncwall.cost.communication import NcclNetwork
from syncwall.cost.torus import REACHED, Torus
from syncwall.work.operations import Collective, Group

POD = sw.cluster("tpu-v5e", nodes=32)
LINK = 50e9 * REACHED


def torus(name: str, chips: int) -> Torus:
    found = Torus.of(sw.cluster(name).with_gpus(chips))
    assert found is not None
    return found


def seconds(kind, size, ranks, stride, cluster=POD):
    network = NcclNetwork(cluster, Pricing.on(cluster).fit.network)
    return float(network.collective_seconds(Collective(kind, size, Group("dp", ranks, stride))))


@pytest.mark.parametrize(
    ("name", "chips", "axes", "rings"),
    [
        ("tpu-v5e", 256, (16, 16), (True, True)),
        ("tpu-v5e", 128, (16, 8), (True, False)),
        ("tpu-v5e", 64, (8, 8), (False, False)),
        ("tpu-v5p", 64, (4, 4, 4), (True, True, True)),
        ("tpu-v5p", 8960, (16, 20, 28), (True, True, True)),
        ("aws-trn2", 16, (4, 4), (True, True)),
    ],
)
def test_slices_are_as_near_to_a_cube_as_they_can_be(name, chips, axes, rings):
    found = torus(name, chips)
    assert (found.axes, found.rings) == (axes, rings)


@pytest.mark.parametrize(
    ("ranks", "stride", "links"),
    [
        (256, 1, 4),  # both axes, rings
        (16, 1, 2),  # the first axis
        (16, 16, 2),  # the second one
        (4, 1, 1),  # a line of four on the first axis
        (64, 4, 0.5 + 2),  # every fourth chip of the first axis shares its links with three others
    ],
)
def test_a_rank_receives_over_the_links_of_the_axes_that_its_group_spans(ranks, stride, links):
    assert torus("tpu-v5e", 256).rate(Group("dp", ranks, stride)) == pytest.approx(links * LINK)


def test_all_gather_of_a_gigabyte_in_a_pod():
    """V / (2 axes x 2 links): 1e9 x 255/256 / 180 GB/s and 16 hops of 1 us."""
    expected = 1e9 * 255 / 256 / (4 * LINK) + 16e-6
    assert seconds("all-gather", 1e9, 256, 1) == pytest.approx(expected)
    assert seconds("all-reduce", 1e9, 256, 1) == pytest.approx(2 * expected)


def test_all_to_all_in_a_ring_costs_a_quarter_of_an_all_gather_of_the_same_array():
    """Chapter 3 of the source; the array is what all ranks send together."""
    size, ranks = 1e9, 16
    one = seconds("all-to-all", size, ranks, 1) - 8e-6
    whole = seconds("all-gather", size * ranks, ranks, 1) - 8e-6
    assert one == pytest.approx(whole / 4 * ranks / (ranks - 1), rel=1e-6)


def test_instances_of_trainium_are_joined_by_their_adapters():
    """All-reduce over two instances: rings inside, then 1/16 each over 25 GB/s."""
    two = sw.cluster("aws-trn2", nodes=2)
    inside = 2 * 1e9 * 15 / 16 / (4 * 128e9 * REACHED)
    assert seconds("all-reduce", 1e9, 32, 1, two) > inside
    assert seconds("all-reduce", 1e9, 32, 1, two) > 2 * 1e9 / 16 / 2 / 25e9


@given(size=st.floats(1, 1e10), ranks=st.sampled_from([2, 4, 16, 64, 256]))
def test_more_bytes_never_take_less_time(size, ranks):
    assert seconds("all-reduce", 2 * size, ranks, 1) >= seconds("all-reduce", size, ranks, 1)


def test_groups_broadcast():
    found = torus("tpu-v5e", 256)
    ranks = np.array([4, 16, 256])
    together = np.asarray(found.rate(Group("dp", ranks, 1)))
    assert list(together) == [found.rate(Group("dp", int(one), 1)) for one in ranks]


def test_an_answer_on_a_torus_says_that_it_is_not_validated():
    layout = sw.Layout(shard="fsdp", global_batch=256)
    run = sw.Run(model="llama-3.1-8b", cluster=POD, layout=layout, seq=4096)
    said = " ".join(sw.predict(run).to_dict()["assumed"])
    assert "torus of 16 x 16" in said
    assert "unvalidated" in said
    assert "NCCL" not in said


def test_axes_must_hold_the_domain():
    domain = {"gpus": 256, "topology": "torus", "rate": 2e11, "axes": [16, 8]}
    with pytest.raises(ValueError, match="axes of 16 x 8 hold 128 GPUs, not 256"):
        sw.Cluster.model_validate({"node": {"device": "tpu-v5e", "gpus": 8}, "scale_up": domain})
