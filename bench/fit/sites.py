"""How much sites and nodes differ: catalogue/tuning/sites.yaml, and `RankFit.jitter`.

The deviations with which 1, 3 and 5 known runs of a source, drawn by lot, bring its other runs
nearest. The likelihood is not used: a few runs that stalled would make every deviation large.
First contacts count with the errors of the register: the constants of the model were fitted on the
other sources, whose own bias is therefore smaller than that of a stranger's runs.
"""

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import pairwise
from math import log

import numpy as np

from bench import Dirs
from bench.fit.files import readable, rows_of, update, with_block
from bench.fit.register import CONTACTS
from bench.fit.search import Values, search
from syncwall.answer.interval import register_lines
from syncwall.answer.site import FILE, Covariances, SitePrior
from syncwall.cause import Cause
from syncwall.documents import read_document
from syncwall.timeline.step import slowest_of
from syncwall.validate.evaluation import ValidatedRun, known_steps, outcomes
from syncwall.validate.mapping import cases_of
from syncwall.validate.score import KnownSet, evenly
from syncwall.validate.table import RunRow

START: Values = {
    "gemm": 0.1,
    "attention": 0.1,
    "elementwise": 0.15,
    "network": 0.2,
    "host": 0.15,
    "step": 0.05,
    "setup": 0.1,
    "reach": 0.8,
}
"""Between sites, before any fit: submitters of the same configuration differ by 5 to 10%; waits
differ more than kernels do."""
LIMITS = {name: (value / 4, value * 4) for name, value in START.items()}
STIFFNESS = 0.01
"""Loss of moving a deviation by a factor e: the sources are few."""
CLIP = 0.7
"""Largest |ln(predicted / measured)| that counts."""
SECOND_COLLECTION = ("aleph-alpha-layouts-2023",)
"""Sources beside those of the split that fits may read."""
MOST_ROWS = 100
FEWEST_RUNS = 6
"""Runs of a source of which five can be known."""
COUNTS = (1, 3, 5)
_SAME_SIZES = ("mbs", "seq_len", "tp", "pp", "cp", "ep", "vpp", "gpus_per_node")
SAME = ("gpu", "model", "shard", "recompute", "precision", "framework", "options", *_SAME_SIZES)
"""Columns in which the runs of a pair do not differ."""
SERIES = ("dgxc-benchmarking", "mosaic-llm-foundry")
"""Calibration sources with series of runs from 2 nodes on."""
BROKEN = 0.05
"""Pairs that the model misses by more than this have another cause than their nodes."""


def read(rows: Sequence[RunRow]) -> dict[str, KnownSet]:
    """Calibration sources with enough runs, those of the register as they were first predicted."""
    first = {line["id"]: float(line["ratio"]) for line in register_lines()}
    found = {}
    for source, members in readable(rows, SECOND_COLLECTION).items():
        some = outcomes(cases_of(evenly(members, MOST_ROWS)))
        if len(some) >= FEWEST_RUNS:
            ratios = [first.get(one.case.row.id, one.ratio) for one in some]
            steps = zip(known_steps(some), ratios, strict=True)
            found[source] = KnownSet.of([replace(step, ratio=1.0 / ratio) for step, ratio in steps])
    return found


def model_of(between: Values) -> Covariances:
    """What runs have for themselves stays as it is: errors tell only what sites differ over that."""
    return Covariances(SitePrior.of(between, read_document(FILE).value["within"]))


def fitted(sets: Mapping[str, KnownSet]) -> Values:
    def loss(values: Values) -> float:
        model = model_of(values)
        left = [one.left(count, model) for one in sets.values() for count in COUNTS]
        errors = [np.minimum(np.abs(one), CLIP).mean() for one in left]
        moved = sum(log(value / START[name]) ** 2 for name, value in values.items())
        return float(np.mean(errors)) + STIFFNESS * moved

    return search(loss, START, LIMITS, pairs=False)


def fit_sites(directories: Dirs, check: bool = False) -> int:
    """Fit catalogue/tuning/sites.yaml to DIR...: the first and the second collection of runs.

    The first contacts of calibration organisations are always read. Prints the error of each
    source, alone and with 1, 3 and 5 known runs. With --check nothing is written: 1 if the file
    would change.
    """
    sets = read([*rows_of(directories), *rows_of([CONTACTS])])
    values = fitted(sets)
    model = model_of(values)
    for source, one in sets.items():
        each = [float(np.abs(np.expm1(one.left(count, model))).mean()) for count in COUNTS]
        known = " / ".join(f"{error:.1%}" for error in each)
        plain = float(np.abs(np.expm1(-one.logs)).mean())
        print(f"{source:28} {len(one.logs):4} runs   {plain:.1%} -> {known}")
    counts = ", ".join(f"{source} {len(one.logs)}" for source, one in sets.items())
    said = f"Least error of the other runs after 1, 3 and 5 known ones; calibration rows: {counts}."
    text = with_block(FILE.read_text(), "between", values, {"sites": said})
    return update({FILE: text}, check=check)


def fit_nodes(directories: Dirs) -> None:
    """Print `RankFit.jitter` of each source: the standard deviation of a node's step time.

    DIR holds tables of published runs. Two runs of a calibration source that are alike in all but
    the number of nodes (and the batch that grows with them) tell what more nodes cost, whatever
    the model gets wrong of both.
    """
    rows = readable(rows_of(directories))
    for source in SERIES:
        found = list(_node_pairs(rows[source]))
        grown, missing = (np.array(column) for column in zip(*found, strict=True))
        deviation = float(grown @ missing / (grown @ grown))
        print(f"{source}: {deviation:.4f} from {len(found)} pairs")


def _node_pairs(rows: Sequence[RunRow]) -> Iterator[tuple[float, float]]:
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
