"""What one node tells of many: larger runs of a source whose runs on one node are known."""

from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from math import log

import numpy as np

from bench import Dirs
from bench.fit.files import rows_of
from bench.fit.register import CONTACTS
from syncwall.answer.known import BROKEN_FROM
from syncwall.answer.site import Covariances, site_prior
from syncwall.validate.evaluation import ValidatedRun, known_steps, outcomes
from syncwall.validate.mapping import cases_of
from syncwall.validate.score import FEWEST, MOST_RUNS, KnownSet, evenly
from syncwall.validate.table import RowUse, RunRow, corpus_part, row_doubt

NODE_GPUS = 8
NOTABLE = 0.1
"""Bias that is worth a measurement."""
_USES = (RowUse.CALIBRATION, RowUse.STRUCTURE)


@dataclass(frozen=True)
class OneNode:
    """A source before and after its runs on one node are known, as ln(predicted / measured)."""

    source: str
    known: np.ndarray
    """Of its runs on one node."""
    before: np.ndarray
    """Of its larger runs."""
    after: np.ndarray
    """Of them, when the others are known."""

    @property
    def is_halved(self) -> bool:
        """True if the bias is at most half of what it was."""
        return bool(abs(self.after.mean()) <= abs(self.before.mean()) / 2)


def site(directories: Dirs) -> None:
    """Larger runs of published sources, known on one node alone: bias and error before and after.

    Sources of the built-in runs, of the tables in DIR... and of the first contacts; judges are left
    out. Errors are means of |ln(predicted / measured)|.
    """
    rows = [row for some in ((), directories, [CONTACTS]) for row in rows_of(some)]
    found = list(one_node(rows))
    print(f"{'source':28} known larger  on one node  bias -> after     error -> after")
    for one in found:
        bias, error = ([f(one) for one in (one.before, one.after)] for f in (np.mean, _error))
        print(
            f"{one.source:28} {len(one.known):5} {len(one.before):6}  {one.known.mean():+11.3f}  "
            f"{bias[0]:+.3f} -> {bias[1]:+.3f}  {error[0]:.3f} -> {error[1]:.3f}{'  halved' * one.is_halved}"
        )
    biased = [one for one in found if abs(one.before.mean()) >= NOTABLE]
    for some, which in ((found, "sources"), (biased, f"that were off by {NOTABLE:g} or more")):
        before, after = (np.mean([_error(each) for each in logs]) for logs in _columns(some))
        share = np.mean([one.is_halved for one in some])
        print(f"bias halved in {share:.0%} of {len(some)} {which}; error {before:.3f} -> {after:.3f}")


def one_node(rows: Sequence[RunRow]) -> Iterator[OneNode]:
    """Every source with runs on one node, and with enough on more."""
    by_source: dict[str, dict[str, RunRow]] = defaultdict(dict)
    for row in rows:
        if corpus_part(row) in _USES and not row_doubt(row):
            by_source[row.source].setdefault(row.id, row)
    for source, members in by_source.items():
        runs = outcomes(cases_of(evenly(list(members.values()), MOST_RUNS)))
        small = np.array([_is_small(run) for run in runs], dtype=bool)
        if small.any() and np.sum(~small) >= FEWEST:
            every = KnownSet.of(known_steps(runs))
            chosen = np.flatnonzero(small & (np.abs(every.logs) < log(BROKEN_FROM)))
            after = -every.logs
            if len(chosen):
                after = every.anchored(chosen[None, :], Covariances(site_prior()))[0]
            yield OneNode(source, -every.logs[small], -every.logs[~small], after[~small])


def _is_small(run: ValidatedRun) -> bool:
    return run.case.cluster.nodes == 1 or run.case.cluster.gpus <= NODE_GPUS


def _error(logs: np.ndarray) -> float:
    return float(np.abs(logs).mean())


def _columns(found: Sequence[OneNode]) -> tuple[list[np.ndarray], list[np.ndarray]]:
    return [one.before for one in found], [one.after for one in found]
