"""Fair shares: closed forms, and laws."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from syncwall.network.flows import Usage, fair_rates, fluid_s


def test_the_textbook_example_of_three_flows_on_two_links():
    """Bertsekas and Gallager: the flow over both links gets half of the narrow one."""
    usage = Usage.of([0, 1, 1, 2], [0, 0, 1, 1], [100.0, 50.0])
    assert fair_rates(usage).tolist() == [75.0, 25.0, 25.0]
    assert fluid_s(usage, [1000.0, 1000.0, 500.0]) == pytest.approx([40 / 3, 30.0, 20.0])


def test_fairness_counts_flows_and_not_streams():
    """A ring with two flows on a link beside one with one: three flows, a third each."""
    usage = Usage.of([0, 0, 1], [0, 0, 0], [90.0])
    assert fair_rates(usage).tolist() == [30.0, 30.0]


def test_all_flows_of_a_stream_have_the_pace_of_the_slowest():
    usage = Usage.of([0, 0, 1], [0, 1, 1], [10.0, 100.0])
    assert fair_rates(usage).tolist() == [10.0, 90.0]


def test_two_equal_jobs_on_one_link_take_twice_as_long():
    usage = Usage.of([0, 1], [0, 0], [50.0])
    assert fluid_s(usage, [100.0, 100.0]).tolist() == [4.0, 4.0]


def test_the_longer_of_two_jobs_has_the_link_alone_in_the_end():
    usage = Usage.of([0, 1], [0, 0], [50.0])
    assert fluid_s(usage, [100.0, 300.0]) == pytest.approx([4.0, 8.0])


@st.composite
def usages(draw):
    links, streams = draw(st.integers(1, 12)), draw(st.integers(1, 15))
    rates = draw(st.lists(st.floats(1.0, 100.0), min_size=links, max_size=links))
    ways = [draw(st.lists(st.integers(0, links - 1), min_size=1, max_size=5)) for _ in range(streams)]
    stream = np.repeat(np.arange(streams), [len(way) for way in ways])
    return Usage.of(stream, np.concatenate(ways), rates)


@given(usages())
def test_no_link_is_overfull_and_every_stream_has_a_full_one(usage):
    rates = fair_rates(usage)
    used = np.bincount(usage.link, rates[usage.stream] * usage.flows, len(usage.rates))
    assert (used <= usage.rates * (1 + 1e-9)).all()
    full = used >= usage.rates * (1 - 1e-9)
    assert np.bincount(usage.stream, full[usage.link], usage.streams).all()


def load_bound_s(usage: Usage, flow_bytes: float | np.ndarray) -> float:
    """Time that the busiest link needs: nothing can end sooner."""
    sent = np.broadcast_to(flow_bytes, usage.streams)[usage.stream] * usage.flows
    return float((np.bincount(usage.link, sent, len(usage.rates)) / usage.rates).max(initial=0.0))


@given(usages(), st.floats(1.0, 1e9))
def test_equal_flows_end_when_the_busiest_link_has_carried_them(usage, size):
    assert fluid_s(usage, size).max() == pytest.approx(load_bound_s(usage, size), rel=1e-9)


@given(usages(), st.lists(st.floats(1.0, 1e6), min_size=15, max_size=15))
def test_nothing_ends_before_the_bound_and_batches_stay_near(usage, sizes):
    sizes = np.array(sizes[: usage.streams])
    exact = fluid_s(usage, sizes)
    assert exact.max() >= load_bound_s(usage, sizes) * (1 - 1e-9)
    assert fluid_s(usage, sizes, batch=0.01).max() == pytest.approx(exact.max(), rel=0.15)
