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


def with_sequences(count: int) -> sw.Prediction:
    layout = sw.Layout(shard="fsdp", recompute="none", micro_batch=count, global_batch=8 * count)
    return sw.predict(sw.Run(model="llama-3.1-8b", cluster="dgx-h100", nodes=1, seq=2048, layout=layout))


def test_a_tight_run_is_not_called_impossible():
    """With more and more sequences a run fits, is tight, and does not fit."""
    found = [with_sequences(count) for count in (4, 5, 6, 7)]
    size = sw.device("h100-sxm").memory.size_bytes
    levels = [(one.fits, one.has_headroom) for one in found]
    assert levels == [(True, True), (True, False), (True, False), (False, False)]
    for one in found:
        assert one.has_headroom == (one.memory_bytes <= 0.95 * size)
        assert one.fits == (LOW * one.memory_bytes <= size)
        assert ("likely to fit" in one.verdict.text) == (one.fits and not one.has_headroom)
        assert ("memory will probably not suffice" in one.verdict.text) <= (one.room.probability < 0.5)
        assert (one.verdict.kind == "does not fit") == (not one.fits)
        assert one.exit_code == int(not one.fits)


def test_what_is_proposed_for_a_tight_run_has_headroom():
    proposed = [sw.predict(one.run) for one in sw.improvements(with_sequences(5))]
    assert proposed
    assert all(one.has_headroom for one in proposed)
