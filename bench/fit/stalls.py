"""How often runs stall: logistic regressions for catalogue/frameworks/nanotron.

Reads calibration rows of grade A of the one source with enough layouts, doubtful ones too, because
a run that stalled is what this is about, but none that does not fit in memory.
"""

import re
from collections.abc import Sequence

import numpy as np

from bench import Dirs
from bench.fit.files import rows_of, update
from bench.fit.search import rounded
from syncwall.catalogue import BUILT_IN
from syncwall.validate.evaluation import ValidatedRun, outcomes
from syncwall.validate.mapping import cases_of
from syncwall.validate.table import RowUse, RunRow, corpus_part

SOURCE = "hf-ultrascale-playbook"
STALLED = 1.5
"""Measured over predicted time from which on a run counts as stalled."""
GPUS = (16, 32, 64, 128, 256, 512)
FILE = BUILT_IN / "frameworks" / "nanotron.yaml"
Fit = dict[str, float]


def read(rows: Sequence[RunRow]) -> dict[str, list[ValidatedRun]]:
    """The runs over several nodes that may be read, without and with a pipeline."""
    graded = (row for row in rows if row.source == SOURCE and row.grade == "A")
    found = outcomes(cases_of(row for row in graded if corpus_part(row) is RowUse.CALIBRATION))
    some = [one for one in found if one.fits and one.case.cluster.nodes > 1]
    return {
        "stalls": [one for one in some if one.layout.pp == 1],
        "pipeline_stalls": [one for one in some if one.layout.pp > 1],
    }


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
    half_at = 2.0 ** (-weights[0] / weights[1])
    names = ("half_at_gpus", "per_doubling", "slowdown")
    values = (rounded(float(one)) for one in (half_at, weights[1], longer))
    return dict(zip(names, values, strict=True))


def rewritten(text: str, fits_by_name: dict[str, Fit]) -> str:
    for name, one in fits_by_name.items():
        inside = ", ".join(f"{key}: {value:g}" for key, value in one.items())
        text = re.sub(rf"^{name}: .*$", f"{name}: {{{inside}}}", text, flags=re.MULTILINE)
    return text


def fit(directories: Dirs, check: bool = False) -> int:
    """Fit `stalls` and `pipeline_stalls` of catalogue/frameworks/nanotron to the runs of DIR...

    With --check nothing is written: 1 if the file would change.
    """
    groups = read(rows_of(directories))
    values = {name: fitted(members) for name, members in groups.items()}
    for name, one in values.items():
        print(f"{name:16} {len(groups[name]):4} runs   {one}")
        for gpus in GPUS:
            some = [run.ratio < 1.0 / STALLED for run in groups[name] if run.layout.gpus == gpus]
            print(f"{gpus}: {sum(some)} of {len(some)}", end="\n" if gpus == GPUS[-1] else " ")
    return update({FILE: rewritten(FILE.read_text(), values)}, check=check)
