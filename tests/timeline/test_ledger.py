import pytest

from syncwall.cause import Cause
from syncwall.timeline.ledger import Ledger


def test_a_cause_that_was_never_booked_took_no_time():
    assert Ledger()["GEMM"] == 0
    assert Ledger().total == 0


def test_ledgers_add_up():
    total = Ledger({Cause.GEMM: 1.0}).plus(Ledger({Cause.GEMM: 2.0, Cause.HOST: 1.0}), 3)
    assert total.total == pytest.approx(10)
