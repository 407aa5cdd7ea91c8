"""Batches that more layouts could share out."""

import pytest

import syncwall as sw
from syncwall.answer.pricing import Pricing
from syncwall.plan.answers import other_batch, whole_batch
from syncwall.plan.network_scaling import PricedCase

MODEL = sw.model("llama-3.1-70b")


def case(cluster: sw.Cluster) -> PricedCase:
    return PricedCase(MODEL, cluster, 8192, Pricing.on(cluster))


@pytest.mark.parametrize(
    ("batch", "gpus", "nearest"),
    [(2048, 1152, 2304), (2048, 1024, 2048), (100, 1152, 96), (1, 8, 1), (5000, 1152, 4608)],
)
def test_the_nearest_batch_that_all_can_share(batch, gpus, nearest):
    assert whole_batch(batch, gpus) == nearest


def test_a_rack_of_72_asks_for_multiples_of_nine():
    """1,152 GPUs have 27 divisors up to it; 2,048 sequences can be dealt to powers of two only."""
    pinned = {"cp": 1, "pp": (1, 2, 4), "tp": (1, 2, 4)}
    found = other_batch(case(sw.cluster("gb200-nvl72", nodes=288)), 2048, pinned)
    assert found is not None
    assert found.batch == 2304
    assert found.excluded == sum(1152 % n == 0 and 2048 % n > 0 for n in range(1, 1153))
    assert found.best.run.layout.global_batch == 2304
    assert found.best.fits


def test_a_batch_that_excludes_nothing_needs_no_hint():
    assert other_batch(case(sw.cluster("dgx-h100", nodes=8)), 64, {}) is None
