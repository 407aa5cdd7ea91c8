import pytest

import syncwall as sw
from syncwall.answer.priced import HIGH, LOW, MemoryMargin, may_fit
from syncwall.work.memory import usable_bytes


def test_the_interval_is_that_of_measured_over_predicted():
    low, high = MemoryMargin(50e9, 80e9).interval_bytes
    assert (low, high) == (LOW * 50e9, HIGH * 50e9)


def test_probabilities_at_the_quantiles():
    assert MemoryMargin(80e9 / HIGH, 80e9).probability == pytest.approx(0.9, abs=1e-4)
    assert MemoryMargin(80e9 / LOW, 80e9).probability == pytest.approx(0.1, abs=1e-4)
    assert MemoryMargin(80e9, 80e9).probability == pytest.approx(0.5)


def test_more_memory_fits_less_likely():
    sure = [MemoryMargin(used * 1e9, 80e9).probability for used in range(20, 120, 5)]
    assert sure == sorted(sure, reverse=True)


def test_what_may_fit_is_more_than_what_fits():
    device = sw.device("h100-sxm")
    size = device.memory.size_bytes
    assert may_fit(usable_bytes(device), device)
    assert may_fit(0.99 * size / LOW, device)
    assert not may_fit(1.01 * size / LOW, device)
