"""How often runs stall: `python bench/fit/stalls.py DIR [--check]`.

DIR holds the tables of published runs. Reads calibration rows of grade A of the one source with
enough layouts, doubtful ones too, because a run that stalled is what this is about, but none that
does not fit in memory. Regenerates `stalls` and `pipeline_stalls` of catalogue/frameworks/nanotron.
With --check nothing is written; the exit code is 1 if the file would change.
"""

import re
import sys
from collections.abc import Sequence
from pathlib import Path

import numpy as np

from bench.fit.catalogue_values import HF
from bench.fit.search import rounded
from bench.rank_scores import fits_memory
from syncwall.catalogue import BUILT_IN
from syncwall.validate.evaluation import ValidatedRun, outcomes
from syncwall.validate.mapping import cases_of
from syncwall.validate.split import RowUse, part_of
from syncwall.validate.table import RunRow, read_tables

STALLED = 1.5
"""Measured over predicted time from which on a run counts as stalled."""
GPUS = (16, 32, 64, 128, 256, 512)
FILE = BUILT_IN / "frameworks" / "nanotron.yaml"
Fit = dict[str, float]


def read(rows: Sequence[RunRow]) -> list[ValidatedRun]:
    """The runs over several nodes that may be read."""
    chosen = [
        row
        for row in rows
        if row.source == HF and row.grade == "A" and part_of(row) is RowUse.CALIBRATION
    ]
    found = outcomes(cases_of(chosen))
    return [one for one in found if fits_memory(one) and one.case.cluster.nodes > 1]


def fitted(found: Sequence[ValidatedRun]) -> Fit:
    """Logistic regression of stalling on the logarithm of the GPUs, by Newton's method."""
    slower = np.array([1.0 / one.ratio for one in found])
    stalled = 1.0 * (slower > STALLED)
    doublings = np.log2([one.layout.gpus for one in found])
    columns = np.stack([np.ones(len(found)), doublings], axis=1)
    weights = np.zeros(2)
    for _ in range(50):
        share = 1.0 / (1.0 + np.exp(-columns @ weights))
        curvature = (columns * (share * (1.0 - share))[:, None]).T @ columns
        weights = weights + np.linalg.solve(curvature, columns.T @ (stalled - share))
    usual = np.median(slower[slower <= STALLED])
    longer = np.exp(np.mean(np.log(slower[slower > STALLED]))) / usual
    return {
        "half_at_gpus": rounded(float(2.0 ** (-weights[0] / weights[1]))),
        "per_doubling": rounded(float(weights[1])),
        "slowdown": rounded(float(longer)),
    }


def _share(found: Sequence[ValidatedRun], gpus: int) -> str:
    """How many of the runs on `gpus` GPUs stalled."""
    some = [one.ratio < 1.0 / STALLED for one in found if one.layout.gpus == gpus]
    return f"{sum(some)} of {len(some)}"


def rewritten(text: str, fits_by_name: dict[str, Fit]) -> str:
    """`text` of the framework with other values."""
    for name, fit in fits_by_name.items():
        inside = ", ".join(f"{key}: {value:g}" for key, value in fit.items())
        text = re.sub(rf"^{name}: .*$", f"{name}: {{{inside}}}", text, flags=re.MULTILINE)
    return text


def main(arguments: list[str]) -> int:
    """Fit, print, and write or check."""
    found = read(read_tables(Path(arguments[0])))
    groups = {
        "stalls": [one for one in found if one.layout.pp == 1],
        "pipeline_stalls": [one for one in found if one.layout.pp > 1],
    }
    values = {name: fitted(members) for name, members in groups.items()}
    for name, fit in values.items():
        print(f"{name:16} {len(groups[name]):4} runs   {fit}")
        print(" ".join(f"{gpus}: {_share(groups[name], gpus)}" for gpus in GPUS))
    text = rewritten(FILE.read_text(), values)
    same = text == FILE.read_text()
    if not same and "--check" not in arguments:
        FILE.write_text(text)
    print("unchanged" if same else "changed")
    return 1 if "--check" in arguments and not same else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
