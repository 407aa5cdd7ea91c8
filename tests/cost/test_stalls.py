"""Expected time of runs that may stall."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import syncwall as sw
from syncwall.cost.framework_costs import framework_or_default
from syncwall.cost.prices import expected_slowdown, probability
from syncwall.describe import Layout
from syncwall.describe.software import Stalls

MACHINE = sw.cluster("aws-p5").model_copy(update={"nodes": 64})
kinds = st.builds(
    Stalls,
    half_at_gpus=st.floats(1, 1e5),
    per_doubling=st.floats(0, 5),
    slowdown=st.floats(1, 50),
)


def expected(name: str, gpus: int, **layout: int) -> float:
    resolved = Layout(**layout).resolved(gpus)
    return float(expected_slowdown(framework_or_default(name), resolved, MACHINE))


@given(kinds, st.integers(1, 20))
def test_more_gpus_stall_as_often_or_more(stalls, doublings):
    few, many = probability(stalls, 8.0), probability(stalls, 8.0 * 2**doublings)
    assert 0 <= few <= many <= 1
    assert probability(stalls, stalls.half_at_gpus) == pytest.approx(0.5)


def test_pipelines_over_many_nodes_are_expected_to_stall_more_often_in_nanotron():
    assert expected("nanotron", 512, pp=2) > expected("nanotron", 512) > 1
    assert expected("nanotron", 512, pp=2) > expected("nanotron", 64, pp=2) > 1


def test_nothing_stalls_inside_a_node_or_in_a_framework_without_such_runs():
    assert expected("nanotron", 8, pp=2) == 1
    assert expected("megatron-core", 512, pp=8) == 1


def test_arrays_of_layouts_get_what_each_would_get_alone():
    pp, dp = np.array([1, 2, 4]), np.array([256, 8, 128])
    many = Layout.arrays(pp=pp, dp=dp, micro_batch=1).resolved(pp * dp)
    found = expected_slowdown(framework_or_default("nanotron"), many, MACHINE)
    alone = [expected("nanotron", int(p * d), pp=int(p)) for p, d in zip(pp, dp, strict=True)]
    assert found == pytest.approx(alone)
