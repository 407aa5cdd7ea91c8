"""The register of first contacts: what a version said of sources that nobody had seen.

Rows of `catalogue/first_contacts` are frozen before anything is predicted; each is predicted once,
by the version of that day, and its line in the register never changes. Judges are in it, but no fit
reads their lines.
"""

import csv
import io
import subprocess
from pathlib import Path

from bench import ROOT
from bench.fit.intervals import residual
from syncwall.answer.interval import REGISTER, Z80, interval
from syncwall.catalogue import BUILT_IN
from syncwall.validate.evaluation import ValidatedRun, outcomes
from syncwall.validate.mapping import cases_of
from syncwall.validate.table import read_tables, row_doubt

CONTACTS = BUILT_IN / "first_contacts"


def register(check: bool = False) -> int:
    """Predict frozen rows that the register does not have, once, and add them to it.

    With --check nothing is predicted: 1 if a frozen row is missing.
    """
    known = list(csv.DictReader(REGISTER.open(encoding="utf-8"))) if REGISTER.exists() else []
    ids = {line["id"] for line in known}
    cases = []
    for table in sorted(CONTACTS.glob("*.csv")):
        rows = [row for row in read_tables(table) if row.id not in ids and not row_doubt(row)]
        cases += [(table.stem, case) for case in cases_of(rows)]
    if check or not cases:
        print(f"{len(known)} first contacts, {len(cases)} are missing")
        return int(bool(cases))
    words = ["git", "rev-parse", "--short", "HEAD"]
    version = subprocess.run(words, capture_output=True, text=True, check=True, cwd=ROOT).stdout.strip()
    found = outcomes([case for _, case in cases])
    lines = [_line(one, frozen, version) for one, (frozen, _) in zip(found, cases, strict=True)]
    stream = io.StringIO()
    writer = csv.DictWriter(stream, list(lines[0]), lineterminator="\n")
    writer.writeheader()
    writer.writerows([*known, *lines])
    Path(REGISTER).write_text(stream.getvalue(), encoding="utf-8")
    print(f"{len(lines)} first contacts added")
    return 0


def _line(one: ValidatedRun, frozen: str, version: str) -> dict[str, str]:
    known = interval(one.traits, waiting=one.waiting, unsaid=one.unsaid)
    tokens = one.case.seq * int(one.layout.micro_batch or 1)
    return {
        "frozen": frozen,
        "version": version,
        **residual(one),
        "hidden": f"{one.case.model.hidden}",
        "tokens": f"{tokens}",
        "decoder": f"{one.traits.decoder}",
        "adapters": f"{one.layout.lora is not None}",
        "half_width": f"{Z80 * known.deviation:.3f}",
        "fits": f"{one.fits}",
    }
