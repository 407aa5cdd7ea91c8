import numpy as np
import pytest

from syncwall.cause import Cause
from syncwall.timeline.ledger import Ledger


def test_scaling_scales_every_cause_and_leaves_the_first_alone():
    first = Ledger({Cause.GEMM: 2.0, Cause.HOST: np.array([1.0, 0.5])})
    found = first.scaled(1.5)
    assert list(found) == ["GEMM", "host"]
    np.testing.assert_allclose(found.total, np.asarray(first.total) * 1.5)
    assert first["GEMM"] == 2.0


def test_scaling_by_one_changes_nothing():
    first = Ledger({Cause.GEMM: 2.0})
    assert dict(first.scaled(1.0)) == dict(first)


def test_a_cause_that_was_never_booked_took_no_time():
    assert Ledger()["GEMM"] == 0
    assert Ledger().scaled(3.0).total == 0


def test_ledgers_add_up():
    total = Ledger({Cause.GEMM: 1.0}).plus(Ledger({Cause.GEMM: 2.0, Cause.HOST: 1.0}), 3)
    assert total.total == pytest.approx(10)
