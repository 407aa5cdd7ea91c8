"""How much nodes differ, from pairs of runs that are alike in all but their number of nodes."""

from collections import defaultdict
from collections.abc import Iterator, Sequence
from itertools import pairwise

import numpy as np

from bench import Dirs
from bench.fit.rows import readable, rows_of
from syncwall.cause import Cause
from syncwall.timeline.step import slowest_of
from syncwall.validate.evaluation import ValidatedRun, outcomes
from syncwall.validate.mapping import cases_of
from syncwall.validate.table import RunRow

_SIZES = ("mbs", "seq_len", "tp", "pp", "cp", "ep", "vpp", "gpus_per_node")
SAME = ("gpu", "model", "shard", "recompute", "precision", "framework", "options", *_SIZES)
"""Columns in which the runs of a pair do not differ."""
SOURCES = ("dgxc-benchmarking", "mosaic-llm-foundry")
"""Calibration sources with series of runs from 2 nodes on."""
BROKEN = 0.05
"""Pairs that the model misses by more than this have another cause than their nodes."""


def fit(directories: Dirs) -> None:
    """Print `RankFit.jitter` of each source: the standard deviation of a node's step time.

    DIR holds tables of published runs. Two runs of a calibration source that are alike in all but
    the number of nodes (and the batch that grows with them) tell what more nodes cost, whatever
    the model gets wrong of both.
    """
    rows = readable(rows_of(directories))
    for source in SOURCES:
        found = list(_pairs(rows[source]))
        grown, missing = (np.array(column) for column in zip(*found, strict=True))
        deviation = float(grown @ missing / (grown @ grown))
        print(f"{source}: {deviation:.4f} from {len(found)} pairs")


def _pairs(rows: Sequence[RunRow]) -> Iterator[tuple[float, float]]:
    """Growth of the slowest node's lead, and of the time that nothing else explains."""
    series: dict[tuple[object, ...], list[ValidatedRun]] = defaultdict(list)
    for outcome in outcomes(cases_of(rows)):
        row = outcome.case.row
        each = round(row.whole("gbs") / row.whole("gpus"), 5)
        series[(*(row.text(name) for name in SAME), each)].append(outcome)
    for runs in series.values():
        for few, more in pairwise(sorted(runs, key=lambda run: run.case.cluster.nodes)):
            nodes = few.case.cluster.nodes, more.case.cluster.nodes
            if nodes[0] < 2 or nodes[0] == nodes[1]:
                continue
            alone = [run.step_s - run.ledger.get(Cause.STRAGGLER, 0.0) for run in (few, more)]
            measured = np.log(more.case.measured_s / few.case.measured_s)
            missing = measured - np.log(alone[1] / alone[0])
            if abs(missing) < BROKEN:
                yield float(slowest_of(nodes[1]) - slowest_of(nodes[0])), float(missing)
