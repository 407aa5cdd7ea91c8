"""The register of first contacts: what a version said of sources that nobody had seen.

Rows of `catalogue/first_contacts` are frozen before anything is predicted; each is predicted once,
by the version of that day, and its line in the register never changes. Judges are in it, but no fit
reads their lines.
"""

import csv
import io
from collections import defaultdict
from collections.abc import Callable, Sequence
from math import exp, log
from statistics import fmean, median

from bench import commit
from bench.fit.files import rows_of
from bench.fit.intervals import FEWEST, residual
from syncwall.answer.interval import REGISTER, Z80, interval, register_lines
from syncwall.catalogue import BUILT_IN
from syncwall.validate.evaluation import ValidatedRun, outcomes
from syncwall.validate.mapping import cases_of
from syncwall.validate.table import row_doubt

CONTACTS = BUILT_IN / "first_contacts"


def register(check: bool = False) -> int:
    """Predict frozen tables that the register does not have, once, and add them to it.

    What a version could not describe then is no first contact later. With --check nothing is
    predicted: 1 if a table is missing.
    """
    known = register_lines()
    seen = {line["frozen"] for line in known}
    cases = []
    for table in sorted(CONTACTS.glob("*.csv")):
        if table.stem not in seen:
            rows = (row for row in rows_of([table]) if not row_doubt(row))
            cases += [(table.stem, case) for case in cases_of(rows)]
    if check or not cases:
        print(f"{len(known)} first contacts, {len(cases)} are missing")
        return int(bool(cases))
    found, version = outcomes([case for _, case in cases]), commit()
    lines = [_line(one, frozen, version) for one, (frozen, _) in zip(found, cases, strict=True)]
    stream = io.StringIO()
    writer = csv.DictWriter(stream, list(lines[0]), lineterminator="\n")
    writer.writeheader()
    writer.writerows([*known, *lines])
    REGISTER.write_text(stream.getvalue(), encoding="utf-8")
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


Line = dict[str, str]
TOPICS: dict[str, Callable[[Line], bool]] = {
    "all": lambda line: True,
    "a device with a calibration of its own": lambda line: line["calibrated"] == "True",
    "a device without": lambda line: line["calibrated"] != "True",
    "PyTorch": lambda line: line["framework"] == "pytorch",
    "Megatron": lambda line: line["framework"].startswith("megatron"),
    "DeepSpeed": lambda line: line["framework"] == "deepspeed",
    "unknown framework": lambda line: line["framework"] == "unknown",
    "hidden size up to 2,048": lambda line: int(line["hidden"]) <= 2048,
    "hidden size above": lambda line: int(line["hidden"]) > 2048,
    "adapters": lambda line: line["frozen_weights"] == "True",
    "experts": lambda line: line["experts"] == "True",
    "one GPU": lambda line: int(line["gpus"]) == 1,
    "more than eight GPUs": lambda line: int(line["gpus"]) > 8,
}
"""What first contacts are told apart by."""


def topics() -> list[tuple[str, int, int, float, float, float]]:
    """Of every topic: organisations, runs, mean error, share inside the interval, middle ratio."""
    lines = register_lines()
    found = []
    for name, belongs in TOPICS.items():
        owners = _owners([line for line in lines if belongs(line)])
        if owners:
            errors = [fmean(abs(float(one["ratio"]) - 1) for one in some) for some in owners]
            inside = [fmean(_is_inside(one) for one in some) for some in owners]
            ratios = [exp(median(log(float(one["ratio"])) for one in some)) for some in owners]
            runs = sum(map(len, owners))
            found.append((name, len(owners), runs, fmean(errors), fmean(inside), median(ratios)))
    return found


def _owners(lines: Sequence[Line]) -> list[list[Line]]:
    by_owner: dict[str, list[Line]] = defaultdict(list)
    for line in lines:
        by_owner[line["organisation"]].append(line)
    return [some for some in by_owner.values() if len(some) >= FEWEST]


def _is_inside(line: Line) -> bool:
    return abs(log(float(line["ratio"]))) <= float(line["half_width"])
