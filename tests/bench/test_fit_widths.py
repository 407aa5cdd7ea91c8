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
    widths,
)


def made(spread: float, organisations: int = 8, rows: int = 200) -> Errors:
    """Errors of organisations that grow with the second uncertainty."""
    random = np.random.default_rng(7)
    count = organisations * rows
    waiting = random.uniform(0, 1, count)
    names = np.repeat([f"s{number}" for number in range(organisations)], rows)
    size = np.abs(random.normal(0, 0.1 + spread * waiting))
    return Errors(["always", "waiting"], np.column_stack([np.ones(count), waiting]), size, names)


def test_what_widens_errors_gets_its_weight():
    weights = fitted(made(0.3))
    assert weights["always"] == pytest.approx(1.28 * 0.1, rel=0.15)
    assert weights["waiting"] == pytest.approx(1.28 * 0.3, rel=0.15)


def test_what_says_nothing_keeps_the_least():
    assert fitted(made(0.0))["waiting"] == pytest.approx(LEAST["waiting"])


def test_the_errors_of_an_organisation_are_covered_by_what_the_others_say():
    found = made(0.3)
    without = {str(one): fitted(found.of(found.organisations != one)) for one in set(found.organisations)}
    wider = factor(found, without)
    assert 1.0 <= wider < 1.1
    covered = [
        np.mean(one.errors <= wider * widths(one, without[str(one.organisations[0])])) for one in found.owners
    ]
    assert np.mean(covered) >= COVERED


def test_organisations_count_the_same_however_many_runs():
    found = made(0.3)
    long = found.of((found.organisations != "s0") | (np.arange(len(found.errors)) < 20))
    total = {name: long.weights[long.organisations == name].sum() for name in ("s0", "s1")}
    assert total["s0"] == pytest.approx(total["s1"])


def test_the_file_is_what_the_committed_errors_say():
    """If this fails: python -m bench fit widths."""
    assert errors().errors.size > 500
    assert fit_widths(check=True) == 0
