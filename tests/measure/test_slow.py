import numpy as np
import pytest

from syncwall.measure.training_step import slow_ranks

HOSTS = ("h0", "h0", "h1", "h1")


def busy(slower: dict[int, float], *, noise: float = 0.15, seed: int = 0) -> list[list[float]]:
    """Work of four ranks in eight steps, some of them slower by a factor."""
    generator = np.random.default_rng(seed)
    times = generator.normal(1.0, noise, (4, 8)).clip(0.3)
    for rank, factor in slower.items():
        times[rank] *= factor
    return [list(rank) for rank in times]


@pytest.mark.parametrize("seed", range(100))
def test_healthy_ranks_are_not_accused(seed):
    assert slow_ranks(busy({}, seed=seed), HOSTS) == ()


@pytest.mark.parametrize("seed", range(100))
def test_a_rank_at_half_the_speed_is_named(seed):
    found = slow_ranks(busy({2: 2.2}, seed=seed), HOSTS)
    assert [(one.host, one.ranks) for one in found] == [("h1", (2,))]


def test_both_ranks_of_a_slow_host_are_one_entry():
    found = slow_ranks(busy({0: 6.0, 1: 6.0}, noise=0.02), HOSTS)
    assert [(one.host, one.ranks) for one in found] == [("h0", (0, 1))]
    assert "host h0 (rank 0, 1) is slow" in str(found[0])


def test_one_slow_step_is_no_slow_rank():
    times = busy({}, noise=0.02)
    times[3][4] = 9.0
    assert slow_ranks(times, HOSTS) == ()


def test_one_rank_has_nobody_to_compare_with():
    assert slow_ranks([[1.0, 2.0]], ("h0",)) == ()
