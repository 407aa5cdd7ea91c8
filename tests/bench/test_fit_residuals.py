"""The table of errors is what the model gets wrong now."""

import csv
import io

import pytest
from bench.fit.intervals import MOST_ROWS, residuals

from syncwall.answer.interval import TABLE
from syncwall.validate.table import RowUse
from tests.validate.samples import CORPUS, needs_corpus

NEARLY = 0.003
"""How far a ratio may move before the table must be written again."""


def rows(text: str) -> dict[tuple[str, str], dict[str, str]]:
    return {(row["source"], row["id"]): row for row in csv.DictReader(io.StringIO(text))}


def test_every_row_has_a_part_and_a_sane_ratio():
    committed = rows(TABLE.read_text(encoding="utf-8"))
    assert {row["part"] for row in committed.values()} == set(RowUse) - {RowUse.JUDGE}
    assert all(0.1 < float(row["ratio"]) < 10 for row in committed.values())
    counts: dict[tuple[str, str], int] = {}
    for row in committed.values():
        key = (row["source"], row["part"])
        counts[key] = counts.get(key, 0) + 1
    assert max(counts.values()) <= MOST_ROWS


@needs_corpus
@pytest.mark.slow
def test_the_table_is_up_to_date():
    found, committed = (
        rows(residuals([CORPUS, CORPUS.parent / "runs_second"])),
        rows(TABLE.read_text(encoding="utf-8")),
    )
    assert found.keys() == committed.keys()
    for key, row in found.items():
        before = committed[key]
        assert float(row.pop("ratio")) == pytest.approx(float(before.pop("ratio")), abs=NEARLY), key
        assert float(row.pop("waiting")) == pytest.approx(float(before.pop("waiting")), abs=NEARLY)
        assert row == before, key
