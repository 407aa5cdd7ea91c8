"""Ledgers of every fortieth built-in run, to nine digits: no predicted number changes unnoticed.

If a change is meant: `python -m tests.validate.test_pinned` writes the file anew; its diff is part
of the change. The same file holds on every Python and NumPy that is admitted.
"""

import json
from pathlib import Path
from typing import Any

import pytest

from syncwall.validate.evaluation import ValidatedRun, outcomes
from syncwall.validate.mapping import cases_of
from syncwall.validate.table import read_tables, row_doubt

FILE = Path(__file__).parents[1] / "data" / "pinned_ledgers.json"
EVERY = 40


def pinned(one: ValidatedRun) -> dict[str, Any]:
    ledger = {str(cause): seconds for cause, seconds in one.ledger.items() if seconds}
    return {
        "step_s": one.step_s,
        "memory_bytes": one.memory_bytes,
        "interval_s": one.interval_s,
        "ledger_s": ledger,
    }


def predicted() -> dict[str, Any]:
    rows = [row for row in read_tables(None) if row_doubt(row) is None][::EVERY]
    return {one.case.row.id: pinned(one) for one in outcomes(cases_of(rows))}


def digits(found: Any) -> Any:
    """The same with numbers of ten digits, so that the file is short."""
    match found:
        case dict():
            return {key: digits(value) for key, value in found.items()}
        case list() | tuple():
            return [digits(value) for value in found]
        case _:
            return float(f"{found:.10g}")


@pytest.fixture(scope="module")
def now() -> dict[str, Any]:
    return predicted()


ACCEPTED = json.loads(FILE.read_text()) if FILE.exists() else {}


def test_the_same_runs_are_predicted(now):
    assert list(now) == list(ACCEPTED)
    assert len(now) > 30


@pytest.mark.parametrize("name", ACCEPTED)
def test_a_ledger_is_the_accepted_one(now, name):
    found, accepted = now[name], ACCEPTED[name]
    assert found.pop("ledger_s") == pytest.approx(accepted.pop("ledger_s"), rel=1e-9, abs=1e-12)
    assert found.pop("interval_s") == pytest.approx(accepted.pop("interval_s"), rel=1e-9)
    assert found == pytest.approx(accepted, rel=1e-9)


if __name__ == "__main__":
    FILE.write_text(json.dumps(digits(predicted()), indent=1) + "\n")
