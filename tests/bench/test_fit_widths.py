"""Widths of intervals: a regression that leaves organisations out."""

import numpy as np
import pytest
from bench.fit.intervals import (
    COVERED,
    LEAST,
    Errors,
    errors,
    factor,
    fit_widths,
    fitted,
    held_out,
    widths,
)


def made(spread: float, sources: int = 8, rows: int = 200) -> Errors:
    """Errors of sources of as many organisations that grow with the second doubt."""
    random = np.random.default_rng(7)
    count = sources * rows
    doubt = random.uniform(0, 1, count)
    names = np.repeat([f"s{number}" for number in range(sources)], rows)
    size = np.abs(random.normal(0, 0.1 + spread * doubt))
    return Errors(
        ["always", "waiting"],
        np.column_stack([np.ones(count), doubt]),
        size,
        names,
        names,
        np.full(count, "structure"),
    )


def test_a_doubt_that_widens_errors_gets_its_weight():
    weights = fitted(made(0.3))
    assert weights["always"] == pytest.approx(1.28 * 0.1, rel=0.15)
    assert weights["waiting"] == pytest.approx(1.28 * 0.3, rel=0.15)


def test_a_doubt_that_says_nothing_keeps_the_least():
    assert fitted(made(0.0))["waiting"] == pytest.approx(LEAST["waiting"])


def test_the_errors_of_an_organisation_are_covered_by_what_the_others_say():
    found = made(0.3)
    without = {str(one): fitted(found.of(found.organisations != one)) for one in set(found.organisations)}
    wider = factor(found, without)
    assert 1.0 <= wider < 1.1
    covered = [
        np.mean(one.errors <= wider * widths(one, without[str(one.organisations[0])]))
        for one in held_out(found)
    ]
    assert np.mean(covered) >= COVERED


def test_sources_count_the_same_however_long():
    found = made(0.3)
    long = found.of((found.sources != "s0") | (np.arange(len(found.errors)) < 20))
    total = {name: long.weights[long.sources == name].sum() for name in ("s0", "s1")}
    assert total["s0"] == pytest.approx(total["s1"])


def test_the_file_is_what_the_committed_errors_say():
    """If this fails: python -m bench fit widths."""
    assert errors().errors.size > 1000
    assert fit_widths(check=True) == 0
