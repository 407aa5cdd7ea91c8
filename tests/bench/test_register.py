"""First contacts are frozen: neither a row nor what was said of it changes."""

from hashlib import sha256

import pytest
from bench.fit.register import CONTACTS, register, topics

from syncwall.answer.interval import REGISTER
from syncwall.validate.table import RowUse, corpus_part, read_tables

FROZEN = {
    "2026-11-18": ("9ea4f37fc97f33a2", "ecb6bd1265d42035"),
    "2026-11-18-2": ("b31766cd08221454", "f13f484b7237123e"),
    "2026-11-18-3": ("63a169be1b575f82", "0333355558f62d53"),
}
"""Of every frozen table, the digests of its rows and of its lines in the register."""


def digest(text: str) -> str:
    return sha256(text.encode()).hexdigest()[:16]


@pytest.mark.parametrize("date", sorted(path.stem for path in CONTACTS.glob("*.csv")))
def test_a_frozen_table_and_its_lines_never_change(date):
    lines = [line for line in REGISTER.read_text().splitlines() if line.startswith(f"{date},")]
    found = digest((CONTACTS / f"{date}.csv").read_text()), digest("\n".join(lines))
    assert found == FROZEN[date]


@pytest.mark.slow
def test_every_frozen_row_that_can_be_described_was_predicted(capsys):
    assert register(check=True) == 0


def test_parts_follow_from_a_hash_of_the_name():
    for row in {row.source: row for row in read_tables(CONTACTS)}.values():
        share = int(sha256(row.source.encode()).hexdigest(), 16) % 100
        part = RowUse.JUDGE if share < 30 else RowUse.CALIBRATION if share < 65 else RowUse.STRUCTURE
        assert corpus_part(row) is part, row.source


def test_judges_are_in_the_register_and_count_in_its_means():
    text = REGISTER.read_text()
    assert all(f",{part}," in text for part in ("judge", "calibration", "structure"))
    name, owners, runs, error, inside, _ = topics()[0]
    assert (name, owners, runs) == ("all", 98, 1117)
    assert error == pytest.approx(0.288, abs=5e-4)
    assert inside == pytest.approx(0.651, abs=5e-3)
